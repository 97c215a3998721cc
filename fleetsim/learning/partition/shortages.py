"""What a scenario asks of its data set, and what the data set cannot give.

Only numbers are compared, so that a scenario is refused before its samples are read. What depends
on the samples' labels is found when they are split (`fleetsim.learning.partition.client_samples`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fleetsim.counts import floor_product
from fleetsim.learning.data import known_sizes
from fleetsim.learning.data.loading import DatasetSettings, MnistSettings
from fleetsim.learning.partition.one_class import OneClassSettings, too_few_clients
from fleetsim.learning.partition.partly_iid import PartlyIidSettings, too_many_iid
from fleetsim.learning.partition.split import NaturalSettings, PartitionSettings, shortage
from fleetsim.schema.faults import Fault


def shortages(
    dataset: DatasetSettings,
    partition: PartitionSettings,
    *,
    num_clients: int,
    validation_fraction: float,
    holdout_fraction: float,
    own_folder: Path | None,
) -> Iterator[Fault]:
    """Keys that ask for more samples or natural clients than the data set has.

    Args:
        dataset: what is split.
        partition: how it is split between the clients.
        num_clients: number of clients.
        validation_fraction: share of the samples that the server keeps.
        holdout_fraction: share of its own samples that each client does not train with.
        own_folder: where a data set of the user's own lies; None: its files are not looked at.

    Raises:
        DataError: a file of the folder is damaged, or larger than is read.
    """
    # The server may keep all samples of a label; then the split tells.
    num_labels = known_sizes.num_labels(dataset) if validation_fraction == 0.0 else None
    by_kind = _of_kind(partition, num_clients=num_clients, num_labels=num_labels)
    if by_kind is not None:
        yield by_kind
    num_samples = known_sizes.num_training(dataset, own_folder)
    if num_samples is not None:
        num_samples -= floor_product(validation_fraction, num_samples)
        short = shortage(partition, num_samples=num_samples, num_clients=num_clients)
        if short is not None:
            yield short
            return
        if holdout_fraction > 0.0 and 2 * num_clients > num_samples:
            says = (
                f"{num_clients} clients need 2 samples each to hold one out, but there are"
                f" {num_samples}; lower fleet.size, or leave it out"
            )
            yield ("task", "holdout_fraction"), says
    if isinstance(partition, NaturalSettings):
        num_owners = known_sizes.num_natural(dataset, own_folder)
        if num_owners == 0:
            says = f"{dataset.kind} has no clients of its own; choose iid, dirichlet or shards"
            if isinstance(dataset, MnistSettings):
                says = "needs task.dataset.writers: true; set that, or choose another partition"
            elif own_folder is not None:
                says = (
                    f"{own_folder} names no clients of its own; add an array 'client' to its"
                    " training part, or choose iid, dirichlet or shards"
                )
            yield ("task", "partition", "kind"), says
        elif num_owners is not None and num_clients > num_owners:
            says = f"the data set has {num_owners} clients of its own; set it to that or less"
            yield ("fleet", "size"), says


def _of_kind(
    partition: PartitionSettings, *, num_clients: int, num_labels: int | None
) -> Fault | None:
    """What a kind of partition asks of the number of clients."""
    match partition:
        case PartlyIidSettings():
            return too_many_iid(partition, num_clients=num_clients)
        case OneClassSettings() if num_labels is not None:
            return too_few_clients(num_labels=num_labels, num_clients=num_clients)
        case _:
            return None
