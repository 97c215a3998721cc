"""Watts over time from the log of a power monitor, and their mean over windows.

A sample holds until the next. Samples are sorted by time, and those of one moment become their
mean; both are counted. A step between two samples that fills more than `_MOST_GAP_FRACTION` of a
window, and is longer than `_MOST_STEPS` median ones, is a gap in the log and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from fleetsim.calibration.power_columns import PowerColumns, seconds_of, watts_of
from fleetsim.contracts import FloatArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.column_choice import counted
from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.table_rows import SEEN, Layout

_NUM_BLOCKS = 10
_MOST_GAP_FRACTION = 0.1
_MOST_STEPS = 3.0
_Window = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class PowerLog:
    """Power that holds from each moment to the next."""

    name: str
    at_s: FloatArray
    """Seconds after the first sample, ascending [S]."""
    power_w: FloatArray
    """[S]"""
    end_s: float
    """End of the last sample, which lasts as long as the median one."""
    notes: tuple[str, ...] = ()
    place: Callable[[int], str] | None = None
    """File and row of a sample by its index; None: the file has no rows."""
    is_counter: bool = False
    """True for power between two counts of energy: a long step is exact but at a window's ends."""

    def mean_w(self, windows: Sequence[_Window]) -> MeanPower:
        """Return the mean power over windows of seconds after the first sample."""
        nums = []
        for begin, end in windows:
            if not 0.0 <= begin < end <= self.end_s:
                raise DataError(
                    f"{self.name}: the window {begin:g}:{end:g} s is not inside the log, which"
                    f" lasts {self.end_s:g} s; give seconds after its first sample"
                )
            first, stop = np.searchsorted(self.at_s, (begin, end)).tolist()
            nums.append(stop - first)
            self._require_samples(begin, end, nums[-1])
        lasts_s = sum(end - begin for begin, end in windows)
        energy_j = sum(self._energy_j(begin, end) for begin, end in windows)
        blocks = [
            self._energy_j(low, high) / (high - low)
            for begin, end in windows
            for low, high in pairwise(np.linspace(begin, end, _NUM_BLOCKS + 1).tolist())
        ]
        error_w = float(np.std(blocks, ddof=1) / math.sqrt(len(blocks)))
        return MeanPower(energy_j / lasts_s, error_w, lasts_s, tuple(nums))

    def _require_samples(self, begin: float, end: float, num: int) -> None:
        """Refuse a window without samples, or with a gap between two."""
        window = f"the window {begin:g}:{end:g} s"
        if num == 0:
            raise DataError(f"{self.name}: {window} holds no sample; choose another, or log more")
        edges = np.append(self.at_s, self.end_s)
        step_s, inside_s = np.diff(edges), np.diff(edges.clip(begin, end))
        is_gap = (inside_s > _MOST_GAP_FRACTION * (end - begin)) & (
            step_s > _MOST_STEPS * np.median(step_s)
        )
        if self.is_counter:
            is_gap &= (edges[:-1] < begin) | (edges[1:] > end)
        for gap in np.flatnonzero(is_gap)[:1].tolist():
            place = self.name if self.place is None else self.place(gap)
            share = float(inside_s[gap]) / (end - begin)
            raise DataError(
                f"{place}: the next sample comes {step_s[gap]:g} s later, a gap of {share:.0%} of"
                f" {window}; at most {_MOST_GAP_FRACTION:.0%} may be one, so choose another window"
                " or log again"
            )

    def _energy_j(self, begin_s: float, end_s: float) -> float:
        edges = np.append(self.at_s, self.end_s).clip(begin_s, end_s)
        return float(np.dot(np.diff(edges), self.power_w))


@dataclass(frozen=True, slots=True)
class MeanPower:
    """Mean power over windows of a log."""

    mean_w: float
    standard_error_w: float
    """By the scatter of ten blocks of each window."""
    lasts_s: float
    num_samples: tuple[int, ...]
    """Of each window."""


def read_power_csv(path: Path, columns: PowerColumns, layout: Layout = SEEN) -> PowerLog:
    """Read a CSV log."""
    table = read_csv_table(path, layout)
    at_s, power_w = seconds_of(table, columns), watts_of(table, columns)
    kept = np.flatnonzero(~(np.isnan(at_s) | np.isnan(power_w)))
    left_out = counted(table.num_rows - kept.size, "left out without a time or a power")
    notes = [f"{table.num_rows} rows read", *table.notes, *left_out]
    return power_log(
        str(path), at_s[kept], power_w[kept], notes, lambda row: table.place(int(kept[row]))
    )


def power_log(
    name: str,
    at_s: FloatArray,
    power_w: FloatArray,
    notes: Sequence[str],
    place: Callable[[int], str] | None = None,
) -> PowerLog:
    """Return the log of samples in any order, with what was joined added to its notes.

    `at_s` are moments on any clock [R], `power_w` the power from each on [R]; `place` gives file
    and row of each.
    """
    num_unordered = int(np.count_nonzero(np.diff(at_s) < 0.0))
    moments, first, which = np.unique(at_s, return_index=True, return_inverse=True)
    if moments.size < 2:
        raise DataError(f"{name}: holds fewer than two samples; log at least a minute")
    joined = at_s.size - moments.size
    mean_w = np.bincount(which, power_w) / np.bincount(which)
    lines = (
        *notes,
        *counted(num_unordered, "earlier than the row above; sorted"),
        *counted(joined, "of the same moment as another; joined to their mean"),
    )
    since_s = moments - moments[0]
    end_s = float(since_s[-1] + np.median(np.diff(moments)))
    own = None if place is None else lambda sample: place(int(first[sample]))
    return PowerLog(name, since_s, mean_w, end_s, lines, own)
