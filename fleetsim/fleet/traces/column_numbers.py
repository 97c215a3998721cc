"""Numbers and times in the columns of a table that its owner names.

A value that is neither a number nor missing is refused, and so are numbers that programs write for
a value that they do not have.
"""

import math
import re
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.traces.column_choice import (
    ColumnChoice,
    factor_of,
    is_missing,
    refuse,
    texts_of,
)
from fleetsim.fleet.traces.csv_table import CsvTable
from fleetsim.fleet.traces.table_rows import is_value
from fleetsim.quoting import quoted
from fleetsim.units import S_OF

_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?")
_GROUPED = re.compile(r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+")
"""Number that could be of the thousands as well as with a decimal comma: 1,500."""
_MARKS = tuple(
    float(mark)
    for bits in (32, 64)
    for mark in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 2**bits - 1)
)
"""Numbers that programs write for a value that they do not have, whatever the others are."""
_SMALL_MARKS = (32767.0, 32768.0, 65535.0, 999.0, 9999.0, 99999.0, 999999.0)
"""Such numbers that may be values as well: marks if no other value is within a factor of two."""
_MOST_S = 1e11
_SWAPPED = str.maketrans(",.", ".,")


def numbers_of(table: CsvTable, choice: ColumnChoice, factor: float) -> FloatArray:
    """Return a column of numbers times a factor [num_rows]; NaN where a value is missing."""
    texts = texts_of(table, choice)
    values = np.array(list(map(_number, with_points(table, choice.column, texts))))
    is_gap = is_missing(table, texts)
    values[is_gap] = np.nan
    is_wrong = ~np.isfinite(values) & ~is_gap
    message = "is no number; correct it, leave it empty or drop the row"
    refuse(table, choice, is_wrong, message, is_mark=True)
    return values * factor


def with_points(table: CsvTable, column: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return numbers with decimal points, where the column has decimal commas.

    Without `Layout.decimal` the comma is decimal if no number of the column has a point and one of
    them shows that it does not divide thousands, as 0,5 and 12,25 do.
    """
    decimal = table.layout.decimal
    if decimal is None:
        commas = [text for text in texts if _DECIMAL_COMMA.fullmatch(text)]
        is_sure = any(not _GROUPED.fullmatch(text) for text in commas)
        if not is_sure or any("." in text and is_value(text) for text in texts):
            return texts
        table.notes.append(f"decimal commas in {quoted(column)}, such as {commas[0]}")
    if decimal == ".":
        return texts
    return tuple(text.translate(_SWAPPED) for text in texts)


def refuse_marks(
    table: CsvTable, choice: ColumnChoice, values: FloatArray, *, small: bool = True
) -> None:
    """Refuse numbers that stand for a value that was not measured, such as -2147483648.

    `values` are as written, without their unit [num_rows]; `small`: `_SMALL_MARKS` count.
    """
    is_mark = np.isin(values, _MARKS)
    size = np.abs(values[np.isfinite(values) & (values != 0.0)])
    for mark in _SMALL_MARKS if small else ():
        others = size[size != mark]
        if others.size and not ((others > mark / 2.0) & (others < mark * 2.0)).any():
            is_mark |= np.abs(values) == mark
    message = "stands for a value that was not measured; leave it empty or drop the row"
    refuse(table, choice, is_mark, message, is_mark=True)


def is_number(text: str) -> bool:
    """Return True for a number, with a decimal comma or point."""
    return _DECIMAL_COMMA.fullmatch(text) is not None or not math.isnan(_number(text))


def _number(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)  # Python reads 1_5 as 15.
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

    Without a unit, in brackets or in the column's name, numbers are seconds. A unit that begins
    with % is the form of a date, as of `datetime.strptime`. Dates without an offset from UTC are
    read as they are, as if of UTC.
    """
    texts = texts_of(table, choice)
    missing = is_missing(table, texts)
    first = next((text for text, no in zip(texts, missing, strict=True) if not no), "")
    is_date = choice.unit == "iso" or (choice.unit is None and not is_number(first))
    form = choice.unit if choice.unit is not None and choice.unit.startswith("%") else None
    if first and (is_date or form is not None):
        return _dates(table, choice, texts, form)
    written = numbers_of(table, choice, 1.0)
    refuse_marks(table, choice, written, small=False)
    at_s = written * factor_of(table, choice, {**S_OF, "iso": 1.0}, "s")
    message = (
        f"is beyond {_MOST_S:g} s; name the unit, such as {choice.option} '{choice.column}[ms]'"
    )
    refuse(table, choice, np.abs(at_s) > _MOST_S, message)
    return Times(at_s, np.full(at_s.size, np.nan))


def _dates(
    table: CsvTable, choice: ColumnChoice, texts: tuple[str, ...], form: str | None
) -> Times:
    at_s, offset_s = np.full((2, len(texts)), np.nan)
    is_wrong = np.zeros(len(texts), dtype=np.bool_)
    known: dict[str, tuple[float, float]] = {}
    for row, text in enumerate(texts):
        if table.layout.is_missing(text):
            continue
        if text not in known:
            try:
                known[text] = _seconds(text, form)
            except (ValueError, OverflowError):
                is_wrong[row] = True
                continue
        at_s[row], offset_s[row] = known[text]
    expected = "like 2020-01-31 22:00:05" if form is None else f"of the form {form}"
    message = (
        f"is no date {expected}; correct it, or state the form, such as {choice.option}"
        f" '{choice.column}[%d.%m.%Y %H:%M:%S]'"
    )
    refuse(table, choice, is_wrong, message, is_mark=True)
    return Times(at_s, offset_s)


def _seconds(text: str, form: str | None) -> tuple[float, float]:
    """Return seconds since 1970 of a date and its offset from UTC, NaN where it has none."""
    stamp = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
    offset = stamp.utcoffset()
    if offset is None:
        stamp = stamp.replace(tzinfo=UTC)
    since = stamp - datetime(1970, 1, 1, tzinfo=UTC)
    # `total_seconds` rounds once; microseconds stay exact to the millisecond that is kept.
    return since.total_seconds(), np.nan if offset is None else offset.total_seconds()
