"""Partition in which every client has samples of a single label.

The rule, with an example, is in docs/data.md: slices of equal size but for a shorter last one.

FedGRA (arXiv:2310.08147, section VI-C) has 50, 40 and 30 clients on ten labels. The rule for other
numbers of clients, and that a slice is a random part of its label, are inferred.
"""

from typing import Literal

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.membership import members, shuffled_by_label
from fleetsim.learning.partition.partition_kind import PartitionKind
from fleetsim.rng import stream
from fleetsim.schema.faults import Fault


class OneClassSettings(PartitionKind):
    """One label per client: each label's samples in equal slices, one slice to a client."""

    kind: Literal["one-class"] = "one-class"

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client; together they are all samples."""
        values, label_sizes = np.unique(labels, return_counts=True)
        fewest, num_more = divmod(num_clients, len(values))
        owners = stream(seed, "partition/one-class").permutation(num_clients)
        clients: list[IntArray] = []
        first = 0
        for place, (label, size) in enumerate(zip(values, label_sizes, strict=True)):
            num_slices = fewest + (place < num_more)
            slice_size = -(-size // num_slices)
            if (num_slices - 1) * slice_size >= size:
                raise ScenarioError(
                    f"fleet.size: the {size} samples of label {label} make no {num_slices} slices"
                    f" of {slice_size}, so one of its clients would have none; lower fleet.size"
                )
            clients.append(owners[first + np.arange(size) // slice_size])
            first += num_slices
        purpose = "partition/one-class-order"
        return members(shuffled_by_label(labels, clients, seed=seed, purpose=purpose), num_clients)

    def wrong_fleet_size(self, *, num_clients: int, num_labels: int | None) -> Fault | None:
        """Return the fault of a fleet with fewer clients than the data set has labels."""
        if num_labels is None or num_clients >= num_labels:
            return None
        message = (
            f"one-class assigns one label to a client, and {num_clients} clients cannot hold"
            f" {num_labels} labels; set fleet.size to {num_labels} or more"
        )
        return ("fleet", "size"), message
