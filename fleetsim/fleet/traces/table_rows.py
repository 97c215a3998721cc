"""Rows of a delimited table, the header first: how its fields are written, given or seen.

fleetsim's own files and published ones have the layout `PLAIN`. In a table of the user's, what is
not given is seen in its first rows; several possible answers are refused with the option to pass.
"""

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TextIO

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.host.csv_rows import SEPARATORS, CsvRows, head_of, separators_of
from fleetsim.host.unpacking import GZIP_FAULTS, require_within_limit, unpacked
from fleetsim.quoting import quoted

_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
"""First line by which Excel learns the separator."""
_VALUE = re.compile(r"|[-+]?[0-9.,]*[0-9]([eE][-+]?[0-9]+)?|[0-9][-0-9.,:/ T]*[0-9](Z|\+[0-9:]+)?")
_WORDS: Final = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "space": " "}


@dataclass(frozen=True, slots=True)
class Layout:
    """Form in which the fields of a table are written."""

    separator: str | None = None
    """Character between fields; None: seen in the first rows."""
    decimal: Literal[".", ","] | None = None
    """Sign between the whole and the fraction of a number; None: seen in each column."""
    missing: frozenset[str] = frozenset()
    """Words, in lower case, for a value that was not measured; an empty field is one always."""
    has_options: bool = True
    """True if the command that reads the table has the options that messages name."""

    def is_missing(self, text: str) -> bool:
        """Return True for a field, without blanks around it, whose value was not measured."""
        return not text or text.lower() in self.missing


SEEN: Final = Layout()
PLAIN: Final = Layout(",", ".", has_options=False)
"""Layout of fleetsim's own files and of published ones."""


def layout_of(
    command: str, *, separator: str | None, decimal: str | None, missing: Sequence[str]
) -> Layout:
    r"""Return the layout that the options of a command give.

    >>> layout_of("trace import", separator="tab", decimal=None, missing=["NA"])
    Layout(separator='\t', decimal=None, missing=frozenset({'na'}), has_options=True)
    """
    sign = None if separator is None else _WORDS.get(separator.lower(), separator)
    if sign is not None and (len(sign) != 1 or sign.isalnum() or sign in '"\r\n.+-'):
        raise ScenarioError(
            f"{command}: --separator {quoted(separator)}: must be one character between fields,"
            " such as ';', or tab, semicolon, comma or space"
        )
    if decimal not in (None, ".", ","):
        raise ScenarioError(
            f"{command}: --decimal {quoted(decimal)}: must be '.' or ',', the sign before the"
            " fraction of a number"
        )
    words = frozenset(word.strip().lower() for word in missing)
    return Layout(sign, decimal, words)  # type: ignore[arg-type]


