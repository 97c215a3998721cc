"""Partitions at random, by natural clients, and by runs of the samples sorted by label.

The rules, with examples and sources, are in docs/data.md.

- `iid` and `natural`, the clients that a data set has, such as MNIST's writers, need no labels.
- `shards`: equal shards of the sorted samples, a few of them to every client.
- `one-class`: each label's samples in slices of equal size but for a shorter last one, one slice to
  a client. FedGRA (arXiv:2310.08147, section VI-C) has 50, 40 and 30 clients on ten labels. The
  rule for other numbers of clients, and that a slice is a random part of its label, are inferred.
- `partly-iid`: clients 0 .. m-1 have samples drawn at random from all, so that their data resemble
  the test set. The others get runs of the rest, sorted by label and in random order within one. The
  source has 1 to 5 such clients, here 0 to 4.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.partition_kind import PartitionKind, members, shuffled_by_label
from fleetsim.rng import stream
from fleetsim.rounding import ROUNDING_SLACK
from fleetsim.schema.faults import Fault
from fleetsim.schema.ranges import Clients, Samples


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


class PartlyIidSettings(PartitionKind):
    """The first clients with samples of all labels alike, the others with few labels each."""

    kind: Literal["partly-iid"] = "partly-iid"
    num_iid: Clients
    """Clients with i.i.d. samples; they are the first of the fleet, 0 to num_iid - 1."""
    runs_per_client: Samples = 1
    """Runs of the samples sorted by label that each other client gets, so about as many labels."""
    size_sigma: Annotated[float, Field(ge=0.0, le=3.0)] = 0.0
    """Standard deviation of the logarithm of the clients' numbers of samples; 0: all alike."""

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client; together they are all samples."""
        sizes = _sizes(self.size_sigma, len(labels), num_clients, seed)
        runs_of = np.where(np.arange(num_clients) < self.num_iid, 1, self.runs_per_client)
        short = np.flatnonzero(sizes < runs_of)
        if short.size:
            k = int(short[0])
            raise ScenarioError(
                f"task.partition.size_sigma: client {k} would have {sizes[k]} of the {len(labels)}"
                f" samples, and needs {runs_of[k]} at least; lower it, or runs_per_client, or"
                " fleet.size"
            )
        order = stream(seed, "partition/partly-iid").permutation(len(labels))
        ends = np.cumsum(sizes[: self.num_iid])
        *alike, rest = np.split(order, ends)
        by_label = rest[np.argsort(labels[rest], kind="stable")]
        return (*map(np.sort, alike), *_runs(self, by_label, sizes[self.num_iid :], seed))

    def wrong_fleet_size(self, *, num_clients: int, num_labels: int | None) -> Fault | None:
        """Return the fault of more i.i.d. clients than the fleet has."""
        if self.num_iid <= num_clients:
            return None
        message = (
            f"{self.num_iid} clients are to have i.i.d. samples, but the fleet has {num_clients};"
            f" lower it to {num_clients} or less"
        )
        return ("task", "partition", "num_iid"), message


def _sizes(sigma: float, num_samples: int, num_clients: int, seed: int) -> IntArray:
    """Return the sizes of all clients [N], which add up to n: cumulated shares rounded down."""
    draws = stream(seed, "partition/partly-iid-sizes").standard_normal(num_clients)
    shares = np.exp(sigma * draws)
    inner = np.floor(num_samples * np.cumsum(shares)[:-1] / shares.sum() + ROUNDING_SLACK)
    return np.diff(np.concatenate([[0], inner.astype(np.int64), [num_samples]]))


def _runs(
    settings: PartlyIidSettings, by_label: IntArray, sizes: IntArray, seed: int
) -> list[IntArray]:
    """Return the samples of the other clients, which take their runs in random order."""
    num_runs = settings.runs_per_client
    # A client's runs differ by one sample at most.
    lengths = (sizes[:, None] + np.arange(num_runs)) // num_runs
    order = stream(seed, "partition/partly-iid-runs").permutation(lengths.size)
    client_of = np.repeat(order // num_runs, lengths.ravel()[order])
    return [np.sort(by_label[client_of == client]) for client in range(len(sizes))]
