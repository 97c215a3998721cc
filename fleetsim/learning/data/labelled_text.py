"""Texts with a label and a user each, from the user's own CSV file, such as Sentiment140.

The file of Sentiment140 has no header, is in Latin-1, and has the columns polarity (0 negative, 4
positive), id, date, query, user and text; docs/data.md has its settings.

A word is a run of letters and digits with apostrophes between them, or one of `. , ! ? ;`. Number 0
is padding, 1 any word outside the vocabulary, then follow the most frequent words of the training
texts.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from annotated_types import Ge, Le
from pydantic import Field, model_validator

from fleetsim.contracts import BoolArray, IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.host.csv_rows import SEPARATORS, CsvRows
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.tokens import check_memory, most_frequent
from fleetsim.quoting import quoted
from fleetsim.rng import stream
from fleetsim.schema.ranges import PartFraction, Samples
from fleetsim.settings import Settings

PADDING, UNKNOWN = 0, 1
_WORD = re.compile(r"\w+(?:'\w+)*|[.,!?;]")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
_SPLIT_SEED = 0
_MAX_CLASSES = 1000

Column = Annotated[int, Ge(0), Le(1000)] | Annotated[str, Field(min_length=1)]
"""A column: its name in the first line of the file, or its number from 0 in a file without one."""


class DrawnTestSettings(Settings):
    """The same share of every user's texts, at random but the same for every seed."""

    kind: Literal["drawn"] = "drawn"
    fraction: PartFraction = 0.2
    """Share of each user's texts that is for testing, rounded down."""


class ColumnTestSettings(Settings):
    """Texts divided by a column that holds `train` or `test`."""

    kind: Literal["column"] = "column"
    column: Column
    """Name or number of the column."""


