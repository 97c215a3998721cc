"""Rows of CSV text, one at a time, none larger than `MOST_ROW_CHARACTERS`; what separates fields.

Without that bound a file with an open quote becomes one row, many times its size in memory.
"""

import csv
import io
from collections.abc import Iterator
from itertools import islice
from typing import TextIO

MOST_ROW_CHARACTERS = 1 << 20
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

_BLOCK_CHARACTERS = 1 << 13
_NUM_COMPARED = 20
_HEAD_CHARACTERS = 1 << 16


class CsvRows:
    """Iterator over the rows of CSV text."""

    def __init__(self, file: TextIO, separator: str = ",") -> None:
        """Begin at the first row; `file` is open with `newline=""`."""
        self._file, self._separator = file, separator
        self._unread = io.StringIO(newline="")
        self._num_characters = 0
        # Columns that blanks line up have several of them between two fields.
        self._reader = csv.reader(
            self._lines(), strict=True, delimiter=separator, skipinitialspace=separator == " "
        )

    @property
    def line_num(self) -> int:
        """Lines read so far."""
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        """Return the next row as text; raise `csv.Error` or `UnicodeDecodeError`."""
        self._num_characters = 0
        return next(self._reader)

    def plain_columns(self, width: int) -> list[list[str]]:
        """Return the columns of the next rows if they are plain; else nothing, to go on by row.

        Plain rows have `width` fields, two at least, no quotes, and end with a line feed. Most rows
        of long tables are plain, and are read in less than half the time so.
        """
        if self._file.closed:  # by its owner, after the last row
            return []
        block = self._unread.read() or self._file.read(_BLOCK_CHARACTERS)
        if not block.endswith("\n"):
            block += self._file.readline(MOST_ROW_CHARACTERS + 1)
        is_plain = width > 1 and self._separator != " " and '"' not in block and "\r" not in block
        if is_plain and len(block) <= csv.field_size_limit():
            separator, step = self._separator, width + 1
            fields = block.replace("\n", f"{separator}\n{separator}").split(separator)
            # Line feeds are fields of their own now; if rows have equal widths, each is in place.
            ends = fields[width::step]
            if len(fields) == len(ends) * step + 1 and set(ends) == {"\n"}:
                fields.pop()
                return [fields[at::step] for at in range(width)]
        self._unread = io.StringIO(block, newline="")
        return []

    def _lines(self) -> Iterator[str]:
        most = MOST_ROW_CHARACTERS + 1
        while line := self._unread.readline(most) or self._file.readline(most):
            self._num_characters += len(line)
            if self._num_characters > MOST_ROW_CHARACTERS:
                raise csv.Error(f"a row of more than {MOST_ROW_CHARACTERS} characters")
            yield line


def head_of(file: TextIO) -> str:
    """Return the first rows of a text, the last of them whole."""
    head = file.read(_HEAD_CHARACTERS)
    return head if len(head) < _HEAD_CHARACTERS else head[: head.rfind("\n") + 1]


def separators_of(head: str) -> tuple[str, ...]:
    r"""Return the separators that give all first rows as many fields, or else the first several.

    >>> separators_of("time;mbps\n0,0;1,5\n"), separators_of("a,b\n1\n"), separators_of("a\n1\n")
    ((';',), (',',), ())
    """
    first, equal = [], []
    for separator in SEPARATORS:
        rows = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
        try:
            widths = [len(row) for row in islice(filter(None, rows), _NUM_COMPARED)]
        except csv.Error:
            continue
        if not widths or widths[0] < 2:
            continue
        first.append(separator)
        if len(set(widths)) == 1:
            equal.append(separator)
    return tuple(equal or first)
