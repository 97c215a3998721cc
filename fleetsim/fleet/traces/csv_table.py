"""Columns of one CSV file, as text and as numbers; every fault names the file and the row.

Rows are counted as a spreadsheet counts them: the header is row 1.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.host.csv_rows import CsvRows
from fleetsim.host.unpacking import GZIP_FAULTS, require_within_limit, unpacked
from fleetsim.quoting import quoted

# Fifteen digits stay exact as a float64 too.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,15}")
_BATCH_ROWS = 4096
_MOST_SHARED_TEXTS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """A CSV file read whole; values stay text until a method converts them."""

    path: Path
    columns: Mapping[str, tuple[str, ...]]
    """Column by name, each [num_rows]."""
    num_rows: int
    """Number of rows of data, without the header."""

    def place(self, index: int) -> str:
        """Return file and row of the data row with this index (0 is the first below the header)."""
        return f"{self.path}, row {index + 2}"

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


def read_csv_header(path: Path) -> tuple[str, ...]:
    """Return the names in the first row of a .csv or .csv.gz file.

    Raises:
        DataError: the file cannot be read or is empty.
    """
    for row in _rows(path, is_whole=False):
        return tuple(row)
    raise _empty(path)


def read_csv_table(path: Path) -> CsvTable:
    """Read a .csv or .csv.gz file; empty lines at its end are dropped.

    Raises:
        DataError: the file cannot be read, is cut off, unpacks to more than
            `unpacking.limit_byte` allows, names a column twice, or a row has more or fewer fields
            than the header.
    """
    rows = _rows(path, is_whole=True)
    header = next(rows, None)
    if not header:
        raise _empty(path)
    if len(set(header)) < len(header):
        raise DataError(f"{path}, row 1: a column is named twice; rename or drop one")
    columns = [_Column() for _ in header]
    num_rows, first_empty = 0, None
    for batch in _batches(rows):
        for row in batch:
            if row and first_empty is not None:
                raise _of_other_length(path, first_empty, 0, len(header))
            if row and len(row) != len(header):
                raise _of_other_length(path, num_rows, len(row), len(header))
            if not row and first_empty is None:
                first_empty = num_rows
            num_rows += 1
        for column, texts in zip(columns, zip(*filter(None, batch), strict=True), strict=False):
            column.extend(texts)
    values = [column.taken() for column in columns]
    return CsvTable(path, dict(zip(header, values, strict=True)), len(values[0]))


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


def _of_other_length(path: Path, index: int, num: int, expected: int) -> DataError:
    return DataError(
        f"{path}, row {index + 2}: {num} fields under a header of {expected}; complete or drop the"
        " row"
    )


def _empty(path: Path) -> DataError:
    return DataError(f"{path}, row 1: the file is empty; it must begin with a header")


def _rows(path: Path, *, is_whole: bool) -> Iterator[list[str]]:
    """Yield the rows of a file, the header first; `is_whole`: all of them will be read."""
    num_rows = 0
    with paths.opened(path) as file:
        content = file
        if path.suffix == ".gz":
            packed_byte = os.fstat(file.fileno()).st_size
            if is_whole:
                require_within_limit(file, packed_byte, str(path))
            content = unpacked(file, packed_byte, str(path))
        text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
        try:
            for row in CsvRows(text):
                yield row
                num_rows += 1
        except GZIP_FAULTS as fault:
            raise DataError(
                f"{path}, row {num_rows + 1}: cannot be read ({fault}); copy or fetch the file"
                " again"
            ) from fault
        except (UnicodeDecodeError, csv.Error) as fault:
            raise DataError(
                f"{path}, row {num_rows + 1}: is not CSV ({fault}); save it as CSV in UTF-8"
            ) from fault
