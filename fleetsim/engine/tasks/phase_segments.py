"""What tasks have used, leg by leg.

A leg is a stretch of one stage that a task lives through without an interruption, and the wait
before it. Legs are opened in the order of time, each for some of the tasks; without interruptions a
stage is one leg.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray


class Stage(IntEnum):
    """What a task does, in this order."""

    DOWNLOAD = 0
    COMPUTE = 1
    UPLOAD = 2


class Used(IntEnum):
    """What is booked for each leg and task."""

    SECONDS = 0
    """At work, without the wait."""
    DONE = 1
    """Bits of a transfer, unloaded seconds of a computation."""
    SPENT_J = 2
    """Of the stage's own component."""
    IDLE_J = 3
    TAIL_J = 4
    PAUSED_S = 5
    """Waited before it."""
    SHARE = 6
    """Part of the whole computation."""
    NUM_SAMPLES = 7
    """Samples of a computation that began in it."""


class Legs:
    """Arrays by leg and task; what is booked of tasks that are not in a leg is 0."""

    def __init__(self, size: int, now_s: float) -> None:
        """Books of n tasks that are sent out now."""
        expected = len(Stage)
        self.stages: list[Stage] = []
        """Of every leg."""
        self.used: FloatArray = np.zeros((len(Used), expected, size))
        self.is_in: BoolArray = np.zeros((expected, size), dtype=np.bool_)
        """Which tasks wait or work in it."""
        self.ends_s: FloatArray = np.full((expected, size), now_s)
        self.priorities: IntArray = np.zeros((expected, size), dtype=np.int64)
        """Of the events at its end."""
        self._begins_s: FloatArray = np.full((expected, size), now_s)
        """When the wait before it is over; inf if never."""
        self._now_s = now_s

    def open(self, stage: Stage, again: int) -> int:
        """The leg of a stage for tasks that have so many of it behind them; returns its number."""
        if self.stages.count(stage) > again:
            return self.stages.index(stage) + again
        if len(self.stages) == len(self.is_in):
            self.used = np.concatenate([self.used, np.zeros_like(self.used)], axis=1)
            self.is_in = np.concatenate([self.is_in, np.zeros_like(self.is_in)])
            self.priorities = np.concatenate([self.priorities, np.zeros_like(self.priorities)])
            now_s = np.full_like(self.ends_s, self._now_s)
            self.ends_s = np.concatenate([self.ends_s, now_s])
            self._begins_s = np.concatenate([self._begins_s, now_s])
        self.stages.append(stage)
        return len(self.stages) - 1

    def wait(
        self,
        leg: int,
        rows: IntArray,
        from_s: FloatArray,
        until_s: FloatArray,
        priorities: IntArray,
        is_lost: BoolArray,
    ) -> None:
        """Tasks wait before a leg, all [k]; those that are lost do not come to more."""
        self.is_in[leg, rows] = True
        self.used[Used.PAUSED_S, leg, rows] = until_s - from_s
        self._begins_s[leg, rows] = np.where(is_lost, np.inf, until_s)
        self.ends_s[leg, rows], self.priorities[leg, rows] = until_s, priorities

    def under_way(self, at_s: float, after: int) -> IntArray:
        """The leg of each task that has not ended when this event happens [n]; else 0."""
        is_to_come = self.is_in & comes_after(self.ends_s, self.priorities, at_s, after)
        leg: IntArray = is_to_come.argmax(axis=0)
        return leg

    def is_waiting(self, leg: int, rows: IntArray, at_s: float) -> BoolArray:
        """Whether tasks [k] in a leg wait before it at a moment; whoever begins then still does."""
        has_waited = self.used[Used.PAUSED_S, leg, rows] > 0.0
        waiting: BoolArray = has_waited & (self._begins_s[leg, rows] >= at_s)
        return waiting

    def cut_wait(self, leg: int, rows: IntArray, at_s: float) -> FloatArray:
        """Tasks [k] wait before a leg up to a moment and then end; when they last worked [k]."""
        before_s = np.where(self.is_in[:leg, rows], self.ends_s[:leg, rows], self._now_s)
        worked_s: FloatArray = before_s.max(axis=0, initial=self._now_s)
        self.used[:, leg, rows] = 0.0
        self.used[Used.PAUSED_S, leg, rows] = at_s - worked_s
        self.ends_s[leg, rows] = at_s
        return worked_s

    def forget(self, leg: int, rows: IntArray) -> None:
        """Tasks do not come to a leg after all."""
        self.is_in[leg, rows] = False
        self.used[:, leg, rows] = 0.0

    def by_stage(self, what: Used) -> FloatArray:
        """What tasks used in each stage, added up in order of time [3, n]."""
        if self.stages == list(Stage):
            by_stage: FloatArray = self.used[what]
            return by_stage
        total = np.zeros((len(Stage), self.is_in.shape[1]))
        for leg, stage in enumerate(self.stages):
            total[stage] += self.used[what, leg]
        return total

    def total(self, what: Used) -> FloatArray:
        """What tasks used in all, added up in order of time [n]."""
        # Not by numpy's sum: in what order it adds up depends on the number of tasks.
        total = np.zeros(self.is_in.shape[1])
        for used in self.used[what]:
            total += used
        return total

    def num_pauses(self) -> IntArray:
        """How often tasks waited [n]."""
        count: IntArray = (self.used[Used.PAUSED_S] > 0.0).sum(axis=0)
        return count


def comes_after(time_s: FloatArray, priority_: IntArray, at_s: float, after: int) -> BoolArray:
    """Whether events come after the one of priority `after` at `at_s`; all of one shape."""
    later: BoolArray = (time_s > at_s) | ((time_s == at_s) & (priority_ > after))
    return later
