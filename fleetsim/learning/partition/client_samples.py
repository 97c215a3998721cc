"""Which samples of a data set the server keeps, and which each client trains with and judges on.

`fleetsim run` and `fleetsim validate` both split a data set here, so that they refuse the same
scenarios with the same words.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetsim.contracts import IntArray
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.partition.holdout import HoldoutFrom, dealt_anew, hold_out, keep_back
from fleetsim.learning.partition.split import NaturalSettings, PartitionSettings, split


@dataclass(frozen=True, slots=True, eq=False)
class ClientSamples:
    """Rows of a data set's training part by who has them, each ascending."""

    kept: IntArray
    """Rows that the server validates on; empty if it keeps none."""
    trained: tuple[IntArray, ...]
    """Rows that each client trains with."""
    judged: tuple[IntArray, ...]
    """Rows that each client judges models on; those that it trains with if none are held out."""


def split_samples(
    dataset: Dataset,
    partition: PartitionSettings,
    *,
    num_clients: int,
    validation_fraction: float,
    holdout_fraction: float,
    holdout_from: HoldoutFrom,
    seed: int,
) -> ClientSamples:
    """Samples of the server and of every client.

    Args:
        dataset: what is split.
        partition: how it is split between the clients.
        num_clients: number of clients N.
        validation_fraction: share of the samples that the server keeps.
        holdout_fraction: share of its own samples that each client does not train with.
        holdout_from: whose held-out samples a client judges models on.
        seed: the scenario's seed.

    Raises:
        ScenarioError: the split is impossible; the message names the key and the way out.
    """
    owner = dataset.owner
    kept, dealt = keep_back(
        len(dataset.train_labels),
        validation_fraction,
        owner=owner if isinstance(partition, NaturalSettings) else None,
        seed=seed,
    )
    parts = split(
        partition,
        labels=dataset.train_labels[dealt],
        owner=None if owner is None else owner[dealt],
        num_clients=num_clients,
        seed=seed,
    )
    trained = tuple(dealt[part] for part in parts)
    judged = trained
    if holdout_fraction > 0.0:
        trained, judged = hold_out(trained, holdout_fraction, seed=seed)
        if holdout_from == "everybody":
            judged = dealt_anew(judged, seed=seed)
    return ClientSamples(kept, trained, judged)