class TableRows:
    """Iterator over the rows of a .csv or .csv.gz file, the header first."""

    def __init__(self, path: Path, layout: Layout, *, is_whole: bool) -> None:
        """Find the separator; `is_whole`: all rows will be read."""
        self._path, self._is_whole, self._is_plain = path, is_whole, not layout.has_options
        self.row = 0
        """Number of the latest row, 1 for the first of the file."""
        self.note = ""
        """Note on the separator, if it was not given."""
        self.hint = ""
        """Hint about rows of unequal lengths, for the end of a message."""
        self._separator = layout.separator or ","
        self._is_after_line = False
        if not self._is_plain:
            self._look(layout.separator)

    def __iter__(self) -> Iterator[list[str]]:
        rows = self._rows()
        header = next(rows, None)
        while not self._is_plain and header is not None and not "".join(header).strip():
            header = next(rows, None)
        if header is None:
            return
        self._check(header)
        yield header
        yield from rows

    def _look(self, given: str | None) -> None:
        """Find the separator in the first rows."""
        head = self._head()
        line = _SEPARATOR_LINE.match(head)
        self._is_after_line = line is not None
        if given is not None:
            return
        seen = separators_of(head)
        if line is not None:
            self._separator, where = line[1], "as the first line says"
        elif len(seen) > 1:
            raise DataError(
                f"{self._path}, row 1: fields could be separated by"
                f" {' or '.join(map(_named, seen))}; pass which, such as"
                f" --separator {_option(seen[0])}"
            )
        else:
            self._separator, where = (*seen, ",")[0], "as seen in the first rows"
        if self._separator != ",":
            self.note = f"fields are separated by {_named(self._separator)}, {where}"
        self.hint = (
            f", or pass --separator if fields are not separated by {_named(self._separator)}"
        )

    def _head(self) -> str:
        with _opened(self._path, is_whole=False) as text:
            try:
                return head_of(text)
            except (*GZIP_FAULTS, UnicodeDecodeError):
                return ""  # Reading the rows names the fault and its row.

    def _check(self, header: list[str]) -> None:
        """Refuse a header that has another separator, or that is no header."""
        place = f"{self._path}, row {self.row}"
        if not self._is_plain and len(header) == 1 and header[0].startswith("#"):
            raise DataError(
                f"{place}: is a comment, {quoted(header[0])}; remove the lines above the header"
            )
        for separator, name in SEPARATORS.items():
            if len(header) == 1 and separator in header[0]:
                hint = (
                    "save the file with commas, or convert it with `fleetsim trace import table`"
                    if self._is_plain
                    else f"pass --separator {_option(separator)}"
                )
                raise DataError(f"{place}: one field, with {name} in it; {hint}")
        if not self._is_plain and all(map(is_value, header)):
            raise DataError(
                f"{place}: is no header, its fields are values such as {quoted(header[0])}; add a"
                " line above it with the names of the columns"
            )

    def plain_columns(self, width: int) -> list[list[str]]:
        """Return the columns of the next rows, as `CsvRows.plain_columns`, while iterating."""
        with self._one_line():
            columns = self._csv.plain_columns(width)
        self.row += len(columns[0]) if columns else 0
        return columns

    def _rows(self) -> Iterator[list[str]]:
        with _opened(self._path, is_whole=self._is_whole) as text, self._one_line():
            self._csv = CsvRows(text, self._separator)
            for row in self._csv:
                self.row += 1
                if self.row > 1 or not self._is_after_line:
                    yield row

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        """Turn a fault of the text into an error of one line."""
        try:
            yield
        except GZIP_FAULTS as fault:
            raise DataError(
                f"{self._path}, row {self.row + 1}: cannot be read ({fault}); copy or fetch the"
                " file again"
            ) from fault
        except (UnicodeDecodeError, csv.Error) as fault:
            raise DataError(
                f"{self._path}, row {self.row + 1}: is not CSV ({fault}); save it as CSV in UTF-8"
            ) from fault


def is_value(text: str) -> bool:
    """Return True for a field that can be no name of a column: a number, a date, or nothing.

    >>> [is_value(text) for text in ("-0,5e3", "2026-03-02T08:00:00Z", "", "T1", "1.5s")]
    [True, True, True, False, False]
    """
    return _VALUE.fullmatch(text.strip()) is not None


def _named(separator: str) -> str:
    return SEPARATORS.get(separator, "blanks" if separator == " " else quoted(separator))


def _option(separator: str) -> str:
    return "tab" if separator == "\t" else f"'{separator}'"


@contextmanager
def _opened(path: Path, *, is_whole: bool) -> Iterator[TextIO]:
    """Open a table as text; `is_whole`: all of it will be read."""
    with paths.opened(path) as file:
        content = file
        if path.suffix == ".gz":
            packed_byte = os.fstat(file.fileno()).st_size
            if is_whole:
                require_within_limit(file, packed_byte, str(path))
            content = unpacked(file, packed_byte, str(path))
        # Closed as well, since readers ask it whether they can go on.
        with io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as text:
            yield text
