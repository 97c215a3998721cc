"""Partition in which every client has samples of a single label.

The samples of a label are cut into as many slices as the label has clients, all of one size but for
a shorter last one, and every client gets one slice. With C labels, N clients and N = a C + b, the
first b labels have a + 1 clients and the others a. So 50 clients share MNIST in five slices a
digit, digit 0 in four of 1,185 and one of 1,183.

Source: FedGRA (arXiv:2310.08147, section VI-C), which has 50, 40 and 30 clients on ten labels. The
rule for other numbers of clients, and that a slice is a random part of its label, are inferred.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.membership import members
from fleetsim.learning.partition.partition_kind import PartitionKind
from fleetsim.rng import stream
from fleetsim.schema.faults import Fault
from fleetsim.schema.strict_yaml import spelled


class OneClassSettings(PartitionKind):
    """One label per client: each label's samples in equal slices, one slice to a client."""

    kind: Literal["one-class"] = "one-class"

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client; together they are all samples.

        The seed draws which client has which slice, and the samples in it.

        Raises:
            ScenarioError: fewer clients than labels, or too many for a label's samples.
        """
        values, label_sizes = np.unique(labels, return_counts=True)
        fault = self.wrong_fleet_size(num_clients=num_clients, num_labels=len(values))
        if fault is not None:
            raise ScenarioError(f"{spelled(fault[0])}: {fault[1]}")
        fewest, num_more = divmod(num_clients, len(values))
        owners = stream(seed, "partition/one-class").permutation(num_clients)
        client_of = np.empty(len(labels), dtype=np.int64)
        first = 0
        for place, (label, size) in enumerate(zip(values, label_sizes, strict=True)):
            num_slices = fewest + (place < num_more)
            slice_size = -(-size // num_slices)
            if (num_slices - 1) * slice_size >= size:
                raise ScenarioError(
                    f"fleet.size: the {size} samples of label {label} make no {num_slices} slices"
                    f" of {slice_size}, so one of its clients would have none; lower fleet.size"
                )
            order = stream(seed, "partition/one-class-order", label).permutation(
                np.flatnonzero(labels == label)
            )
            own = owners[first : first + num_slices]
            client_of[order] = own[np.arange(size) // slice_size]
            first += num_slices
        return members(client_of, num_clients)

    def wrong_fleet_size(self, *, num_clients: int, num_labels: int | None) -> Fault | None:
        """Return the fault of a fleet with fewer clients than the data set has labels."""
        if num_labels is None or num_clients >= num_labels:
            return None
        says = (
            f"one-class assigns one label to a client, and {num_clients} clients cannot hold"
            f" {num_labels} labels; set fleet.size to {num_labels} or more"
        )
        return ("fleet", "size"), says
