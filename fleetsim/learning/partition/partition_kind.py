"""Interface of the partitions that a scenario can name: settings, checks in advance, splitting.

A new partition is a subclass of `PartitionKind`, and its name in
`fleetsim.learning.partition.split.PartitionSettings`.
"""

from abc import abstractmethod
from typing import ClassVar

from fleetsim.contracts import IntArray
from fleetsim.schema.faults import Fault
from fleetsim.settings import Settings


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
