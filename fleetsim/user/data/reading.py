"""Reading of a part of the user's data: once into arrays, or once to learn its labels.

Reading has one order, and global generators are seeded before it and restored after it. Samples
that are kept must not be drawn: a random transform would be frozen in its first draw without a
word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.host.user_code import user_code
from fleetsim.learning import global_generators
from fleetsim.learning.data.dataset import AccessedInputs, scaled
from fleetsim.learning.data.own_data import Array, CheckedPart, checked_part
from fleetsim.user.data.rows import Row, Source
from fleetsim.user.data.values import (
    all_alike,
    as_array,
    as_clients,
    as_inputs,
    as_labels,
    as_sample,
    require_alike,
)

_READ_SEED = 0
_WATCHED = 500
"""Items after which draws from the global generators are looked for."""


def read_once(source: Source, client: Any, *, hint: str) -> CheckedPart:
    """Return a part as arrays; `hint` says what to do about samples that are drawn.

    `client` is that of each sample; None: the rows name it, if anything does.
    """
    num, inputs_at = _length(source), f"{source.place}: inputs"
    samples, labels, clients = source.columns() or _read_rows(source, range(num), hint)
    if isinstance(samples, list) or as_array(samples, inputs_at).dtype.kind == "O":
        samples = all_alike(samples, num, inputs_at)
    inputs = as_inputs(as_array(samples, inputs_at), inputs_at)
    stacked = as_labels(labels, f"{source.place}: labels")
    return _checked(source, inputs, stacked, clients if client is None else client)


def read_for_access(source: Source, client: Any) -> CheckedPart:
    """Return a part whose inputs are `TransformedInputs`; every sample is made once to check it."""
    num = _length(source)
    digest = hashlib.sha256()
    labels, clients, largest = [], [], -np.inf
    like: NDArray[Any] | None = None
    with global_generators.restored():
        for item in range(num):
            global_generators.seed(_READ_SEED, "data/first-access", item)
            sample, label, owner = read_item(source, item)
            like = sample[None] if like is None else like
            require_alike(sample, like, f"{source.place}: item {item}", "item 0")
            largest = max(largest, float(sample.max()))
            digest.update(np.ascontiguousarray(sample).tobytes())
            labels.append(label)
            clients.append(owner)
    assert like is not None  # there is at least one
    stacked = _stacked(labels, f"{source.place}: labels")
    inputs = TransformedInputs(source, np.arange(num), stacked, like, largest, digest.hexdigest())
    return _checked(source, inputs, stacked, _given(clients) if client is None else client)


@dataclass(frozen=True, eq=False)
class TransformedInputs(AccessedInputs):
    """Samples of a source of rows, made by its transform at each access.

    What the transform draws from the global generators depends on the address of the access alone:
    the scenario's seed, the client, its task, the item, and how often the task has read it.
    """

    source: Source
    items: IntArray
    labels: NDArray[Any]
    """Label of each sample [n] or [n, t], as it was read first."""
    like: Array
    """First sample [1, ...] as numbers: float32 or, of tokens, int64."""
    largest: float
    sha256: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the samples, [n, ...]."""
        return (len(self.items), *self.like.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.like.dtype

    def __getitem__(self, kept: NDArray[Any]) -> TransformedInputs:
        """Return some of the samples, still to be made."""
        return replace(self, items=self.items[kept], labels=self.labels[kept])

    def taken(
        self, rows: IntArray, visits: Sequence[int], *, seed: int, address: tuple[int, ...]
    ) -> Array:
        """Return some samples as numbers [m, ...]."""
        result = np.empty((len(rows), *self.like.shape[1:]), self.dtype)
        with user_code(f"{self.source.place}: reading it", DataError), global_generators.restored():
            for place, (row, visit) in enumerate(zip(rows.tolist(), visits, strict=True)):
                item = int(self.items[row])
                global_generators.seed(seed, "data/access", *address, item, visit)
                sample, label, _ = read_item(self.source, item)
                where = f"{self.source.place}: item {item}"
                require_alike(sample, self.like, where, "the first")
                if not np.array_equal(label, self.labels[row]):
                    raise DataError(
                        f"{where} has the label {label.tolist()}, and had"
                        f" {self.labels[row].tolist()} when it was read first; labels stay"
                    )
                if self.dtype == np.int64 and sample.max() > self.largest:
                    raise DataError(
                        f"{where} holds the token {sample.max()}, larger than any when all were"
                        f" read first ({self.largest:g}), which size the model's vocabulary; keep"
                        " tokens within it"
                    )
                result[place] = sample
        return result

    def fixed(self, *, hint: str) -> Array:
        """Return all samples as an array, read once."""
        samples, _, _ = _read_rows(self.source, self.items.tolist(), hint)
        inputs = as_inputs(samples, f"{self.source.place}: inputs")
        return scaled(inputs) if inputs.dtype == np.uint8 else inputs


def read_item(source: Source, item: int) -> tuple[Array, NDArray[Any], Any]:
    """Return the numbers of one sample, float32 or int64, its label, and its client."""
    where = f"{source.place}: item {item}"
    row = source.row(item)
    sample = as_inputs(as_sample(row.sample, where)[None], where)
    if sample.dtype == np.uint8:
        sample = scaled(sample)
    return sample[0], as_labels(row.label, f"{where}: label"), row.client


def _length(source: Source) -> int:
    num = len(source)
    if num < 1:
        raise DataError(f"{source.place} has no samples; give at least one")
    return num


def _read_rows(source: Source, items: Sequence[int], hint: str) -> Row:
    """Return samples, labels and clients of some items, read one row at a time."""
    labels, clients = [], []

    def samples() -> Iterator[Any]:
        watch = global_generators.GeneratorWatch()
        for place, item in enumerate(items):
            row = source.row(item)
            labels.append(as_labels(row.label, f"{source.place}: item {item}: label"))
            clients.append(row.client)
            if place % _WATCHED == 0 or place == len(items) - 1:
                drawn = watch.drawn()
                if drawn:
                    first = items[max(0, place - _WATCHED + 1)]
                    which = f"item {item}" if first == item else f"one of items {first} to {item}"
                    raise DataError(
                        f"{source.place}: {which} draws from the global generator of"
                        f" {' and '.join(drawn)}, but is read once; {hint}"
                    )
            yield row.sample

    with global_generators.restored():
        global_generators.seed(_READ_SEED, "data/read")
        stacked = all_alike(samples(), len(items), f"{source.place}: inputs")
    return Row(stacked, _stacked(labels, f"{source.place}: labels"), _given(clients))


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
