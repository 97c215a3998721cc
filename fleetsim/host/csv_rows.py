"""Rows of CSV text, one at a time, none larger than `MOST_ROW_CHARACTERS`.

Without that bound a file of one very long line, or with an open quote, becomes one row that takes
many times the file's size in memory.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import TextIO

MOST_ROW_CHARACTERS = 1 << 20


class CsvRows:
    """Iterator over the rows of CSV text."""

    def __init__(self, file: TextIO) -> None:
        """Begin at the first row; `file` is open with `newline=""`."""
        self._file = file
        self._num_characters = 0
        self._reader = csv.reader(self._lines(), strict=True)

    @property
    def line_num(self) -> int:
        """Lines read so far."""
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        """Return the next row, as text.

        Raises:
            csv.Error: the text is no CSV, or a row or field is too long.
            UnicodeDecodeError: the bytes are no text in the file's encoding.
        """
        self._num_characters = 0
        return next(self._reader)

    def _lines(self) -> Iterator[str]:
        read = self._file.readline
        while line := read(MOST_ROW_CHARACTERS + 1):
            self._num_characters += len(line)
            if self._num_characters > MOST_ROW_CHARACTERS:
                raise csv.Error(f"a row of more than {MOST_ROW_CHARACTERS} characters")
            yield line
