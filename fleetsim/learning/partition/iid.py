"""Independent and identically distributed partition: a random split into equal parts."""

from typing import ClassVar, Literal

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.learning.partition.partition_kind import PartitionKind
from fleetsim.rng import stream


class IidSettings(PartitionKind):
    """A random split into equal parts."""

    splits_sequences: ClassVar[bool] = True

    kind: Literal["iid"] = "iid"

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return parts whose sizes differ by at most one; together they are all samples."""
        order = stream(seed, "partition/iid").permutation(len(labels))
        return tuple(np.sort(part) for part in np.array_split(order, num_clients))
