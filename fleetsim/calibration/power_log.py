"""Watts over time from the log of a power monitor, and their mean over windows.

Columns are found by the units and words of their names, which state units as whole words, as the
programs of Monsoon, INA boards and others write them. Several columns that could be the same
quantity, and one without a unit, are refused with the option that names it. Refused are also values
that stand for none, and those whose sign is not that of the whole column. A column below 0
throughout is a discharge: its sign is turned, which the notes say.

A sample holds until the next. Samples are sorted by time, and those of one moment become their
mean; both are counted. A step between two samples that fills more than `_MOST_GAP_FRACTION` of a
window, and is longer than `_MOST_STEPS` median ones, is a gap in the log and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import (
    ColumnChoice,
    column_choice,
    counted,
    refuse,
    texts_of,
)
from fleetsim.fleet.traces.column_numbers import is_number, numbers_of, refuse_marks, times_of
from fleetsim.fleet.traces.column_units import is_named, unit_in, words_of
from fleetsim.fleet.traces.csv_table import CsvTable, read_csv_table
from fleetsim.fleet.traces.table_rows import SEEN, Layout
from fleetsim.quoting import quoted
from fleetsim.units import A_OF, S_OF, V_OF, W_OF

_NUM_BLOCKS = 10
_MOST_GAP_FRACTION = 0.1
_MOST_STEPS = 3.0
Window = tuple[float, float]
_QUANTITIES: Final[Mapping[str, tuple[str, Mapping[str, float]]]] = {
    "time": ("--time", S_OF),
    "power": ("--power-column", W_OF),
    "current": ("--current", A_OF),
    "voltage": ("--voltage", V_OF),
}
"""Option that names the column of each quantity, and its units."""


@dataclass(frozen=True, slots=True, eq=False)
class PowerLog:
    """Power that holds from each moment to the next."""

    name: str
    at_s: FloatArray
    """Seconds after the first row of the log, ascending [S]."""
    power_w: FloatArray
    """[S]"""
    end_s: float
    """End of the last sample, which lasts as long as the median one."""
    notes: tuple[str, ...] = ()
    place: Callable[[int], str] | None = None
    """File and row of a sample by its index; None: the file has no rows."""
    is_counter: bool = False
    """True for power between two counts of energy: a long step is exact but at a window's ends."""

    def mean_w(self, windows: Sequence[Window]) -> MeanPower:
        """Return the mean power over windows of seconds after the first row."""
        nums, num_zero = [], 0
        for begin, end in windows:
            if not self.at_s[0] <= begin < end <= self.end_s:
                raise DataError(
                    f"{self.name}: the window {begin:g}:{end:g} s is not inside the log, whose"
                    f" samples are of {self.at_s[0]:g} to {self.end_s:g} s; give seconds after its"
                    " first row"
                )
            first, stop = np.searchsorted(self.at_s, (begin, end)).tolist()
            nums.append(stop - first)
            num_zero += int(np.count_nonzero(self.power_w[first:stop] == 0.0))
            self._require_samples(begin, end, nums[-1])
        lasts_s = sum(end - begin for begin, end in windows)
        energy_j = sum(self._energy_j(begin, end) for begin, end in windows)
        blocks = [
            self._energy_j(low, high) / (high - low)
            for begin, end in windows
            for low, high in pairwise(np.linspace(begin, end, _NUM_BLOCKS + 1).tolist())
        ]
        error_w = float(np.std(blocks, ddof=1) / math.sqrt(len(blocks)))
        return MeanPower(energy_j / lasts_s, error_w, lasts_s, tuple(nums), num_zero)

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
    num_zero: int
    """Samples of exactly 0 W, which a device that runs does not draw."""


def read_power_csv(path: Path, columns: PowerColumns, layout: Layout = SEEN) -> PowerLog:
    """Read a CSV log."""
    table = read_csv_table(path, layout)
    at_s, power_w = seconds_of(table, columns), watts_of(table, columns)
    kept = np.flatnonzero(~(np.isnan(at_s) | np.isnan(power_w)))
    left_out = counted(table.num_rows - kept.size, "left out without a time or a power")
    notes = [f"{table.num_rows} rows read", *table.notes, *left_out]
    return power_log(
        str(path),
        at_s[kept],
        power_w[kept],
        notes,
        lambda row: table.place(int(kept[row])),
        start_s=float(np.min(at_s, initial=math.inf, where=~np.isnan(at_s))),
    )


