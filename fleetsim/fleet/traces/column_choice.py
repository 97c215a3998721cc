"""Columns of a table that its owner names: `COLUMN` or `COLUMN[unit]`, and their values.

A fault names the file, the first row at fault, the column and the value, and how many rows are at
fault like it, so that a file is corrected once and not row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.csv_table import CsvTable
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import nearest
from fleetsim.units import S_OF

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
"""Words, in lower case, that stand for a value that was not measured."""

_MOST_S = 1e11
_MOST_SHOWN = 12
_ALL = "all"


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """A column, and its unit if one is given."""

    option: str
    """Option of the command that names it, such as `--rate`."""
    column: str
    unit: str | None

    def factor(self, factors: Mapping[str, float], *, default: str | None = None) -> float:
        """Return the value of one of the column's units.

        Args:
            factors: value of one of each unit that may be named.
            default: unit where none is given; None: one must be.

        Raises:
            ScenarioError: the unit is missing or unknown.
        """
        unit = default if self.unit is None else self.unit
        known = ", ".join(factors)
        if unit is not None and unit in factors:
            return factors[unit]
        if unit is None:
            raise ScenarioError(
                f"{self.option} {self.column}: the unit is missing; write"
                f" {self.option} '{self.column}[UNIT]' with one of {known}"
            )
        close = nearest(unit, tuple(factors))
        hint = f"; did you mean {quoted(close)}?" if close else ""
        raise ScenarioError(
            f"{self.option} {self.column}[{unit}]: unit {quoted(unit)} is not"
            f" known; must be one of {known}{hint}"
        )


def column_choice(option: str, text: str) -> ColumnChoice:
    """Return the choice that an option's text names.

    >>> column_choice("--rate", "DL_bitrate[kbit/s]")
    ColumnChoice(option='--rate', column='DL_bitrate', unit='kbit/s')
    >>> column_choice("--rate", "speed [m/s] [kbit/s]").column
    'speed [m/s] '
    """
    if text.endswith("]") and "[" in text:
        column, _, unit = text[:-1].rpartition("[")
        return ColumnChoice(option, column, unit.strip())
    return ColumnChoice(option, text, None)


def texts_of(table: CsvTable, choice: ColumnChoice) -> tuple[str, ...]:
    """Return the values of a column as text, without blanks around them [num_rows].

    Names are compared without the blanks around them. A column whose own name ends in brackets is
    found too, if its name stands whole before the unit.

    Raises:
        DataError: the table has no such column.
    """
    stripped = {name.strip(): name for name in table.columns}
    name = stripped.get(choice.column.strip())
    if name is None:
        close = nearest(choice.column.strip(), tuple(stripped))
        hint = f"; did you mean {quoted(close)}?" if close else ""
        shown = list(stripped)[:_MOST_SHOWN]
        more = ", ..." if len(stripped) > len(shown) else ""
        raise DataError(
            f"{table.path}, row 1: no column {quoted(choice.column)} ({choice.option}); the columns"
            f" are {', '.join(map(quoted, shown))}{more}{hint}"
        )
    return tuple(text.strip() for text in table.columns[name])


def is_missing(texts: tuple[str, ...]) -> BoolArray:
    """Return True for values that were not measured [num_rows]."""
    return np.array([text.lower() in MISSING for text in texts], dtype=np.bool_)


def refuse(table: CsvTable, column: str, is_wrong: BoolArray, says: str) -> None:
    """Raise an error about the first row at fault, if any, that counts the others.

    Args:
        table: the table.
        column: name of the column.
        is_wrong: True for rows at fault [num_rows].
        says: what is wrong, and the way out.

    Raises:
        DataError: a row is at fault.
    """
    wrong = np.flatnonzero(is_wrong)
    if wrong.size == 0:
        return
    first = int(wrong[0])
    names = {name.strip(): name for name in table.columns}
    text = table.columns[names[column.strip()]][first]
    more = f" ({wrong.size - 1} more rows like it)" if wrong.size > 1 else ""
    raise table.fault(first, f"column {quoted(column)} = {quoted(text)} {says}{more}")


def numbers_of(table: CsvTable, choice: ColumnChoice, factor: float) -> FloatArray:
    """Return a column of numbers times a factor [num_rows]; NaN where a value is missing.

    Raises:
        DataError: there is no such column, or a value is neither a finite number nor missing.
    """
    texts = texts_of(table, choice)
    values = np.array([_number(text) for text in texts], dtype=np.float64)
    is_wrong = ~np.isfinite(values) & ~is_missing(texts)
    says = "is no number; correct it, leave it empty or drop the row"
    refuse(table, choice.column, is_wrong, says)
    return values * factor


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


class Times(NamedTuple):
    """Times of the rows of a table."""

    at_s: FloatArray
    """Seconds on the source's clock, of 1970 or of its own; NaN: missing [num_rows]."""
    utc_offset_s: FloatArray
    """Seconds by which the written clock is ahead of UTC; NaN: not written [num_rows]."""


