"""Watts over time from the log of a power monitor, and their mean over windows.

A CSV log has a column of time and one of power, or of current and voltage, each with its unit in
its name, as Monsoon's and INA boards' programs write them: `Time (s)`, `Main Avg Power (mW)`,
`timestamp[ms]`, `current_mA`, `bus_voltage_V`. Other names are given as COLUMN[unit]. A sample
holds until the next. Samples are sorted by time, and those of one moment become their mean; both
are counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import ColumnChoice, column_choice, numbers_of, times_of
from fleetsim.fleet.traces.csv_table import CsvTable, read_csv_table
from fleetsim.units import A_OF, S_OF, V_OF, W_OF

_UNIT = re.compile(r"[\[(\s_]?(uWs|uW|mW|W|uA|mA|A|uV|mV|V|ns|us|ms|s)[\])]?\s*$")
_NUM_BLOCKS = 10
_Window = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PowerColumns:
    """Columns of a log as given, COLUMN[unit]; None: found by their names."""

    time: str | None = None
    power: str | None = None
    current: str | None = None
    voltage: str | None = None
    """Column, or a constant such as 3.85."""


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

    def mean_w(self, windows: Sequence[_Window]) -> MeanPower:
        """Return the mean power over windows of seconds after the first sample.

        Raises:
            DataError: a window is empty or not inside the log.
        """
        for begin, end in windows:
            if not 0.0 <= begin < end <= self.end_s:
                raise DataError(
                    f"{self.name}: the window {begin:g}:{end:g} s is not inside the log, which"
                    f" lasts {self.end_s:g} s; give seconds after its first sample"
                )
        lasts_s = sum(end - begin for begin, end in windows)
        energy_j = sum(self._energy_j(begin, end) for begin, end in windows)
        blocks = [
            self._energy_j(low, high) / (high - low)
            for begin, end in windows
            for low, high in _blocks(begin, end)
        ]
        num = sum(
            int(np.searchsorted(self.at_s, end) - np.searchsorted(self.at_s, begin))
            for begin, end in windows
        )
        error_w = float(np.std(blocks, ddof=1) / math.sqrt(len(blocks)))
        return MeanPower(energy_j / lasts_s, error_w, lasts_s, num)

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
    num_samples: int


def _blocks(begin: float, end: float) -> list[_Window]:
    edges = np.linspace(begin, end, _NUM_BLOCKS + 1).tolist()
    return list(pairwise(edges))


def read_power_csv(path: Path, columns: PowerColumns) -> PowerLog:
    """Read a CSV log.

    Raises:
        ScenarioError: a unit is missing or unknown.
        DataError: the file cannot be read, a column is missing, or a value is no number.
    """
    table = read_csv_table(path)
    at_s = times_of(table, _chosen(table, "--time", columns.time, S_OF, "time")).at_s
    power_w = _power(table, columns)
    kept = np.flatnonzero(~(np.isnan(at_s) | np.isnan(power_w)))
    notes = [f"{table.num_rows} rows read"]
    if table.num_rows > kept.size:
        notes.append(f"{table.num_rows - kept.size} rows left out without a time or a power")
    return power_log(str(path), at_s[kept], power_w[kept], notes)


def power_log(name: str, at_s: FloatArray, power_w: FloatArray, notes: Sequence[str]) -> PowerLog:
    """Return the log of samples in any order, with what was joined in its notes.

    Raises:
        DataError: fewer than two moments.
    """
    num_unordered = int(np.count_nonzero(np.diff(at_s) < 0.0))
    moments, which = np.unique(at_s, return_inverse=True)
    if moments.size < 2:
        raise DataError(f"{name}: holds fewer than two samples; log at least a minute")
    joined = at_s.size - moments.size
    mean_w = np.bincount(which, power_w) / np.bincount(which)
    said = [*notes]
    said += [f"{num_unordered} rows earlier than the row above; sorted"] if num_unordered else []
    said += [f"{joined} rows of the same moment as another; joined to their mean"] if joined else []
    since_s = moments - moments[0]
    end_s = float(since_s[-1] + np.median(np.diff(moments)))
    return PowerLog(name, since_s, mean_w, end_s, tuple(said))


def _power(table: CsvTable, columns: PowerColumns) -> FloatArray:
    """Return the watts of every row, from a column of power, or of current times voltage."""
    is_found = _found(table, W_OF, None) is not None
    if columns.power is not None or (columns.current is None and is_found):
        choice = _chosen(table, "--power-column", columns.power, W_OF, "power")
        return numbers_of(table, choice, choice.factor(W_OF))
    current = _chosen(table, "--current", columns.current, A_OF, "power, or of current")
    current_a = numbers_of(table, current, current.factor(A_OF))
    if columns.voltage is not None and _is_number(columns.voltage):
        return current_a * float(columns.voltage)
    voltage = _chosen(table, "--voltage", columns.voltage, V_OF, "voltage")
    return current_a * numbers_of(table, voltage, voltage.factor(V_OF))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _chosen(
    table: CsvTable, option: str, given: str | None, units: Mapping[str, float], what: str
) -> ColumnChoice:
    """Return the column that is given, or the first whose name ends in one of the units.

    Raises:
        ScenarioError: none is given and none is found.
    """
    if given is not None:
        return column_choice(option, given)
    found = _found(table, units, what)
    if found is None:
        raise ScenarioError(
            f"device calibrate: {table.path}, row 1: no column of {what} with a unit of"
            f" {', '.join(units)} in its name; name it: {option} 'COLUMN[unit]'"
        )
    return ColumnChoice(option, *found)


def _found(
    table: CsvTable, units: Mapping[str, float], what: str | None
) -> tuple[str, str | None] | None:
    for name in table.columns:
        unit = _UNIT.search(name)
        if unit is not None and unit[1] in units:
            return name, unit[1]
    if what == "time":
        for name in table.columns:
            if "time" in name.lower():
                return name, None
    return None