def power_log(
    name: str,
    at_s: FloatArray,
    power_w: FloatArray,
    notes: Sequence[str],
    place: Callable[[int], str] | None = None,
    *,
    start_s: float,
) -> PowerLog:
    """Return the log of samples in any order, with what was joined added to its notes.

    `at_s` are moments on any clock [R], `power_w` the power from each on [R]; `place` gives file
    and row of each. `start_s` is the first moment of the log, with a sample or without.
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
    since_s = moments - start_s
    end_s = float(since_s[-1] + np.median(np.diff(moments)))
    place_of = None if place is None else lambda sample: place(int(first[sample]))
    return PowerLog(name, since_s, mean_w, end_s, lines, place_of)


@dataclass(frozen=True, slots=True)
class PowerColumns:
    """Columns of a log as given, COLUMN or COLUMN[unit]; None: found by their names."""

    time: str | None = None
    power: str | None = None
    current: str | None = None
    voltage: str | None = None
    """Column, or a constant such as 3.85."""


def seconds_of(table: CsvTable, columns: PowerColumns) -> FloatArray:
    """Return the moments of the rows in seconds [num_rows]; NaN where one is missing."""
    if columns.time is not None:
        choice = column_choice("--time", columns.time)
    else:
        choice = _named_column(table, "time") or _dates(table)
    unit = choice.unit
    if unit is None:
        is_date = _holds_dates(table, choice)
        unit = "dates" if is_date else unit_in(choice.column, S_OF) or "s"
    table.notes.append(f"time: {quoted(choice.column)} in {unit}")
    if unit != "dates":
        choice = ColumnChoice(choice.option, choice.column, unit)
    return times_of(table, choice).at_s


def watts_of(table: CsvTable, columns: PowerColumns) -> FloatArray:
    """Return the power of every row [num_rows]; NaN where it is missing."""
    is_product = columns.current is not None or columns.voltage is not None
    if columns.power is not None or not is_product:
        power = _chosen(table, "power", columns.power)
        if power is not None:
            return _values(table, "power", power)
    current = _chosen(table, "current", columns.current)
    if current is None:
        raise _none(table, "current" if is_product else "power")
    current_a = _values(table, "current", current)
    if columns.voltage is not None and not math.isnan(constant := _constant(columns.voltage)):
        table.notes.append(f"voltage: {constant:g} V, as given")
        return current_a * constant
    voltage = _chosen(table, "voltage", columns.voltage)
    if voltage is None:
        raise _none(table, "voltage")
    voltage_v = _values(table, "voltage", voltage)
    message = "is no voltage at which a current flows; correct it or leave it empty"
    refuse(table, voltage, (voltage_v == 0.0) & (current_a > 0.0), message, is_mark=True)
    return current_a * voltage_v


def _chosen(table: CsvTable, quantity: str, given: str | None) -> ColumnChoice | None:
    """Return the column that is given, or that states a unit of the quantity; None: none does."""
    if given is None:
        return _named_column(table, quantity)
    option, units = _QUANTITIES[quantity]
    choice = column_choice(option, given)
    return ColumnChoice(option, choice.column, choice.unit or unit_in(choice.column, units))


def _named_column(table: CsvTable, quantity: str) -> ColumnChoice | None:
    """Return the column whose name states a unit of the quantity; None: none does.

    Times are many in a log, such as latency_ms: that of the rows is called so, or as its unit.
    """
    option, units = _QUANTITIES[quantity]
    result = {name: unit for name in table.columns if (unit := unit_in(name, units))}
    if quantity == "time":
        is_one = {name: is_named(name, "time") or len(words_of(name)) == 1 for name in result}
        result = {name: unit for name, unit in result.items() if is_one[name]}
    _require_one(table, quantity, list(result))
    return next((ColumnChoice(option, name, unit) for name, unit in result.items()), None)


def _dates(table: CsvTable) -> ColumnChoice:
    """Return the column of dates."""
    names = [name for name in table.columns if is_named(name, "time")]
    _require_one(table, "time", names)
    choice = ColumnChoice("--time", names[0], None) if names else None
    if choice is None or not _holds_dates(table, choice):
        raise _none(table, "time")
    return choice


def _holds_dates(table: CsvTable, choice: ColumnChoice) -> bool:
    """Return True for a column whose first value is no number."""
    texts = (text for text in texts_of(table, choice) if not table.layout.is_missing(text))
    first = next(texts, None)
    return first is not None and not is_number(first)


def _require_one(table: CsvTable, quantity: str, names: list[str]) -> None:
    if len(names) > 1:
        listed = ", ".join(map(quoted, names[:6]))
        raise ScenarioError(
            f"device calibrate: {table.path}, row 1: {len(names)} columns could be the {quantity}:"
            f" {listed}; pass which, such as {_QUANTITIES[quantity][0]} {quoted(names[0])}"
        )


def _none(table: CsvTable, quantity: str) -> ScenarioError:
    """Return the error about a quantity that no column states with a unit."""
    option, units = _QUANTITIES[quantity]
    place = f"device calibrate: {table.path}, row 1"
    for name in table.columns:
        if is_named(name, quantity):
            return ScenarioError(
                f"{place}: column {quoted(name)} states no unit of {quantity} that is known; pass"
                f" {option} '{name.strip()}[UNIT]' with one of {', '.join(units)}"
            )
    what = "power, or of current," if quantity == "power" else quantity
    return ScenarioError(
        f"{place}: no column of {what} with a unit of {', '.join(units)} in its name; the columns"
        f" are {', '.join(map(quoted, list(table.columns)[:12]))}; name it: {option}"
        " 'COLUMN[UNIT]'"
    )


def _values(table: CsvTable, quantity: str, choice: ColumnChoice) -> FloatArray:
    """Return a column in SI units, above 0 as far as its values can be [num_rows]."""
    factor = choice.factor(_QUANTITIES[quantity][1])
    written = numbers_of(table, choice, 1.0)
    table.notes.append(f"{quantity}: {quoted(choice.column)} in {choice.unit}")
    refuse_marks(table, choice, written)
    below, above = written < 0.0, written > 0.0
    if below.any() and not above.any():
        table.notes.append(
            f"{quoted(choice.column)} is below 0 throughout, as of a discharge; its sign is turned"
        )
        return -written * factor
    num_below, num_above = int(np.count_nonzero(below)), int(np.count_nonzero(above))
    hint = "correct it, leave it empty, or cut the log to where the device was not charged"
    if num_below <= num_above:
        wrong, message = below, f"is below 0, and {num_above} values of the column are above"
    else:
        wrong, message = above, f"is above 0, and {num_below} values of the column are below"
    refuse(table, choice, wrong, f"{message}; {hint}", is_mark=True)
    return written * factor


def _constant(text: str) -> float:
    """Return a voltage that is given as a number; NaN: it is the name of a column."""
    try:
        constant = float(text)
    except ValueError:
        return math.nan
    if not 0.0 < constant < math.inf:
        raise ScenarioError(f"device calibrate: --voltage {text}: must be above 0 V")
    return constant
