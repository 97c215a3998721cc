"""Clients that have answered and wait for the server, and the idle power that they draw.

A synchronous server releases clients when it closes the round, and after a probe when it has
selected. The wait ends early where the owner takes the device away, the process crashes or the
battery meets its cut-off level. On a buffered server no client waits.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray
from fleetsim.engine.tasks.task import Task, TaskResult
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.engine.world import World
from fleetsim.settings import Settings


class EnergySettings(Settings):
    """Energy that is charged besides that of the tasks."""

    idle: Literal["charged", "not_charged"] = "charged"
    """Treatment of the idle power of clients that have answered and wait, enlisted, until the round
    is closed."""


class WaitingClients:
    """Clients of one round that have answered and wait for the server."""

    def __init__(self, world: World, settings: EnergySettings) -> None:
        self._world = world
        self.is_charged = settings.idle == "charged"
        self._tasks: list[Task] = []
        self._since_s = np.empty(0)
        """Moment up to which each has been charged."""
        self._joules: dict[int, float] = {}
        self._lost_at_s = np.empty(0)
        """Moment at which each leaves by itself if it is not released before."""

    def dispatch(self, tasks: Sequence[Task]) -> None:
        """Stop the waiting of clients that are dispatched again."""
        if not self._tasks:
            return
        called = {task.client for task in tasks}
        self._keep(np.array([task.client not in called for task in self._tasks], dtype=np.bool_))

    def add(self, batch: TaskBatch, now_s: float) -> None:
        """Let the clients wait that delivered in a batch, which is charged to the world."""
        if not self.is_charged:
            return
        rows = batch.is_delivered().nonzero()[0]
        tasks = [batch.tasks[row] for row in rows.tolist()]
        self._tasks += tasks
        self._since_s = np.concatenate([self._since_s, batch.end_s[rows]])
        self._lost_at_s = np.concatenate([self._lost_at_s, batch.lost_at_s(rows)])
        self._wait(now_s)

    def release(self) -> None:
        """Release all clients, which have been charged up to now."""
        self._keep(np.zeros(len(self._tasks), dtype=np.bool_))

    def take_joules(self, result: TaskResult) -> float | None:
        """Return the joules of waiting after a task, once; None where they are not charged."""
        return self._joules.pop(result.task.number, 0.0) if self.is_charged else None

    def _wait(self, now_s: float) -> None:
        until_s = np.minimum(self._lost_at_s, now_s)
        waits = (until_s > self._since_s).nonzero()[0]
        if waits.size:
            clients = np.array([self._tasks[row].client for row in waits.tolist()], dtype=np.int64)
            joules, ends_s = self._world.wait(clients, self._since_s[waits], until_s[waits])
            for row, spent_j in zip(waits.tolist(), joules.tolist(), strict=True):
                number = self._tasks[row].number
                self._joules[number] = self._joules.get(number, 0.0) + spent_j
            until_s[waits] = ends_s
        self._since_s = np.full(len(self._tasks), now_s)
        self._keep(until_s >= now_s)

    def _keep(self, stays: BoolArray) -> None:
        self._tasks = [task for task, stay in zip(self._tasks, stays.tolist(), strict=True) if stay]
        self._since_s, self._lost_at_s = self._since_s[stays], self._lost_at_s[stays]
