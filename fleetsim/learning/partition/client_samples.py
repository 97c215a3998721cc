"""Samples of the server and of each client: for validation, training and evaluation.

`fleetsim run` and `fleetsim validate` both split a data set here, so that they refuse the same
scenarios with the same messages.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.partition.holdout import (
    HoldoutFrom,
    hold_out,
    shuffle_holdouts,
    split_validation,
)
from fleetsim.learning.partition.split import PartitionSettings, split
from fleetsim.quoting import quoted


@dataclass(frozen=True, slots=True, eq=False)
class ClientSamples:
    """Rows of a data set's training part by owner and use, each ascending."""

    validation: IntArray
    """Rows that the server validates on; empty if it keeps none."""
    training: tuple[IntArray, ...]
    """Rows that each client trains with."""
    evaluation: tuple[IntArray, ...]
    """Rows that each client evaluates models on; those of `training` if none are held out."""
    owners: tuple[str, ...] | None = None
    """Name of the natural client that each client is; None: a partition without them."""


def split_samples(
    dataset: Dataset,
    partition: PartitionSettings,
    *,
    num_clients: int,
    validation_fraction: float,
    holdout_fraction: float,
    holdout_from: HoldoutFrom,
    seed: int,
    paired: Collection[str] | None = None,
) -> ClientSamples:
    """Return the samples of the server and of every client.

    The server keeps a share `validation_fraction` of all samples, and each client does not train
    with a share `holdout_fraction` of its own. `paired` names the natural clients that have a usage
    record, of which alone clients are made; None: of all.
    """
    owner = dataset.owner
    validation, assigned = split_validation(
        len(dataset.train_labels),
        validation_fraction,
        owner=owner if partition.uses_owners else None,
        seed=seed,
    )
    if paired is not None:
        assigned = assigned[_with_record(dataset, paired, num_clients=num_clients)[assigned]]
    parts = split(
        partition,
        labels=dataset.train_labels[assigned],
        owner=None if owner is None else owner[assigned],
        num_clients=num_clients,
        seed=seed,
    )
    training = tuple(assigned[part] for part in parts)
    owners = None
    if partition.uses_owners and owner is not None:
        names = _names(dataset)
        owners = tuple(names[int(owner[rows[0]])] for rows in training)
    evaluation = training
    if holdout_fraction > 0.0:
        training, evaluation = hold_out(training, holdout_fraction, seed=seed)
        if holdout_from == "everybody":
            evaluation = shuffle_holdouts(evaluation, seed=seed)
    return ClientSamples(validation, training, evaluation, owners)


def _names(dataset: Dataset) -> list[str]:
    """Return the name of every natural client, by its number."""
    assert dataset.owner is not None
    if dataset.owner_names is not None:
        return list(dataset.owner_names)
    return [str(number) for number in range(int(dataset.owner.max(initial=-1)) + 1)]


def _with_record(dataset: Dataset, paired: Collection[str], *, num_clients: int) -> BoolArray:
    """Return True for samples whose natural client has a usage record [n]."""
    if dataset.owner is None:
        raise ScenarioError(
            f"fleet.usage.pair = 'owner': the data set {dataset.name} has no people of its own;"
            " name one that has, such as extrasensory-har, or leave pair out"
        )
    names = _names(dataset)
    has = np.array([name in paired for name in names], dtype=np.bool_)
    num_people = np.unique(dataset.owner[has[dataset.owner]]).size
    if num_people == 0:
        raise ScenarioError(
            f"fleet.usage.pair = 'owner': none of the {len(names)} people of {dataset.name}, such"
            f" as {quoted(names[0])}, is a user of the trace, such as {quoted(min(paired))}; name"
            " the trace of the same people, or leave pair out"
        )
    if num_people < num_clients:
        raise ScenarioError(
            f"fleet.size: {num_clients} clients, but {num_people} people of {dataset.name} have"
            f" both data and a usage record (fleet.usage.pair); set fleet.size to {num_people} or"
            " less, or leave pair out"
        )
    return np.asarray(has[dataset.owner])
