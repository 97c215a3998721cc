"""Clients that have answered and wait for the server: whether their idle power is charged.

A client is enlisted from its dispatch until the server lets it go. Up to the end of its task its
idle power is part of the task. A synchronous server lets go of the clients that have answered when
it closes the round, and of those that answered a probe when it has chosen; until then they stay
awake and draw their idle power, which is what a straggler costs the others. The wait ends early
where the owner takes the device away, the process dies or the battery meets its cut-off. A client
whose task was lost has left the round, and one that is called off (late, cancelled) is free at
that moment: neither waits. A buffered server takes every answer when it comes, and nobody waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, Outcome
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.tasks.task_batch import Course
from fleetsim.engine.world import World
from fleetsim.settings import Settings


class EnergySettings(Settings):
    """What energy is charged to the federation besides that of the tasks."""

    idle: Literal["charged", "not_charged"] = "charged"
    """The idle power of clients that have answered and wait, enlisted, until the round is closed:
    charged to them, or left out."""


class Enlisted:
    """The clients of one round that have answered and still wait."""

    def __init__(self, world: World, settings: EnergySettings) -> None:
        self._world = world
        self.is_charged = settings.idle == "charged"
        self._tasks: list[Task] = []
        """The last task of each."""
        self._since_s = np.empty(0)
        """Up to when each has been charged."""
        self._lost_at_s = np.empty(0)
        """When each leaves by itself, if it is not let go before."""

    def call(self, tasks: Sequence[Task]) -> None:
        """These clients are sent out again and no longer wait."""
        called = {task.client for task in tasks}
        self._keep(np.array([task.client not in called for task in self._tasks], dtype=np.bool_))

    def answered(self, course: Course, now_s: float) -> None:
        """The tasks of a course are over and charged to the world; who delivered waits."""
        if not self.is_charged:
            return
        rows = course.is_delivered().nonzero()[0]
        tasks = [course.tasks[row] for row in rows.tolist()]
        assert all(task.outcome is Outcome.DELIVERED for task in tasks)
        self._tasks += tasks
        self._since_s = np.concatenate([self._since_s, course.end_s[rows]])
        self._lost_at_s = np.concatenate([self._lost_at_s, course.lost_at_s(rows)])
        self._wait(now_s)

    def let_go(self) -> None:
        """Nobody waits any more; all have been charged up to now."""
        self._keep(np.zeros(len(self._tasks), dtype=np.bool_))

    def _wait(self, now_s: float) -> None:
        """Charge everybody up to now."""
        until_s = np.minimum(self._lost_at_s, now_s)
        waits = (until_s > self._since_s).nonzero()[0]
        if waits.size:
            clients = np.array([self._tasks[row].client for row in waits.tolist()], dtype=np.int64)
            joules, ends_s = self._world.wait(clients, self._since_s[waits], until_s[waits])
            for row, spent_j in zip(waits.tolist(), joules.tolist(), strict=True):
                task = self._tasks[row]
                assert task.enlisted_idle_j is not None
                task.enlisted_idle_j += spent_j
            until_s[waits] = ends_s
        self._since_s = np.full(len(self._tasks), now_s)
        self._keep(until_s >= now_s)

    def _keep(self, stays: BoolArray) -> None:
        self._tasks = [task for task, stay in zip(self._tasks, stays.tolist(), strict=True) if stay]
        self._since_s, self._lost_at_s = self._since_s[stays], self._lost_at_s[stays]
