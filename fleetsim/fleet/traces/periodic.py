"""Records that repeat, and the exact step in force for a client at any moment of any lap.

A record is a row of steps over [0, span) whole seconds that repeats for ever. A client follows one
record with a shift: its lap k begins at the whole second k * span - shift. Every change is at a
whole second, so the step in force at t is the one at floor(t), and all further arithmetic is in
integers: edges are exact for any number of laps (up to t = 2**53 s).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.traces.ordered_rows import durations
from fleetsim.fleet.traces.usage.trace import is_change
from fleetsim.read_only import freeze

_NEVER = -1


def _finite(t_s: ArrayLike) -> FloatArray:
    time_s = np.asarray(t_s, dtype=np.float64)
    is_finite = np.isfinite(time_s)
    if not is_finite.all():
        raise ValueError(f"time must be finite, got {time_s[~is_finite][0]}")
    return time_s


class _Position(NamedTuple):
    """Places of clients in their records, each [n]."""

    row: IntArray
    step: IntArray
    second: IntArray
    """Virtual time, floored."""
    local_s: IntArray
    """Second of the record."""


@dataclass(frozen=True, slots=True, eq=False)
class PeriodicSteps:
    """Records of R rows with C steps in all, and the row that each of N clients follows.

    Invariants: every row has a step at 0; times strictly increase within a row and stay below its
    span; neighbouring steps of a row differ (but the last may equal the first).
    """

    row: IntArray
    """Record of every client [N]."""
    shift_s: IntArray
    """Seconds by which every client is ahead of its record [N]."""
    span_s: IntArray
    """Length of every record [R]."""
    offsets: IntArray
    """Index of each record's first step, and the end of the last record [R+1]."""
    times_s: IntArray
    """Second of its record at which each step begins [C]."""
    first_change_s: IntArray
    """Second of each record at which the first change of every lap is [R]; -1: never."""

    _times: memoryview[int] = field(init=False, repr=False)
    """`times_s` in a form from which Python reads single numbers faster."""

    def __post_init__(self) -> None:
        freeze(self.row, self.shift_s, self.span_s)
        freeze(self.offsets, self.times_s, self.first_change_s)
        object.__setattr__(self, "_times", np.ascontiguousarray(self.times_s).data)

    @classmethod
    def merged(
        cls,
        row: IntArray,
        shift_s: IntArray,
        span_s: IntArray,
        offsets: IntArray,
        times_s: IntArray,
        columns: Sequence[NDArray[np.generic]],
    ) -> tuple[Self, IntArray]:
        """Return the steps at which any column changes, and each one's index among the changes."""
        kept = np.flatnonzero(is_change(offsets, columns))
        merged_offsets = np.searchsorted(kept, offsets).astype(np.int64)
        first, last = kept[merged_offsets[:-1]], kept[merged_offsets[1:] - 1]
        has_seam = np.zeros(span_s.size, dtype=np.bool_)
        for column in columns:
            has_seam |= column[first] != column[last]
        times_s = times_s[kept]
        is_constant = np.diff(merged_offsets) == 1
        second = np.where(is_constant, 0, merged_offsets[:-1] + 1)
        first_change_s = np.where(has_seam, 0, np.where(is_constant, _NEVER, times_s[second]))
        return cls(row, shift_s, span_s, merged_offsets, times_s, first_change_s), kept

    @property
    def _never_changes(self) -> bool:
        """True if every record is one step for ever, as in a fleet without people."""
        return self.times_s.size == self.span_s.size

    def locate(self, clients: IntArray, t_s: ArrayLike) -> _Position:
        """Return the places of clients [n] at `t_s` (a time for all, or one each [n])."""
        row, time_s = self.row[clients], _finite(t_s)
        second = np.floor(time_s).astype(np.int64) + np.zeros_like(row)
        local_s = (second + self.shift_s[clients]) % self.span_s[row]
        # Bisection in every row at once: times[low] <= local < times[high].
        low, high = self.offsets[row], self.offsets[row + 1]
        most = int((high - low).max(initial=1))
        for _ in range((most - 1).bit_length()):
            middle = (low + high) >> 1
            begun = self.times_s[middle] <= local_s
            low = np.where(begun, middle, low)
            high = np.where(begun, high, middle)
        return _Position(row, low, second, local_s)

    def step_at(self, clients: IntArray, t_s: ArrayLike) -> IntArray:
        """Return the index of the step in force [n]."""
        if self._never_changes:
            _finite(t_s)
            return self.row[clients]
        return self.locate(clients, t_s).step

    def next_change_after(self, clients: IntArray, t_s: ArrayLike) -> FloatArray:
        """Return the first time after `t_s` at which another step is in force [n]; inf: never."""
        return self.step_and_change(clients, t_s)[1]

    def step_and_change(self, clients: IntArray, t_s: ArrayLike) -> tuple[IntArray, FloatArray]:
        """Return `step_at` and `next_change_after`."""
        if self._never_changes:
            _finite(t_s)
            step = self.row[clients]
            return step, np.full(step.shape, np.inf)
        row, step, second, local_s = self.locate(clients, t_s)
        is_last = step + 1 == self.offsets[row + 1]
        in_this_lap = self.times_s[np.where(is_last, step, step + 1)]
        first_change_s = self.first_change_s[row]
        change_s = np.where(is_last, self.span_s[row] + first_change_s, in_this_lap)
        change_s = (second - local_s + change_s).astype(np.float64)
        change_s[first_change_s == _NEVER] = np.inf
        return step, change_s

    def next_change_after_one(self, client: int, t_s: float) -> float:
        """Return `next_change_after` of one client."""
        row, step, second, local_s = self.locate_one(client, t_s)
        if step + 1 < self.offsets.item(row + 1):
            return float(second - local_s + self._times[step + 1])
        first_change_s = self.first_change_s.item(row)
        if first_change_s == _NEVER:
            return math.inf
        return float(second - local_s + self.span_s.item(row) + first_change_s)

    def locate_one(self, client: int, t_s: float) -> tuple[int, int, int, int]:
        """Return `locate` of one client: (row, step, second, local_s)."""
        if not math.isfinite(t_s):
            raise ValueError(f"time must be finite, got {t_s}")
        row: int = self.row.item(client)
        second = math.floor(t_s)
        local_s: int = (second + self.shift_s.item(client)) % self.span_s.item(row)
        first, end = self.offsets.item(row), self.offsets.item(row + 1)
        step = bisect_right(self._times, local_s, first, end) - 1
        return row, step, second, local_s


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Times at which something is true of each client: a boolean of `PeriodicSteps`."""

    steps: PeriodicSteps
    is_true: BoolArray
    """Value of each step [C]; neighbouring steps of a row differ."""
    true_before_s: IntArray
    """True seconds of the record before each step begins [C]."""
    true_per_lap_s: IntArray
    """True seconds of each record [R]."""

    def __post_init__(self) -> None:
        freeze(self.is_true, self.true_before_s, self.true_per_lap_s)

    @classmethod
    def of(cls, steps: PeriodicSteps, is_true: BoolArray) -> Schedule:
        """Return the schedule of a value of each step [C]."""
        steps, kept = PeriodicSteps.merged(
            steps.row, steps.shift_s, steps.span_s, steps.offsets, steps.times_s, (is_true,)
        )
        is_true = is_true[kept]
        lasts_s = durations(steps.times_s, steps.offsets, steps.span_s)
        up_to = np.concatenate([[0], np.cumsum(lasts_s * is_true)])
        at_row = up_to[steps.offsets]
        before_s = up_to[:-1] - np.repeat(at_row[:-1], np.diff(steps.offsets))
        return cls(steps, is_true, before_s, np.diff(at_row))

    def is_at(self, clients: IntArray, t_s: ArrayLike) -> BoolArray:
        """Return the value for clients [n] at `t_s` (a time for all, or one each [n])."""
        return self.is_true[self.steps.step_at(clients, t_s)]

    def next_change_after(self, clients: IntArray, t_s: ArrayLike) -> FloatArray:
        """Return the first time after `t_s` at which the value changes [n]; inf: never."""
        return self.steps.next_change_after(clients, t_s)

    def state_and_change(self, clients: IntArray, t_s: ArrayLike) -> tuple[BoolArray, FloatArray]:
        """Return `is_at` and `next_change_after`."""
        step, change_s = self.steps.step_and_change(clients, t_s)
        return self.is_true[step], change_s

    def next_true_after(self, clients: IntArray, t_s: ArrayLike) -> FloatArray:
        """Return the first time from `t_s` on at which it is true [n]; inf: never."""
        return np.where(self.is_at(clients, t_s), t_s, self.next_change_after(clients, t_s))

    def seconds_true(self, clients: IntArray, t0_s: ArrayLike, t1_s: ArrayLike) -> FloatArray:
        """Return the seconds in [t0, t1) in which it is true of clients [n], with one rounding."""
        if np.any(np.asarray(t1_s) < np.asarray(t0_s)):
            raise ValueError(
                f"the interval must not end before it begins, got [{t0_s!r}, {t1_s!r})"
            )
        whole_0_s, part_0_s = self._true_until(clients, t0_s)
        whole_1_s, part_1_s = self._true_until(clients, t1_s)
        return (whole_1_s - whole_0_s) + (part_1_s - part_0_s)

    def is_at_one(self, client: int, t_s: float) -> bool:
        """Return `is_at` of one client."""
        return bool(self.is_true[self.steps.locate_one(client, t_s)[1]])

    def next_change_after_one(self, client: int, t_s: float) -> float:
        """Return `next_change_after` of one client."""
        return self.steps.next_change_after_one(client, t_s)

    def _true_until(self, clients: IntArray, t_s: ArrayLike) -> tuple[IntArray, FloatArray]:
        """Return the true seconds from the start of lap 0 to floor(t), and from there to t."""
        row, step, second, local_s = self.steps.locate(clients, t_s)
        lap = (second + self.steps.shift_s[clients] - local_s) // self.steps.span_s[row]
        is_true = self.is_true[step]
        whole_s = (
            lap * self.true_per_lap_s[row]
            + self.true_before_s[step]
            + is_true * (local_s - self.steps.times_s[step])
        )
        return whole_s, is_true * (np.asarray(t_s, dtype=np.float64) - second)
