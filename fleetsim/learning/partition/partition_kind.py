"""Interface of the partitions that a scenario can name, and draws by label that several share.

A new partition is a subclass of `PartitionKind`, and its name in
`fleetsim.learning.partition.client_samples.PartitionSettings`.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import ScenarioError
from fleetsim.rng import stream
from fleetsim.schema.faults import Fault
from fleetsim.settings import Settings

_MAX_ATTEMPTS = 1000
"""Draws of a split before the scenario is called infeasible."""

_Drawn = TypeVar("_Drawn")


def members(client_of: IntArray, num_clients: int) -> tuple[IntArray, ...]:
    """Return the ascending sample indices of clients 0..N-1, from the client of every sample [n].

    >>> [part.tolist() for part in members(np.array([1, 0, 1]), 2)]
    [[1], [0, 2]]
    """
    by_client = np.argsort(client_of, kind="stable")
    ends = np.cumsum(np.bincount(client_of, minlength=num_clients))
    return tuple(np.split(by_client, ends[:-1]))


def label_coverage(parts: Sequence[IntArray], labels: IntArray, num_classes: int) -> FloatArray:
    """Return the share of all labels that occur among each client's samples [N].

    >>> parts = [np.array([0, 1]), np.array([2, 3]), np.array([4])]
    >>> label_coverage(parts, np.array([1, 1, 0, 3, 2]), 4).tolist()
    [0.25, 0.5, 0.25]
    """
    owners = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    held = np.unique(owners * num_classes + labels[np.concatenate(parts)])
    coverage: FloatArray = np.bincount(held // num_classes, minlength=len(parts)) / num_classes
    return coverage


def shuffled_by_label(
    labels: IntArray, clients: Sequence[IntArray], *, seed: int, purpose: str
) -> IntArray:
    """Return the client of every sample [n]; which samples of a label a client gets is random.

    `clients` has for each label, in ascending order, a client for each of its samples. The orders
    are drawn at the address (seed, purpose, label).
    """
    client_of = np.empty(len(labels), dtype=np.int64)
    for label, clients_of_label in zip(np.unique(labels), clients, strict=True):
        samples = np.flatnonzero(labels == label)
        client_of[stream(seed, purpose, label).permutation(samples)] = clients_of_label
    return client_of


def first_with_enough(
    draw: Callable[[int], tuple[IntArray, _Drawn]], min_samples: int, hint: str
) -> _Drawn:
    """Return what the first attempt draws that gives every client enough samples.

    `draw` returns the sizes of all clients [N], and what it drew, from the number of an attempt.
    """
    most = 0
    for attempt in range(_MAX_ATTEMPTS):
        sizes, drawn = draw(attempt)
        if sizes.min() >= min_samples:
            return drawn
        most = max(most, int(sizes.min()))
    raise ScenarioError(
        f"task.partition.min_samples: in none of {_MAX_ATTEMPTS} draws had each of the "
        f"{sizes.size} clients {min_samples} samples, {most} at most; lower it or {hint}"
    )


class PartitionKind(Settings):
    """Settings of one kind of partition, which assign training samples to clients."""

    kind: str
    splits_sequences: ClassVar[bool] = False
    """True: it needs no labels, so it also splits sequences, which have many labels each."""
    uses_owners: ClassVar[bool] = False
    """True: it needs the natural clients of the data set."""
    needs_each: ClassVar[tuple[str, str] | None] = None
    """Key that states the samples that each client needs, and words between their number and that
    of all clients' samples; None: one sample is enough."""

    @abstractmethod
    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client: ascending indices, disjoint, at least one each.

        Labels are of every training sample [n], or [n, t] of sequences, and so are the natural
        clients that own them [n], if the data set has such. A split that is impossible for reasons
        other than `shortage` and `wrong_fleet_size` is a `ScenarioError` with key and hint.
        """

    def shortage(self, *, num_samples: int, num_clients: int) -> Fault | None:
        """Return the key that needs too many samples, with a hint; None if none does.

        Only numbers are used, so that a scenario is checked before its data are read.
        """
        if num_clients > num_samples:
            message = (
                f"{num_clients} clients are more than the {num_samples} training samples; at most"
                f" {num_samples} clients can have one each; lower it, or choose a larger data set"
            )
            return ("fleet", "size"), message
        if self.needs_each is None:
            return None
        key, need = self.needs_each
        requested, each = getattr(self, key), num_samples // num_clients
        if requested <= each:
            return None
        message = (
            f"{num_clients} clients with {requested} {need} {num_clients * requested}, but there"
            f" are {num_samples}; lower {key} to {each} or less, or fleet.size"
        )
        return ("task", "partition", key), message

    def wrong_fleet_size(self, *, num_clients: int, num_labels: int | None) -> Fault | None:
        """Return the key that the fleet's size does not suit, with a hint; None if it does.

        The number of labels is None if only the files tell.
        """
        return None
