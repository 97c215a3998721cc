"""Partition into equal shards of the samples sorted by label, a few of them to every client.

Sources: docs/data.md.
"""

from typing import ClassVar, Literal

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.learning.partition.partition_kind import PartitionKind
from fleetsim.rng import stream
from fleetsim.schema.ranges import Samples


class ShardsSettings(PartitionKind):
    """Equal shards of the samples sorted by label, assigned at random."""

    needs_each: ClassVar[tuple[str, str] | None] = (
        "shards_per_client",
        "shards, of a sample at least, each need",
    )

    kind: Literal["shards"] = "shards"
    shards_per_client: Samples = 2
    """Shards of each client, so about how many labels it sees at most."""
    single_label: bool = False
    """Cut the shards inside the labels, so that none holds two; samples that a label leaves over,
    and shards beyond those needed, are not used."""

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return N * s shards of floor(n / (N * s)) samples each, s of them to every client.

        As in the sources, the n mod (N * s) samples at the end of the sorted order are not used,
        and a shard holds two labels where a label's samples end inside it, unless `single_label`.
        """
        num_shards = num_clients * self.shards_per_client
        shard_size = len(labels) // num_shards
        by_label = np.argsort(labels, kind="stable")
        if self.single_label:
            shards = _pure_shards(labels[by_label], by_label, num_shards)
        else:
            shards = by_label[: num_shards * shard_size].reshape(num_shards, shard_size)
        order = stream(seed, "partition/shards").permutation(len(shards))[:num_shards]
        shards_of = order.reshape(num_clients, self.shards_per_client)
        return tuple(np.sort(shards[chosen].ravel()) for chosen in shards_of)


def _pure_shards(labels: IntArray, samples: IntArray, num_shards: int) -> IntArray:
    """Return at least `num_shards` shards of one size, the largest possible, each of one label.

    Labels [n] are ascending, and samples [n] in the same order; there are at most n shards.
    """
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    label_sizes = np.diff(starts, append=len(labels))
    size = len(labels) // num_shards
    # It ends: n shards of one sample are enough.
    while (label_sizes // size).sum() < num_shards:
        size -= 1
    sizes = label_sizes // size * size
    used = [samples[start : start + num] for start, num in zip(starts, sizes, strict=True)]
    return np.concatenate(used).reshape(-1, size)