def times_of(table: CsvTable, choice: ColumnChoice) -> Times:
    """Return the times of the rows: numbers with a unit of time, ISO 8601, or a stated form.

    Without a unit, numbers are seconds. A unit that begins with % is the form of a date, as of
    `datetime.strptime`. Dates without an offset from UTC are read as they are, as if of UTC.

    Raises:
        ScenarioError: the unit is not known.
        DataError: there is no such column, or a value is no time.
    """
    texts = texts_of(table, choice)
    missing = is_missing(texts)
    first = next((text for text, no in zip(texts, missing, strict=True) if not no), "")
    is_date = choice.unit == "iso" or (choice.unit is None and math.isnan(_number(first)))
    form = choice.unit if choice.unit is not None and choice.unit.startswith("%") else None
    if first and (is_date or form is not None):
        return _dates(table, choice, texts, form)
    factor = choice.factor({**S_OF, "iso": 1.0}, default="s")
    at_s = numbers_of(table, choice, factor)
    says = f"is beyond {_MOST_S:g} s; name the unit, such as {choice.option} '{choice.column}[ms]'"
    refuse(table, choice.column, np.abs(at_s) > _MOST_S, says)
    return Times(at_s, np.full(at_s.size, np.nan))


def _dates(
    table: CsvTable, choice: ColumnChoice, texts: tuple[str, ...], form: str | None
) -> Times:
    read: Callable[[str], datetime] = datetime.fromisoformat
    if form is not None:

        def read(text: str) -> datetime:
            return datetime.strptime(text, form)

    at_s, offset_s = np.full((2, len(texts)), np.nan)
    is_wrong = np.zeros(len(texts), dtype=np.bool_)
    known: dict[str, tuple[float, float]] = {}
    for row, text in enumerate(texts):
        if text.lower() in MISSING:
            continue
        if text not in known:
            try:
                known[text] = _seconds(read(text))
            except (ValueError, OverflowError):
                is_wrong[row] = True
                continue
        at_s[row], offset_s[row] = known[text]
    wanted = "like 2020-01-31 22:00:05" if form is None else f"of the form {form}"
    says = (
        f"is no date {wanted}; correct it, or state the form, such as {choice.option}"
        f" '{choice.column}[%d.%m.%Y %H:%M:%S]'"
    )
    refuse(table, choice.column, is_wrong, says)
    return Times(at_s, offset_s)


def _seconds(stamp: datetime) -> tuple[float, float]:
    """Return seconds since 1970 and the offset from UTC, NaN where the stamp has none."""
    offset = stamp.utcoffset()
    if offset is None:
        stamp = stamp.replace(tzinfo=UTC)
    since = stamp - datetime(1970, 1, 1, tzinfo=UTC)
    # `total_seconds` rounds once; microseconds stay exact to the millisecond that is kept.
    return since.total_seconds(), np.nan if offset is None else offset.total_seconds()


def named_rows(table: CsvTable, who: tuple[ColumnChoice, ...]) -> tuple[IntArray, tuple[str, ...]]:
    """Return what each row belongs to, numbered by first appearance [num_rows], and the names.

    A name is the row's values in the columns `who`, joined by "-"; without columns all rows belong
    to "all".

    Raises:
        DataError: there is no such column, or two different sets of values make one name.
    """
    if not who:
        return np.zeros(table.num_rows, dtype=np.int64), (_ALL,)
    parts = zip(*(texts_of(table, choice) for choice in who), strict=True)
    number: dict[tuple[str, ...], int] = {}
    of_rows = [number.setdefault(part, len(number)) for part in parts]
    names = tuple("-".join(part) or "-" for part in number)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{table.path}: values of {' and '.join(choice.column for choice in who)} differ and"
            f" make one name, {quoted(twice)}; name one column, or rename the values"
        )
    return np.array(of_rows, dtype=np.int64), names


def counted(num: int, says: str, what: str = "rows") -> list[str]:
    """Return a note on so many rows, or other things; none for none."""
    return [f"{num} {what} {says}"] if num else []
