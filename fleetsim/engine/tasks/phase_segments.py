"""Time and resources that tasks used, by phase segment.

A phase segment is a part of a phase without an interruption, and the pause before it. Segments are
opened in the order of time, each for some of the tasks. Without interruptions a phase has one.
"""

from enum import IntEnum

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray


class Phase(IntEnum):
    """Phase of a task; tasks pass through them in this order."""

    DOWNLOAD = 0
    COMPUTE = 1
    UPLOAD = 2


class Used(IntEnum):
    """Quantity that is recorded for each segment and task."""

    SECONDS = 0
    """Seconds at work, without the pause."""
    DONE = 1
    """Bits of a transfer, or seconds of a computation on an idle device."""
    SPENT_J = 2
    """Joules of the phase's own component."""
    IDLE_J = 3
    TAIL_J = 4
    PAUSED_S = 5
    """Seconds of the pause before it."""
    SHARE = 6
    NUM_SAMPLES = 7
    """Samples of a computation that began in it."""


class PhaseSegments:
    """Arrays by segment and task; 0 for tasks that do not reach a segment."""

    def __init__(self, size: int, now_s: float) -> None:
        expected = len(Phase)
        self.phases: list[Phase] = []
        self.used: FloatArray = np.zeros((len(Used), expected, size))
        self.is_in: BoolArray = np.zeros((expected, size), dtype=np.bool_)
        self.ends_s: FloatArray = np.full((expected, size), now_s)
        self.priorities: IntArray = np.zeros((expected, size), dtype=np.int64)
        self._begins_s: FloatArray = np.full((expected, size), now_s)
        """Moments at which the pauses before it end; inf if never."""
        self._now_s = now_s

    def open(self, phase: Phase, again: int) -> int:
        """Return the index of a phase's segment after `again` earlier ones; open a new one."""
        if self.phases.count(phase) > again:
            return self.phases.index(phase) + again
        if len(self.phases) == len(self.is_in):
            self.used = np.concatenate([self.used, np.zeros_like(self.used)], axis=1)
            self.is_in = np.concatenate([self.is_in, np.zeros_like(self.is_in)])
            self.priorities = np.concatenate([self.priorities, np.zeros_like(self.priorities)])
            now_s = np.full_like(self.ends_s, self._now_s)
            self.ends_s = np.concatenate([self.ends_s, now_s])
            self._begins_s = np.concatenate([self._begins_s, now_s])
        self.phases.append(phase)
        return len(self.phases) - 1

    def pause(
        self,
        index: int,
        rows: IntArray,
        from_s: FloatArray,
        until_s: FloatArray,
        priorities: IntArray,
        is_lost: BoolArray,
    ) -> None:
        """Record pauses of tasks before a segment, all [k]; lost tasks do not work in it."""
        self.is_in[index, rows] = True
        self.used[Used.PAUSED_S, index, rows] = until_s - from_s
        self._begins_s[index, rows] = np.where(is_lost, np.inf, until_s)
        self.ends_s[index, rows], self.priorities[index, rows] = until_s, priorities

    def under_way(self, at_s: float, after: int) -> IntArray:
        """Return the segment of each task that has not ended at this event [n]; else 0."""
        is_to_come = self.is_in & comes_after(self.ends_s, self.priorities, at_s, after)
        index: IntArray = is_to_come.argmax(axis=0)
        return index

    def is_paused(self, index: int, rows: IntArray, at_s: float) -> BoolArray:
        """Return whether tasks [k] pause before a segment; at the end of the pause they do."""
        has_paused = self.used[Used.PAUSED_S, index, rows] > 0.0
        paused: BoolArray = has_paused & (self._begins_s[index, rows] >= at_s)
        return paused

    def cut_pause(self, index: int, rows: IntArray, at_s: float) -> FloatArray:
        """End tasks [k] in their pause before a segment; return when they last worked [k]."""
        before_s = np.where(self.is_in[:index, rows], self.ends_s[:index, rows], self._now_s)
        worked_s: FloatArray = before_s.max(axis=0, initial=self._now_s)
        self.used[:, index, rows] = 0.0
        self.used[Used.PAUSED_S, index, rows] = at_s - worked_s
        self.ends_s[index, rows] = at_s
        return worked_s

    def forget(self, index: int, rows: IntArray) -> None:
        """Take tasks out of a segment that they do not reach."""
        self.is_in[index, rows] = False
        self.used[:, index, rows] = 0.0

    def by_phase(self, what: Used) -> FloatArray:
        """Return what tasks used in each phase, added up in order of time [3, n]."""
        if self.phases == list(Phase):
            by_phase: FloatArray = self.used[what]
            return by_phase
        total = np.zeros((len(Phase), self.is_in.shape[1]))
        for index, phase in enumerate(self.phases):
            total[phase] += self.used[what, index]
        return total

    def total(self, what: Used) -> FloatArray:
        """Return what tasks used in total, added up in order of time [n]."""
        # Not by numpy's sum, whose order depends on the number of tasks.
        total = np.zeros(self.is_in.shape[1])
        for used in self.used[what]:
            total += used
        return total

    def num_pauses(self) -> IntArray:
        """Return the number of pauses of each task [n]."""
        count: IntArray = (self.used[Used.PAUSED_S] > 0.0).sum(axis=0)
        return count


def comes_after(time_s: FloatArray, priority_: IntArray, at_s: float, after: int) -> BoolArray:
    """Return whether events come after the one of priority `after` at `at_s`; shape kept."""
    later: BoolArray = (time_s > at_s) | ((time_s == at_s) & (priority_ > after))
    return later
