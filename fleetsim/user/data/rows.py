"""Rows of one part of the user's data: sample, label and client, by index or all at once.

A part is a source of rows: a pair of arrays, a table (pandas DataFrame, Hugging Face data set,
mapping of columns), or items that are indexed. `source_of` finds out which. The parts of a row have
names in it, or places.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.host.user_code import user_faults
from fleetsim.quoting import quoted, type_name
from fleetsim.user.data import hugging_face
from fleetsim.user.data.values import as_array, is_of

Key = str | int
"""Name of a column or of a key of an item, or place in an item that is a tuple."""

_LABELS = ("label", "labels")
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the parts of a row; None: found by a rule, or absent."""

    inputs: Key | Sequence[Key] | None = None
    """Columns or keys of the inputs; None: the only ones besides label and client."""
    label: Key | None = None
    """Column or key of the label; None: `label` or `labels`, or the second of a pair."""
    client: Key | None = None
    """Column or key of the client that a sample belongs to; None: no client is named."""
    needs_client: bool = True
    """False: rows may be without the client, as those of a test part."""


class Row(NamedTuple):
    """One row, or all rows column by column, as the user's data have it."""

    sample: Any
    """Of all rows an array [n, ...] or a sequence of n samples."""
    label: Any
    client: Any


class Source(ABC):
    """Rows of one part."""

    place: str
    """Name of the part in errors."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def row(self, index: int) -> Row:
        """Return one row."""

    def columns(self) -> Row | None:
        """Return all rows at once; None: they are read one at a time."""
        return None


@dataclass(frozen=True, slots=True)
class Names:
    """Columns of a table, or keys of an item, by their use."""

    inputs: tuple[Key, ...]
    label: Key
    client: Key | None
    is_single: bool
    """True: the one column holds the samples; False: columns are the features of a vector."""

    def row(self, item: Any) -> Row:
        """Return the row of an item; several inputs are a list."""
        inputs = [item[name] for name in self.inputs]
        client = None if self.client is None else item[self.client]
        return Row(inputs[0] if self.is_single else inputs, item[self.label], client)


def named(keys: Sequence[Key], fields: Fields, place: str) -> Names:
    """Return the columns or keys by their use."""
    label, client = fields.label, fields.client
    if client not in keys and not fields.needs_client:
        client = None
    if label is None:
        matches = [name for name in _LABELS if name in keys]
        if len(matches) != 1:
            raise DataError(
                f"{place} has {_listed(keys)}, and not one called label or labels; name that of the"
                " labels, such as label='y'"
            )
        label = matches[0]
    inputs = fields.inputs
    if inputs is None:
        inputs = [key for key in keys if key not in (label, client)]
        if not inputs:
            raise DataError(f"{place} has {_listed(keys)}, and none is left for the inputs")
        is_single = len(inputs) == 1
    elif isinstance(inputs, str | int):
        inputs, is_single = [inputs], True
    else:
        is_single = False
    for name, requested in (("inputs", inputs), ("label", [label]), ("client", [client])):
        for key in requested:
            if key is not None and key not in keys:
                raise DataError(
                    f"{name}={quoted(key)}: {place} has {_listed(keys)}; name one of them"
                )
    return Names(tuple(inputs), label, client, is_single)


def _listed(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return f"columns {', '.join(map(quoted, keys[:_MOST_NAMED]))}{more}"


def is_frame(part: Any) -> bool:
    """Return whether it is a pandas DataFrame."""
    return is_of(part, "pandas", "DataFrame")


def is_hugging_face(part: Any) -> bool:
    """Return whether it is a Hugging Face `Dataset`."""
    return is_of(part, "datasets", "Dataset")


class TableSource(Source):
    """Rows of a table."""

    def __init__(self, table: Any, fields: Fields, place: str) -> None:
        """Find out which columns are used."""
        self.place = place
        self._table = table
        keys = table.column_names if is_hugging_face(table) else list(table)
        self._names = named(keys, fields, place)
        if not isinstance(table, Mapping):
            self._num = len(table)
            return
        lengths = {key: len(table[key]) for key in keys}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key} {num}" for key, num in lengths.items())
            raise DataError(f"{place}: columns have unequal lengths ({listed}); make them equal")
        self._num = next(iter(lengths.values()))

    def __len__(self) -> int:
        return self._num

    def row(self, index: int) -> Row:
        """Return one row."""
        names = self._names
        used = {*names.inputs, names.label, names.client} - {None}
        if is_hugging_face(self._table):
            item = self._table[index]
        elif is_frame(self._table):
            item = {key: self._table[key].iloc[index] for key in used}
        else:
            item = {key: self._table[key][index] for key in used}
        row = names.row(item)
        return row if names.is_single else row._replace(sample=np.array(row.sample, np.float32))

    def columns(self) -> Row | None:
        """Return all rows; None for a Hugging Face data set with a transform of its own."""
        names = self._names
        if is_hugging_face(self._table) and self._table.format["type"] == "custom":
            return None
        samples: Any = self._column(names.inputs[0]) if names.is_single else None
        if samples is None or (isinstance(samples, np.ndarray) and _is_of_numbers(samples)):
            samples = self._features(names.inputs)
        client = None if names.client is None else self._column(names.client)
        return Row(samples, self._column(names.label), client)

    def _column(self, key: Key) -> Any:
        """Return a column: an array, or a sequence of samples."""
        if is_hugging_face(self._table):
            return hugging_face.column(self._table, str(key))
        values = self._table[key]
        if is_frame(self._table):
            return values.to_numpy()
        return as_array(values, f"{self.place}: {key}")

    def _features(self, keys: Sequence[Key]) -> NDArray[np.float32]:
        """Return columns of numbers as vectors [n, columns]."""
        columns = []
        for key in keys:
            array = np.asarray(self._column(key))
            if not _is_of_numbers(array):
                raise DataError(
                    f"{self.place}: column {quoted(key)} holds {_content(array)}; several columns"
                    " of inputs are numbers, one each; name those of the inputs, such as"
                    f" inputs=[...], or the one that holds them"
                )
            columns.append(array.astype(np.float32))
        return np.stack(columns, axis=1)


def _is_of_numbers(column: NDArray[Any]) -> bool:
    return column.ndim == 1 and column.dtype.kind in "biuf"


def _content(array: NDArray[Any]) -> str:
    if array.dtype.kind != "O" or not array.size:
        return f"{array.dtype} of shape {array.shape}"
    return f"values of type {type(array.flat[0]).__name__}"


FORMS = (
    "a torch Dataset, a pair of arrays (inputs, labels), a pandas DataFrame, a Hugging Face"
    " Dataset, or a list of items (sample, label)"
)


def source_of(part: Any, fields: Fields, place: str) -> Source:
    """Return the rows of a part."""
    if isinstance(part, str | Path):
        part = hugging_face.from_files(Path(part), place)
    if isinstance(part, Mapping) or is_frame(part) or is_hugging_face(part):
        return TableSource(part, fields, place)
    if is_pair_of_arrays(part):
        inputs, labels = part
        return _ArraySource(inputs, labels, fields, place)
    may_hold = not (isinstance(part, bytes) or _is_array(part))
    if may_hold and hasattr(part, "__getitem__") and hasattr(part, "__len__"):
        return _ItemSource(part, fields, place)
    if may_hold and hasattr(part, "__iter__"):
        raise DataError(
            f"{place} is of type {type_name(part)}, which is read in order alone; give one with"
            " len() and items by index, such as list(...) of it"
        )
    raise DataError(f"{place} is of type {type_name(part)}; expected {FORMS}")


def is_pair_of_arrays(part: Any) -> bool:
    """Return whether a part is (inputs, labels), both arrays or tensors."""
    return isinstance(part, tuple) and len(part) == 2 and all(map(_is_array, part))


@dataclass(frozen=True, slots=True)
class _ArraySource(Source):
    """Pair of arrays."""

    inputs: Any
    labels: Any
    fields: Fields
    place: str

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise DataError(
                f"{self.place} has {len(self.inputs)} inputs and {len(self.labels)} labels; give"
                " one label per input"
            )
        for name, key in (("inputs", self.fields.inputs), ("label", self.fields.label)):
            if key is not None:
                raise DataError(
                    f"{name}={quoted(key)}: {self.place} is a pair of arrays, which have no"
                    " columns; leave it out"
                )
        if self.fields.client is not None and self.fields.needs_client:
            raise DataError(
                f"client={quoted(self.fields.client)}: {self.place} is a pair of arrays, which have"
                " no columns; give an array with the client of each sample"
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def row(self, index: int) -> Row:
        return Row(self.inputs[index], self.labels[index], None)

    def columns(self) -> Row | None:
        return Row(self.inputs, self.labels, None)


@dataclass(frozen=True, slots=True)
class _ItemSource(Source):
    """Items by index: pairs (sample, label), longer tuples or mappings."""

    items: Any
    fields: Fields
    place: str

    def __len__(self) -> int:
        with user_faults(f"{self.place}: len()", DataError):
            return len(self.items)

    def row(self, index: int) -> Row:
        with user_faults(f"{self.place}: item {index}", DataError):
            # A mapping may read what it holds only now.
            return row_of(self.items[index], self.fields, f"{self.place}: item {index}")


def row_of(item: Any, fields: Fields, place: str) -> Row:
    """Return the row of an item."""
    keys: list[Key]
    if isinstance(item, Mapping):
        keys = list(item)
    elif isinstance(item, tuple | list):
        keys = list(range(len(item)))
        if fields.inputs is None and fields.label is None:
            most = 2 if fields.client is None else 3
            least = most if fields.needs_client else 2
            if not least <= len(item) <= most:
                raise DataError(
                    f"{place} is a {type_name(item)} of {len(item)}, not (sample, label); name"
                    " their places, such as inputs=0, label=1"
                )
            fields = replace(fields, inputs=0, label=1)
    else:
        raise DataError(
            f"{place} is of type {type_name(item)}; expected (sample, label), or a dictionary"
            " with both"
        )
    return named(keys, fields, place).row(item)


class Transformed(Source):
    """Rows whose samples pass through the user's function, one at a time."""

    def __init__(self, source: Source, transform: Callable[[Any], Any]) -> None:
        self.place = source.place
        self._source, self._transform = source, transform

    def __len__(self) -> int:
        return len(self._source)

    def row(self, index: int) -> Row:
        """Return one row."""
        row = self._source.row(index)
        with user_faults(f"{self.place}: transform of item {index}", DataError):
            return row._replace(sample=self._transform(row.sample))


def _is_array(value: Any) -> bool:
    """Return whether a value is an array or a tensor, not a table."""
    is_typed = hasattr(value, "shape") and hasattr(value, "dtype")
    return is_typed and not is_frame(value)