class LabelledTextSettings(DatasetKind):
    """A CSV file of your own with a user, a text and a label in each row, such as Sentiment140."""

    how_to_get: ClassVar[str] = "your own file"
    has_user_files: ClassVar[bool] = True

    kind: Literal["labelled-text"] = "labelled-text"
    folder: str
    """Folder with the file."""
    file: Annotated[str, Field(min_length=1)]
    """Name of the file in it."""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    """Encoding of the file's characters."""
    user: Column = "user"
    """User of the text: name of the column, or its number from 0 in a file without a header."""
    text: Column = "text"
    """The text: name or number of the column, as for `user`."""
    label: Column = "label"
    """Class of the text: name or number of the column, as for `user`. Classes are numbered in the
    order of their values, whole numbers by size, others by alphabet."""
    test: Annotated[DrawnTestSettings | ColumnTestSettings, Field(discriminator="kind")] = (
        DrawnTestSettings()
    )
    """Texts that the server tests on."""
    min_texts: Samples = 1
    """Users with fewer texts are left out."""
    max_tokens: Annotated[int, Ge(1), Le(100_000)] = 25
    """Words of a sample."""
    vocabulary_size: Annotated[int, Ge(3), Le(10_000_000)] = 10_000
    """Tokens: the most frequent words, one for all others, and padding."""

    @model_validator(mode="after")
    def _columns_are_of_one_sort(self) -> Self:
        columns = [self.user, self.text, self.label]
        if isinstance(self.test, ColumnTestSettings):
            columns.append(self.test.column)
        if len({type(column) for column in columns}) > 1:
            raise ValueError(
                f"columns are all named, or all numbered from 0 in a file without a header, got"
                f" {', '.join(map(quoted, columns))}; use one of the two"
            )
        if len(set(columns)) < len(columns):
            raise ValueError(
                f"columns differ, got {', '.join(map(quoted, columns))}; name each of them once"
            )
        return self

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the task in the file."""
        folder = paths.expanded(self.folder, ScenarioError, key="task.dataset.folder")
        path = folder / self.file
        rows = list(_rows(self, path))
        owner = _places_in(sorted({row.user for row in rows}), [row.user for row in rows])
        keeps = np.bincount(owner)[owner] >= self.min_texts
        owner = owner[keeps]
        rows = [row for row, kept in zip(rows, keeps, strict=True) if kept]
        if not rows:
            raise ScenarioError(
                f"task.dataset.min_texts: no user of {path} has {self.min_texts} texts; lower it"
            )
        num_classes, labels = _classes(path, rows)
        is_test = _is_test(self.test, rows, owner)
        if is_test.all() or not is_test.any():
            raise ScenarioError(
                f"task.dataset.test: {int(is_test.sum())} of the {len(rows)} texts of {path} are"
                " for testing; some must be, and some not"
            )
        words = [_WORD.findall(row.text.lower())[: self.max_tokens] for row in rows]
        check_memory("task.dataset.max_tokens", len(words), self.max_tokens)
        known = most_frequent(
            (word for text, held in zip(words, is_test, strict=True) if not held for word in text),
            self.vocabulary_size - 2,
        )
        inputs = _padded(words, known, self.max_tokens)
        return Dataset(
            name=self.kind,
            train_inputs=inputs[~is_test],
            train_labels=labels[~is_test],
            test_inputs=inputs[is_test],
            test_labels=labels[is_test],
            num_classes=num_classes,
            owner=np.unique(owner[~is_test], return_inverse=True)[1].astype(np.int64),
            vocabulary_size=len(known) + 2,
        )


class _Row(NamedTuple):
    user: str
    text: str
    label: str
    part: str | None


def _rows(settings: LabelledTextSettings, path: Path) -> Iterator[_Row]:
    """Yield the rows of the file, first to last; empty lines are skipped."""
    columns = [settings.user, settings.text, settings.label]
    if isinstance(settings.test, ColumnTestSettings):
        columns.append(settings.test.column)
    num_columns, places = 0, list[int]()
    # Spreadsheets begin UTF-8 with a byte order mark, which is no part of the first name.
    encoding = "utf-8-sig" if settings.encoding == "utf-8" else settings.encoding
    try:
        with paths.opened(path) as content:
            reader = CsvRows(io.TextIOWrapper(content, encoding=encoding, newline=""))
            for cells in reader:
                where = f"{path}:{reader.line_num}"
                if not cells:
                    continue
                if not places:
                    _require_commas(where, cells)
                    num_columns, places = len(cells), _places(where, cells, columns)
                    if isinstance(settings.user, str):
                        continue
                if len(cells) != num_columns:
                    raise DataError(
                        f"{where}: {len(cells)} columns, but the first line has {num_columns};"
                        " complete or remove the row"
                    )
                yield _row(where, [cells[place] for place in places])
    except csv.Error as error:
        raise DataError(
            f"{path}:{reader.line_num}: no CSV ({error}); correct or remove the row"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: no {settings.encoding} ({error.reason}); set task.dataset.encoding"
        ) from error


def _require_commas(where: str, cells: Sequence[str]) -> None:
    """Refuse a first row that another separator than the comma would divide."""
    for separator, name in SEPARATORS.items():
        if len(cells) == 1 and separator in cells[0]:
            raise DataError(f"{where}: one column, with {name} in it; save the file with commas")


def _places(where: str, cells: Sequence[str], columns: Sequence[Column]) -> list[int]:
    """Return the places of the columns, by the first line of the file."""
    places = []
    for column in columns:
        if isinstance(column, int):
            if column >= len(cells):
                raise DataError(
                    f"{where}: no column {column}; there are {len(cells)}, numbered from 0;"
                    " correct task.dataset"
                )
            places.append(column)
        elif cells.count(column) != 1:
            raise DataError(
                f"{where}: {cells.count(column)} columns are called {quoted(column)}; columns are"
                f" {quoted(list(cells))}; a file without a header has numbers, from 0"
            )
        else:
            places.append(cells.index(column))
    return places


def _row(where: str, cells: Sequence[str]) -> _Row:
    user, text, label, *rest = cells
    if not user or not label:
        raise DataError(
            f"{where}: a row needs a user and a label, got {quoted(user)} and"
            f" {quoted(label)}; complete or remove it"
        )
    part = rest[0] if rest else None
    if part not in (None, "train", "test"):
        raise DataError(f"{where}: {quoted(part)} is neither 'train' nor 'test'; correct it")
    return _Row(user, text, label, part)


def _places_in(distinct: Sequence[str], values: Sequence[str]) -> IntArray:
    """Return the place of each value among the distinct ones [n]."""
    place = {value: number for number, value in enumerate(distinct)}
    return np.array([place[value] for value in values], dtype=np.int64)


def _classes(path: Path, rows: Sequence[_Row]) -> tuple[int, IntArray]:
    """Return the number of classes and the class of each row [n]."""
    values = [row.label for row in rows]
    distinct = sorted(set(values))
    if not 2 <= len(distinct) <= _MAX_CLASSES:
        raise DataError(
            f"{path}: the column of labels has {len(distinct)} different values, expected 2 to"
            f" {_MAX_CLASSES}; correct task.dataset.label"
        )
    if all(_WHOLE_NUMBER.fullmatch(value) for value in distinct):
        distinct.sort(key=int)
    return len(distinct), _places_in(distinct, values)


def _is_test(
    settings: DrawnTestSettings | ColumnTestSettings, rows: Sequence[_Row], owner: IntArray
) -> BoolArray:
    if isinstance(settings, ColumnTestSettings):
        return np.array([row.part == "test" for row in rows], dtype=np.bool_)
    draws = stream(_SPLIT_SEED, "data/labelled-text-split").random(len(rows))
    order = np.lexsort((draws, owner))
    sizes = np.bincount(owner)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_test = np.empty(len(rows), dtype=np.bool_)
    num_test = np.array([floor_product(settings.fraction, size) for size in sizes.tolist()])
    is_test[order] = rank < num_test[owner[order]]
    return is_test


def _padded(texts: Sequence[Sequence[str]], known: Sequence[str], length: int) -> IntArray:
    """Return the numbers of each text's words at the end of its row [n, length]."""
    number = {word: place for place, word in enumerate(known, start=UNKNOWN + 1)}
    tokens = np.full((len(texts), length), PADDING, dtype=np.int64)
    for row, text in zip(tokens, texts, strict=True):
        if text:
            row[-len(text) :] = [number.get(word, UNKNOWN) for word in text]
    return tokens
