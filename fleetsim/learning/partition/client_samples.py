"""Samples of the server and of each client: for validation, training and evaluation.

`fleetsim run` and `fleetsim validate` both split a data set here, so that they refuse the same
scenarios with the same messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetsim.contracts import IntArray
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.partition.holdout import (
    HoldoutFrom,
    hold_out,
    shuffle_holdouts,
    split_validation,
)
from fleetsim.learning.partition.split import PartitionSettings, split


@dataclass(frozen=True, slots=True, eq=False)
class ClientSamples:
    """Rows of a data set's training part by owner and use, each ascending."""

    validation: IntArray
    """Rows that the server validates on; empty if it keeps none."""
    training: tuple[IntArray, ...]
    """Rows that each client trains with."""
    evaluation: tuple[IntArray, ...]
    """Rows that each client evaluates models on; those of `training` if none are held out."""


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
    """Return the samples of the server and of every client.

    Args:
        dataset: data set to split.
        partition: its split between the clients.
        num_clients: number of clients N.
        validation_fraction: share of the samples that the server keeps.
        holdout_fraction: share of its own samples that each client does not train with.
        holdout_from: source of the held-out samples that a client evaluates models on.
        seed: the scenario's seed.

    Raises:
        ScenarioError: the split is impossible; the message names the key and the way out.
    """
    owner = dataset.owner
    validation, assigned = split_validation(
        len(dataset.train_labels),
        validation_fraction,
        owner=owner if partition.uses_owners else None,
        seed=seed,
    )
    parts = split(
        partition,
        labels=dataset.train_labels[assigned],
        owner=None if owner is None else owner[assigned],
        num_clients=num_clients,
        seed=seed,
    )
    training = tuple(assigned[part] for part in parts)
    evaluation = training
    if holdout_fraction > 0.0:
        training, evaluation = hold_out(training, holdout_fraction, seed=seed)
        if holdout_from == "everybody":
            evaluation = shuffle_holdouts(evaluation, seed=seed)
    return ClientSamples(validation, training, evaluation)
