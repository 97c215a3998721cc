"""Rows of one part of the user's data: sample, label and client, by index or all at once.

A part is a source of rows: a pair of arrays, a table, or items that are indexed. `source_of` finds
out which.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from fleetsim.errors import DataError
from fleetsim.host.user_code import user_faults
from fleetsim.quoting import quoted
from fleetsim.user.data import tables
from fleetsim.user.data.fields import DatasetColumns, Fields, Key, Row, named

FORMS = (
    "a torch Dataset, a pair of arrays (inputs, labels), a pandas DataFrame, a Hugging Face"
    " Dataset, or a list of items (sample, label)"
)


class Source(Protocol):
    """Rows of one part."""

    @property
    def place(self) -> str:
        """Name of the part in errors."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def row(self, index: int) -> Row:
        """Return one row."""

    def columns(self) -> DatasetColumns | None:
        """Return all rows at once; None: they are read one at a time."""


def source_of(part: Any, fields: Fields, place: str) -> Source:
    """Return the rows of a part."""
    if isinstance(part, str | Path):
        from fleetsim.user.data.hugging_face import from_files  # noqa: PLC0415

        part = from_files(Path(part), place)
    if is_table(part):
        return tables.TableSource(part, fields, place)
    if is_pair_of_arrays(part):
        inputs, labels = part
        return _ArraySource(inputs, labels, fields, place)
    is_text = isinstance(part, bytes)
    if (
        hasattr(part, "__getitem__")
        and hasattr(part, "__len__")
        and not (is_text or _is_array(part))
    ):
        return _ItemSource(part, fields, place)
    if hasattr(part, "__iter__") and not (is_text or _is_array(part)):
        raise DataError(
            f"{place} is of type {_kind(part)}, which is read in order alone; give one with len()"
            " and items by index, such as list(...) of it"
        )
    raise DataError(f"{place} is of type {_kind(part)}; expected {FORMS}")


def is_table(part: Any) -> bool:
    """Return whether a part has named columns: a pandas or Hugging Face table, or a mapping."""
    return isinstance(part, Mapping) or tables.is_frame(part) or tables.is_hugging_face(part)


def is_pair_of_arrays(part: Any) -> bool:
    """Return whether a part is (inputs, labels), both arrays or tensors."""
    return isinstance(part, tuple) and len(part) == 2 and all(map(_is_array, part))


@dataclass(frozen=True, slots=True)
class _ArraySource:
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

    def columns(self) -> DatasetColumns | None:
        return DatasetColumns(self.inputs, self.labels, None)


@dataclass(frozen=True, slots=True)
class _ItemSource:
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

    def columns(self) -> DatasetColumns | None:
        return None


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
                    f"{place} is a {_kind(item)} of {len(item)}, not (sample, label); name their"
                    " places, such as inputs=0, label=1"
                )
            fields = replace(fields, inputs=0, label=1)
    else:
        raise DataError(
            f"{place} is of type {_kind(item)}; expected (sample, label), or a dictionary with both"
        )
    names = named(keys, fields, place)
    sample = item[names.inputs[0]] if names.is_single else [item[name] for name in names.inputs]
    client = None if names.client is None else item[names.client]
    return Row(sample, item[names.label], client)


@dataclass(frozen=True, slots=True)
class Transformed:
    """Rows whose samples pass through the user's function."""

    source: Source
    transform: Callable[[Any], Any]

    @property
    def place(self) -> str:
        """Name of the part in errors."""
        return self.source.place

    def __len__(self) -> int:
        return len(self.source)

    def row(self, index: int) -> Row:
        """Return one row."""
        row = self.source.row(index)
        with user_faults(f"{self.place}: transform of item {index}", DataError):
            return row._replace(sample=self.transform(row.sample))

    def columns(self) -> DatasetColumns | None:
        """Return None: samples are transformed one at a time."""
        return None


def _is_array(value: Any) -> bool:
    """Return whether a value is an array or a tensor, not a table."""
    is_typed = hasattr(value, "shape") and hasattr(value, "dtype")
    return is_typed and not tables.is_frame(value)


def _kind(value: Any) -> str:
    return type(value).__name__
