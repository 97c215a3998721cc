"""Columns of one CSV file, as text and as numbers; every fault names the file and the row.

Rows are counted as a spreadsheet counts them: the header is row 1, and blank lines, which are
skipped, count.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.table_rows import PLAIN, Layout, TableRows
from fleetsim.quoting import quoted

# Fifteen digits stay exact as a float64 too.
_MOST_DIGITS = 15
_WHOLE_NUMBER = re.compile(rf"[+-]?[0-9]{{1,{_MOST_DIGITS}}}")
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
    layout: Layout = PLAIN
    notes: list[str] = field(default_factory=list)
    """Notes on what was seen in the table and not given by its owner; conversions add to them."""
    first_row: int = 2
    """Row of the file that is the first below the header."""
    blank: Mapping[int, int] = field(default_factory=dict)
    """Number of blank lines right above a row of data, by its index."""

    def place(self, index: int) -> str:
        """Return file and row of the data row with this index (0 is the first below the header)."""
        num_blank = sum(num for at, num in self.blank.items() if at <= index)
        return f"{self.path}, row {self.first_row + index + num_blank}"

    def fault(self, index: int, message: str) -> DataError:
        """Return an error about one data row."""
        return DataError(f"{self.place(index)}: {message}")

    def refuse(self, is_wrong: BoolArray, message: Callable[[int], str]) -> None:
        """Raise an error about the first row that is wrong [num_rows], if there is one."""
        if is_wrong.any():
            index = int(is_wrong.argmax())
            raise self.fault(index, message(index))

    def whole_numbers(self, column: str) -> IntArray:
        """Return a column of whole numbers [num_rows]."""
        texts = self.columns[column]
        # Most tables are right, which is quicker to see for all rows at once.
        is_plain = all(map(str.isdecimal, texts)) and "".join(texts).isascii()
        is_plain = is_plain and max(map(len, texts), default=0) <= _MOST_DIGITS
        for index, text in () if is_plain else enumerate(texts):
            if _WHOLE_NUMBER.fullmatch(text) is None:
                is_whole = self._number(column, index).is_integer()
                message = "is not a whole number; round it"
                if is_whole:
                    message = "is no plain whole number; write at most 15 digits and nothing else"
                raise self.fault(index, f"{column} = {quoted(text)} {message}")
        return np.fromiter(map(int, texts), dtype=np.int64, count=len(texts))

    def numbers(self, column: str, rows: IntArray | None = None) -> FloatArray:
        """Return a column of numbers, of these rows or of all; NaN and infinity are accepted."""
        texts = self.columns[column]
        indices = range(self.num_rows) if rows is None else rows.tolist()
        chosen = texts if rows is None else [texts[index] for index in indices]
        try:
            return np.fromiter(map(float, chosen), dtype=np.float64, count=len(chosen))
        except ValueError:  # raised anew with the row
            return np.array([self._number(column, index) for index in indices], dtype=np.float64)

    def codes(self, column: str, codes: Mapping[str, float]) -> FloatArray:
        """Return the code of each word of a column [num_rows]."""
        texts = self.columns[column]
        try:
            return np.array([codes[text] for text in texts], dtype=np.float64)
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


def read_csv_header(path: Path, layout: Layout = PLAIN) -> tuple[str, ...]:
    """Return the names in the first row of a .csv or .csv.gz file."""
    for row in TableRows(path, layout, is_whole=False):
        return tuple(row)
    raise _empty(path)


def read_filled_table(
    path: Path, layout: Layout = PLAIN, *, only: Collection[str] | None = None
) -> CsvTable:
    """Read a file that has rows; arguments and errors as in `read_csv_table`."""
    table = read_csv_table(path, layout, only=only)
    if table.num_rows == 0:
        raise DataError(f"{path}, row 2: the table is empty; it needs at least one row of data")
    return table


def read_csv_table(
    path: Path, layout: Layout = PLAIN, *, only: Collection[str] | None = None
) -> CsvTable:
    """Read a .csv or .csv.gz file, all its columns or `only` these of them."""
    source = TableRows(path, layout, is_whole=True)
    rows = iter(source)
    header = next(rows, None)
    if not header:
        raise _empty(path)
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        message = f"a column is named twice, {quoted(twice)}; rename or drop one"
        raise DataError(f"{path}, row {source.row}: {message}")
    places = [at for at, name in enumerate(header) if only is None or name in only]
    columns: list[list[str]] = [[] for _ in places]
    first_row, num_rows, seen = source.row + 1, 0, dict[str, str]()
    blank: Counter[int] = Counter()
    while True:
        texts: Sequence[Sequence[str]] = source.plain_columns(len(header))
        if not texts:
            if not (batch := list(islice(rows, _BATCH_ROWS))):
                break
            kept = []
            for number, row in enumerate(batch, start=first_row + num_rows + blank.total()):
                if len(row) == len(header):
                    kept.append(row)
                elif not row or (len(row) == 1 and not row[0].strip()):
                    blank[num_rows + len(kept)] += 1
                else:
                    raise DataError(
                        f"{path}, row {number}: {len(row)} fields under a header of {len(header)};"
                        f" complete or drop the row{source.hint}"
                    )
            texts = list(zip(*kept, strict=True)) or [()] * len(header)
        num_rows += len(texts[0])
        # Equal texts are kept once, while there are few different ones.
        if len(seen) > _MOST_SHARED_TEXTS:
            seen.clear()
        for at, column in zip(places, columns, strict=True):
            column.extend(map(seen.setdefault, texts[at], texts[at]))
    names = [header[at] for at in places]
    notes = [source.note] if source.note else []
    if num := blank.total() - blank[num_rows]:
        notes.append(f"{num} blank lines between rows skipped")
    values = dict(zip(names, map(tuple, columns), strict=True))
    return CsvTable(path, values, num_rows, layout, notes, first_row, blank)


def _empty(path: Path) -> DataError:
    return DataError(f"{path}, row 1: the file is empty; it must begin with a header")
