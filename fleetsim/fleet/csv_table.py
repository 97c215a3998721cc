"""The columns of one CSV file, as text and as numbers; every fault names the file and the row.

Rows are counted as a spreadsheet counts them: the header is row 1.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError

# Fifteen digits stay exact as a float64 too.
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,15}")


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """A CSV file read whole; values stay text until somebody says what they are."""

    path: Path
    columns: Mapping[str, tuple[str, ...]]
    """Column by name, each [num_rows]."""
    num_rows: int
    """Rows of data, without the header."""

    def place(self, index: int) -> str:
        """File and row of the data row with this index (0 is the first below the header)."""
        return f"{self.path}, row {index + 2}"

    def fault(self, index: int, says: str) -> DataError:
        """An error about one data row."""
        return DataError(f"{self.place(index)}: {says}")

    def whole_numbers(self, column: str) -> IntArray:
        """A column of whole numbers [num_rows].

        Raises:
            DataError: a value that is no number, not finite, not whole or beyond 15 digits.
        """
        texts = self.columns[column]
        is_whole = _WHOLE_NUMBER.fullmatch
        for index, text in enumerate(texts):
            if is_whole(text) is None:
                number = self._number(column, index)
                if math.isfinite(number) and number.is_integer():
                    raise self.fault(
                        index, f"{column} = {text!r}: write it as plain digits, at most 15 of them"
                    )
                raise self.fault(index, f"{column} = {text!r} is not a whole number; round it")
        return np.array([int(text) for text in texts], dtype=np.int64)

    def numbers(self, column: str, rows: IntArray | None = None) -> FloatArray:
        """A column of numbers, of these rows or of all; NaN and infinity are let through.

        Raises:
            DataError: a value that is no number.
        """
        indices = range(self.num_rows) if rows is None else rows.tolist()
        return np.array([self._number(column, index) for index in indices], dtype=np.float64)

    def codes(self, column: str, codes: Mapping[str, int]) -> IntArray:
        """A column of known words, each turned into its code [num_rows].

        Raises:
            DataError: a word that has no code.
        """
        texts = self.columns[column]
        try:
            return np.array([codes[text] for text in texts], dtype=np.int64)
        except KeyError:
            index = next(i for i, text in enumerate(texts) if text not in codes)
        allowed = ", ".join(word or "(empty)" for word in codes)
        raise self.fault(index, f"{column} = {texts[index]!r}: must be one of {allowed}")

    def _number(self, column: str, index: int) -> float:
        text = self.columns[column][index]
        try:
            return float(text)
        except ValueError:
            raise self.fault(
                index, f"{column} = {text!r} is not a number; correct it or drop the row"
            ) from None


def read_csv_header(path: Path) -> tuple[str, ...]:
    """Names in the first row of a .csv or .csv.gz file.

    Raises:
        DataError: the file cannot be read or is empty.
    """
    return tuple(_rows(path, most=1)[0])


def read_csv_table(path: Path) -> CsvTable:
    """All of a .csv or .csv.gz file; empty lines at its end are dropped.

    Raises:
        DataError: the file cannot be read, is cut off, names a column twice, or a row has more or
            fewer fields than the header.
    """
    header, *rows = _rows(path)
    if len(set(header)) < len(header):
        raise DataError(f"{path}, row 1: a column is named twice; rename or drop one")
    for index, row in enumerate(rows):
        if len(row) != len(header):
            raise DataError(
                f"{path}, row {index + 2}: {len(row)} fields under a header of {len(header)};"
                " complete or drop the row"
            )
    columns = zip(*rows, strict=True) if rows else [() for _ in header]
    return CsvTable(path, dict(zip(header, columns, strict=True)), len(rows))


def _rows(path: Path, most: int | None = None) -> list[list[str]]:
    rows: list[list[str]] = []
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            for row in csv.reader(file, strict=True):
                rows.append(row)
                if len(rows) == most:
                    break
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; put it there") from None
    except (OSError, EOFError, zlib.error) as fault:
        raise DataError(
            f"{path}, row {len(rows) + 1}: cannot be read ({fault}); copy or fetch the file again"
        ) from fault
    except (UnicodeDecodeError, csv.Error) as fault:
        raise DataError(
            f"{path}, row {len(rows) + 1}: is not CSV ({fault}); save it as CSV in UTF-8"
        ) from fault
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise DataError(f"{path}, row 1: the file is empty; it must begin with a header")
    return rows
