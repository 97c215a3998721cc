"""Columns of a table that its owner names: `COLUMN` or `COLUMN[unit]`, and their values.

Missing are the empty field and the words that the owner names (`Layout.missing`), no others. A
fault names the file, the first row at fault, the column and the value, and how many rows are at
fault like it, so that a file is corrected once and not row by row.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fleetsim.contracts import BoolArray, IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_units import unit_in
from fleetsim.fleet.traces.csv_table import CsvTable
from fleetsim.fleet.traces.table_rows import is_value
from fleetsim.quoting import cut, quoted
from fleetsim.schema.spelling import did_you_mean

_MOST_SHOWN = 12
_ALL = "all"


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """A column, and its unit if one is given."""

    option: str
    """Option of the command that names it, such as `--rate`."""
    column: str
    unit: str | None

    def factor(self, factors: Mapping[str, float]) -> float:
        """Return the value of one of the column's units, of those in `factors`."""
        known = ", ".join(factors)
        if self.unit is None:
            raise ScenarioError(
                f"{self.option} {self.column}: the unit is missing; write"
                f" {self.option} '{self.column}[UNIT]' with one of {known}"
            )
        if self.unit in factors:
            return factors[self.unit]
        # Mb/s and MB/s differ by a factor of 8: where one has the same letters, none is advised.
        is_near = self.unit.lower() in map(str.lower, factors)
        raise ScenarioError(
            f"{self.option} {self.column}[{self.unit}]: unit {quoted(self.unit)} is not"
            f" known; must be one of {known}{did_you_mean(self.unit, () if is_near else factors)}"
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


def factor_of(
    table: CsvTable, choice: ColumnChoice, factors: Mapping[str, float], default: str
) -> float:
    """Return the value of a column's unit, or of that in its name, which is noted, or `default`."""
    if choice.unit is None:
        unit = unit_in(choice.column, factors)
        if unit:
            table.notes.append(f"{quoted(choice.column)} in {unit}, as its name says")
        choice = replace(choice, unit=unit or default)
    return choice.factor(factors)


def texts_of(table: CsvTable, choice: ColumnChoice) -> tuple[str, ...]:
    """Return the values of a column as text, without blanks around them [num_rows]."""
    return tuple(text.strip() for text in table.columns[_name_in(table, choice)])


def _name_in(table: CsvTable, choice: ColumnChoice) -> str:
    """Return the column's name as the table has it, of names without the blanks around them.

    A column whose own name ends in brackets is found too, if it stands whole before the unit.
    """
    stripped = {name.strip(): name for name in table.columns}
    requested = choice.column.strip()
    for name in (requested, f"{requested}[{choice.unit}]", f"{requested} [{choice.unit}]"):
        if name in stripped:
            return stripped[name]
    hint = did_you_mean(requested, stripped)
    if any(name and is_value(name) for name in stripped):
        hint = "; some of these are values: add a line above them with the names of the columns"
    shown = list(stripped)[:_MOST_SHOWN]
    more = ", ..." if len(stripped) > len(shown) else ""
    raise DataError(
        f"{table.path}, row 1: no column {quoted(choice.column)} ({choice.option}); the columns"
        f" are {', '.join(map(quoted, shown))}{more}{hint}"
    )


def is_missing(table: CsvTable, texts: tuple[str, ...]) -> BoolArray:
    """Return True for values that were not measured [num_rows]."""
    return np.array([table.layout.is_missing(text) for text in texts], dtype=np.bool_)


def refuse(
    table: CsvTable,
    choice: ColumnChoice,
    is_wrong: BoolArray,
    message: str,
    *,
    is_mark: bool = False,
) -> None:
    """Raise an error about the first row at fault [num_rows], if any, that counts the others.

    `message` says what is wrong, and what to do; `is_mark`: such a value may stand for one that
    was not measured.
    """
    wrong = np.flatnonzero(is_wrong)
    if wrong.size == 0:
        return
    first = int(wrong[0])
    text = table.columns[_name_in(table, choice)][first].strip()
    more = f" ({wrong.size - 1} more rows like it)" if wrong.size > 1 else ""
    if is_mark and table.layout.has_options:
        message += (
            f", or pass --missing {shlex.quote(cut(text))} if it means that nothing was measured"
        )
        if "," in text and table.layout.decimal is None:
            message += "; if its comma is a decimal comma, pass --decimal ,"
    raise table.fault(first, f"column {quoted(choice.column)} = {quoted(text)} {message}{more}")


def named_rows(table: CsvTable, who: tuple[ColumnChoice, ...]) -> tuple[IntArray, tuple[str, ...]]:
    """Return what each row belongs to, numbered by first appearance [num_rows], and the names.

    A name is the row's values in the columns `who`, joined by "-"; without columns all rows belong
    to "all". A row whose values are all missing belongs to nobody and has the number -1.
    """
    if not who:
        return np.zeros(table.num_rows, dtype=np.int64), (_ALL,)
    parts = zip(*(texts_of(table, choice) for choice in who), strict=True)
    number: dict[tuple[str, ...], int] = {}
    of_rows = [
        -1 if all(map(table.layout.is_missing, part)) else number.setdefault(part, len(number))
        for part in parts
    ]
    names = tuple(map("-".join, number))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{table.path}: values of {' and '.join(choice.column for choice in who)} differ and"
            f" make one name, {quoted(twice)}; name one column, or rename the values"
        )
    return np.array(of_rows, dtype=np.int64), names


def counted(num: int, message: str, what: str = "rows") -> list[str]:
    """Return a note on so many rows, or other things; none for none."""
    return [f"{num} {what} {message}"] if num else []
