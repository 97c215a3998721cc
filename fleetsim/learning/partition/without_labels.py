"""Partitions that need no labels: at random, and by the natural clients of a data set."""

from typing import ClassVar, Literal

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.partition_kind import PartitionKind, members
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


class NaturalSettings(PartitionKind):
    """Natural clients of the data set, such as MNIST's writers.

    If there are more of them than the fleet has clients, some are drawn at random.
    """

    splits_sequences: ClassVar[bool] = True
    uses_owners: ClassVar[bool] = True

    kind: Literal["natural"] = "natural"

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of N owners, drawn without replacement and in ascending order."""
        if owner is None:
            raise ScenarioError(
                "task.partition.kind: natural needs a data set with clients of its own, such as "
                "synthetic or mnist with writers: true; else choose iid, dirichlet or shards"
            )
        owners, client_of = np.unique(owner, return_inverse=True)
        if len(owners) < num_clients:
            raise ScenarioError(
                f"fleet.size: {num_clients} clients, but the data set has {len(owners)} of its own;"
                f" set fleet.size to {len(owners)} or less, or task.partition.kind to another"
            )
        samples_of = members(client_of, len(owners))
        drawn = stream(seed, "partition/natural").permutation(len(owners))[:num_clients]
        return tuple(samples_of[number] for number in np.sort(drawn))
