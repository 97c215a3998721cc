"""Inputs that are made anew whenever a client trains on them, by the user's own transform.

What the transform draws from the global generators depends on the address of the access alone: the
scenario's seed, the client, its task, the item, and how often the task has read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.host.own_code import own_code
from fleetsim.learning import global_generators
from fleetsim.learning.data.own.checked_part import Array
from fleetsim.learning.data.own.rows import Source
from fleetsim.learning.data.own.values import as_inputs, as_labels, as_sample, require_alike
from fleetsim.learning.data.standardisation import scaled


@dataclass(frozen=True, slots=True, eq=False)
class AccessedInputs:
    """Samples [n, ...] of a source of rows, made by its transform at each access."""

    source: Source
    items: IntArray
    """Item of the source of each sample [n]."""
    labels: NDArray[Any]
    """Label of each sample [n] or [n, t], as it was read first."""
    like: Array
    """First sample [1, ...] as numbers: float32 or, of tokens, int64."""
    largest: float
    """Largest number of all samples as they were read first."""
    sha256: str
    """Digest of all samples of the source, each as one access with a fixed address made it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the samples, [n, ...]."""
        return (len(self.items), *self.like.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.like.dtype

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.items)

    def __getitem__(self, kept: NDArray[Any]) -> AccessedInputs:
        """Return some of the samples, still to be made."""
        return replace(self, items=self.items[kept], labels=self.labels[kept])

    def taken(
        self, rows: IntArray, visits: Sequence[int], *, seed: int, address: tuple[int, ...]
    ) -> Array:
        """Return some samples as numbers [m, ...].

        Args:
            rows: which samples [m].
            visits: number of earlier accesses to each, in this task [m].
            seed: root seed of the run.
            address: client, and address of its task.

        Raises:
            DataError: a sample has another form or label than it had first.
        """
        found = np.empty((len(rows), *self.like.shape[1:]), self.dtype)
        with own_code(f"{self.source.place}: reading it", DataError), global_generators.restored():
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
                found[place] = sample
        return found


def read_item(source: Source, item: int) -> tuple[Array, NDArray[Any], Any]:
    """Return the numbers of one sample, float32 or int64, its label, and its client.

    Raises:
        DataError: they are no numbers.
    """
    where = f"{source.place}: item {item}"
    row = source.row(item)
    sample = as_inputs(as_sample(row.sample, where)[None], where)
    if sample.dtype == np.uint8:
        sample = scaled(sample)
    return sample[0], as_labels(row.label, f"{where}: label"), row.client
