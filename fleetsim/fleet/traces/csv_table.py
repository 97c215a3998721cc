"""Columns of one CSV file, as text and as numbers; every fault names the file and the row.

Rows are counted as a spreadsheet counts them: the header is row 1, and blank lines, which are
skipped, count.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.table_rows import OWN, Layout, TableRows
from fleetsim.quoting import quoted

# Fifteen digits stay exact as a float64 too.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,15}")
_BATCH_ROWS = 4096
_MOST_SHARED_TEXTS = 1 << 16


class SkippedLines:
    """Blank lines among the rows of a file, and the row of the file of each row of data."""

    def __init__(self, first_row: int = 2) -> None:
        """Begin with the row of the file that is the first one of data."""
        self._first_row = first_row
        self._at: list[int] = []
        self._total: list[int] = []

    def add(self, index: int) -> None:
        """Count a blank line before the row of data with this index, which never falls."""
        if self._at and self._at[-1] == index:
            self._total[-1] += 1
            return
        self._total.append(self.num_before(index) + 1)
        self._at.append(index)

    def num_before(self, index: int) -> int:
        """Return the number of blank lines above the row of data with this index."""
        return self._total[at - 1] if (at := bisect_right(self._at, index)) else 0

    def row_of(self, index: int) -> int:
        """Return the row of the file, 1 for its first, of a row of data."""
        return self._first_row + index + self.num_before(index)


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """A CSV file read whole; values stay text until a method converts them."""

    path: Path
    columns: Mapping[str, tuple[str, ...]]
    """Column by name, each [num_rows]."""
    num_rows: int
    """Number of rows of data, without the header."""
    layout: Layout = OWN
    notes: list[str] = field(default_factory=list)
    """Notes on what was seen in the table and not given by its owner; conversions add to them."""
    skipped: SkippedLines = field(default_factory=SkippedLines)

    def place(self, index: int) -> str:
        """Return file and row of the data row with this index (0 is the first below the header)."""
        return f"{self.path}, row {self.skipped.row_of(index)}"

    def fault(self, index: int, says: str) -> DataError:
        """Return an error about one data row."""
        return DataError(f"{self.place(index)}: {says}")

    def whole_numbers(self, column: str) -> IntArray:
        """Return a column of whole numbers [num_rows].

        Raises:
            DataError: a value is no number, not finite, not whole or beyond 15 digits.
        """
        texts = self.columns[column]
        is_whole = _WHOLE_NUMBER.fullmatch
        for index, text in enumerate(texts):
            if is_whole(text) is None:
                number = self._number(column, index)
                if math.isfinite(number) and number.is_integer():
                    says = "is no plain whole number; write at most 15 digits and nothing else"
                    raise self.fault(index, f"{column} = {quoted(text)} {says}")
                raise self.fault(
                    index, f"{column} = {quoted(text)} is not a whole number; round it"
                )
        return np.array([int(text) for text in texts], dtype=np.int64)

    def numbers(self, column: str, rows: IntArray | None = None) -> FloatArray:
        """Return a column of numbers, of these rows or of all; NaN and infinity are accepted.

        Raises:
            DataError: a value is no number.
        """
        indices = range(self.num_rows) if rows is None else rows.tolist()
        return np.array([self._number(column, index) for index in indices], dtype=np.float64)

    def codes(self, column: str, codes: Mapping[str, int]) -> IntArray:
        """Return the code of each word of a column [num_rows].

        Raises:
            DataError: a word has no code.
        """
        texts = self.columns[column]
        try:
            return np.array([codes[text] for text in texts], dtype=np.int64)
        except KeyError:
            index = next(i for i, text in enumerate(texts) if text not in codes)
        allowed = ", ".join(word or "(empty)" for word in codes)
        raise self.fault(
            index, f"{column} = {quoted(texts[index])}: must be one of {allowed}; correct it"
        )

    def _number(self, column: str, index: int) -> float:
        text = self.columns[column][index]
        try:
            return float(text)
        except ValueError:
            raise self.fault(
                index, f"{column} = {quoted(text)} is not a number; correct it or drop the row"
            ) from None


def read_csv_header(path: Path, layout: Layout = OWN) -> tuple[str, ...]:
    """Return the names in the first row of a .csv or .csv.gz file.

    Raises:
        DataError: the file cannot be read, is empty or has no header.
    """
    for row in TableRows(path, layout, is_whole=False):
        return tuple(row)
    raise _empty(path)


def read_csv_table(path: Path, layout: Layout = OWN) -> CsvTable:
    """Read a .csv or .csv.gz file.

    Raises:
        DataError: the file cannot be read, is cut off, unpacks to more than
            `unpacking.limit_byte` allows, has no header, names a column twice, or a row has more or
            fewer fields than the header.
    """
    source = TableRows(path, layout, is_whole=True)
    rows = iter(source)
    header = next(rows, None)
    if not header:
        raise _empty(path)
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        says = f"a column is named twice, {quoted(twice)}; rename or drop one"
        raise DataError(f"{path}, row {source.row}: {says}")
    columns = [_Column() for _ in header]
    skipped, num_rows = SkippedLines(source.row + 1), 0
    for batch in _batches(rows):
        kept = []
        for row in batch:
            if len(row) == len(header):
                kept.append(row)
            elif not row or (len(row) == 1 and not row[0].strip()):
                skipped.add(num_rows + len(kept))
            else:
                raise DataError(
                    f"{path}, row {skipped.row_of(num_rows + len(kept))}: {len(row)} fields under a"
                    f" header of {len(header)}; complete or drop the row{source.hint}"
                )
        num_rows += len(kept)
        for column, texts in zip(columns, zip(*kept, strict=True), strict=False):
            column.extend(texts)
    values = [column.taken() for column in columns]
    notes = [source.note] if source.note else []
    if num := skipped.num_before(num_rows - 1):
        notes.append(f"{num} blank lines between rows skipped")
    return CsvTable(path, dict(zip(header, values, strict=True)), num_rows, layout, notes, skipped)


class _Column:
    """Values of one column; equal texts are kept once while there are few different ones."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._seen: dict[str, str] | None = {}

    def extend(self, texts: tuple[str, ...]) -> None:
        if self._seen is None:
            self._texts += texts
            return
        self._texts += map(self._seen.setdefault, texts, texts)
        if len(self._seen) > _MOST_SHARED_TEXTS:
            self._seen = None

    def taken(self) -> tuple[str, ...]:
        """Return all values and forget them."""
        texts = tuple(self._texts)
        self._texts.clear()
        return texts


def _batches(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield batch


def _empty(path: Path) -> DataError:
    return DataError(f"{path}, row 1: the file is empty; it must begin with a header")
