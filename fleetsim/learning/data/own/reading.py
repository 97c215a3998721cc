"""Reading of a part of the user's data: once into arrays, or once to learn its labels.

Reading has one order, and global generators are seeded before it and restored after it. Samples
that are kept must not be drawn: a random transform would be frozen in its first draw without a
word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.learning import global_generators
from fleetsim.learning.data.own.accessed_inputs import AccessedInputs, read_item
from fleetsim.learning.data.own.checked_part import Array, CheckedPart, checked_part
from fleetsim.learning.data.own.fields import Columns, Row
from fleetsim.learning.data.own.rows import Source
from fleetsim.learning.data.own.values import (
    all_alike,
    as_array,
    as_clients,
    as_inputs,
    as_labels,
    require_alike,
)
from fleetsim.learning.data.standardisation import scaled

_READ_SEED = 0
_WATCHED = 500
"""Items after which draws from the global generators are looked for."""


def read_once(source: Source, client: Any, *, way_out: str) -> CheckedPart:
    """Return a part as arrays.

    Args:
        source: its rows.
        client: client of each sample; None: the rows name it, if anything does.
        way_out: what to do about samples that are drawn.

    Raises:
        DataError: a sample, label or client is none, or samples differ in shape.
    """
    num, inputs_at = _length(source), f"{source.place}: inputs"
    columns = source.columns()
    if columns is None:
        samples, labels, clients = _read_rows(source, num, way_out)
    else:
        samples, labels, clients = columns
    if isinstance(samples, list) or as_array(samples, inputs_at).dtype.kind == "O":
        samples = all_alike(samples, num, inputs_at)
    inputs = as_inputs(as_array(samples, inputs_at), inputs_at)
    own = as_labels(labels, f"{source.place}: labels")
    return _checked(source, inputs, own, clients if client is None else client)


def read_for_access(source: Source, client: Any) -> CheckedPart:
    """Return a part whose inputs are `AccessedInputs`; every sample is made once to check it.

    Arguments and errors are those of `read_once`.
    """
    num = _length(source)
    digest = hashlib.sha256()
    labels, clients, largest = [], [], -np.inf
    like: NDArray[Any] | None = None
    with global_generators.restored():
        for item in range(num):
            global_generators.seed(_READ_SEED, "data/first-access", item)
            sample, label, own = read_item(source, item)
            like = sample[None] if like is None else like
            require_alike(sample, like, f"{source.place}: item {item}", "item 0")
            largest = max(largest, float(sample.max()))
            digest.update(np.ascontiguousarray(sample).tobytes())
            labels.append(label)
            clients.append(own)
    assert like is not None  # there is at least one
    stacked = _stacked(labels, f"{source.place}: labels")
    inputs = AccessedInputs(source, np.arange(num), stacked, like, largest, digest.hexdigest())
    return _checked(source, inputs, stacked, _given(clients) if client is None else client)


def fixed(inputs: AccessedInputs, *, way_out: str) -> Array:
    """Return samples that were to be made at each access as an array, read once.

    Raises:
        DataError: as `read_once`.
    """
    part = read_once(_Some(inputs.source, inputs.items), None, way_out=way_out)
    assert isinstance(part.inputs, np.ndarray)
    return scaled(part.inputs) if part.inputs.dtype == np.uint8 else part.inputs


@dataclass(frozen=True, slots=True)
class _Some:
    """Some rows of a source."""

    source: Source
    items: IntArray

    @property
    def place(self) -> str:
        return self.source.place

    def __len__(self) -> int:
        return len(self.items)

    def row(self, index: int) -> Row:
        return self.source.row(int(self.items[index]))

    def columns(self) -> Columns | None:
        return None


def _length(source: Source) -> int:
    num = len(source)
    if num < 1:
        raise DataError(f"{source.place} has no samples; give at least one")
    return num


def _read_rows(source: Source, num: int, way_out: str) -> tuple[Any, Any, Any]:
    """Return samples, labels and clients, read one row at a time."""
    labels, clients = [], []

    def samples() -> Iterator[Any]:
        watch = global_generators.Watch()
        for item in range(num):
            row = source.row(item)
            labels.append(as_labels(row.label, f"{source.place}: item {item}: label"))
            clients.append(row.client)
            if item % _WATCHED == 0 or item == num - 1:
                drawn = watch.drawn()
                if drawn:
                    first = max(0, item - _WATCHED + 1)
                    items = f"item {item}" if first == item else f"one of items {first} to {item}"
                    raise DataError(
                        f"{source.place}: {items} draws from the global generator of"
                        f" {' and '.join(drawn)}, but is read once; {way_out}"
                    )
            yield row.sample

    with global_generators.restored():
        global_generators.seed(_READ_SEED, "data/read")
        found = all_alike(samples(), num, f"{source.place}: inputs")
    return found, _stacked(labels, f"{source.place}: labels"), _given(clients)


def _stacked(labels: list[NDArray[Any]], place: str) -> NDArray[Any]:
    """Return labels of one shape as an array [n] or [n, t]."""
    for item, label in enumerate(labels):
        if label.shape != labels[0].shape:
            raise DataError(
                f"{place}: item {item} has a label of shape {label.shape}, item 0 one of"
                f" {labels[0].shape}; make all alike"
            )
    return np.stack(labels)


def _given(clients: list[Any]) -> list[Any] | None:
    return None if all(client is None for client in clients) else clients


def _checked(
    source: Source, inputs: Array | AccessedInputs, labels: NDArray[Any], clients: Any
) -> CheckedPart:
    client_at = f"{source.place}: client"
    return checked_part(
        inputs,
        labels,
        None if clients is None else as_clients(clients, client_at),
        inputs_at=f"{source.place}: inputs",
        labels_at=f"{source.place}: labels",
        client_at=client_at,
        verb="give",
    )
