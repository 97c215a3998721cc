"""Partitions that a scenario can name, and samples of the server and of each client by their use.

Uses are validation, training and evaluation. A client always has at least one sample. Clients never
share one.

`fleetsim run` and `fleetsim validate` both split a data set here, so that they refuse the same
scenarios with the same messages.

The server keeps floor(v n) of the n training samples of the set as its validation part, for a share
v (`evaluate.validation_fraction`). They are drawn from the address (seed, "validation") before the
others are assigned to clients. The server never keeps the last sample of a natural client.

A client's own share h is drawn without replacement from the address (seed, "holdout", client); what
it evaluates on, also with `holdout_from: everybody`, is described in docs/models/learning.md. The
sources: Yoruko-Tang/FedCor@d941083 gives every selector that uses losses the losses on held-out
samples (a fifth). In Tong et al., "From learning to analytics: improving model efficacy with
goal-directed client selection", clients form opinions on local test data; of the experiments they
say that clients "use the test data set", whose labels are alike for all, and elsewhere that each
evaluates with "its local dataset".
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import BoolArray, IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.partition.dirichlet import ClientDirichletSettings, DirichletSettings
from fleetsim.learning.partition.flwr_datasets import FlwrDatasetsSettings
from fleetsim.learning.partition.plain import (
    IidSettings,
    NaturalSettings,
    OneClassSettings,
    PartlyIidSettings,
    ShardsSettings,
)
from fleetsim.quoting import quoted
from fleetsim.schema.strict_yaml import spelled

PartitionSettings = Annotated[
    IidSettings
    | DirichletSettings
    | ShardsSettings
    | NaturalSettings
    | ClientDirichletSettings
    | OneClassSettings
    | PartlyIidSettings
    | FlwrDatasetsSettings,
    Field(discriminator="kind"),
]


def split(
    settings: PartitionSettings,
    *,
    labels: IntArray,
    owner: IntArray | None,
    num_clients: int,
    seed: int,
) -> tuple[IntArray, ...]:
    """Return the training samples of every client, as `PartitionKind.split`, with its errors."""
    fault = settings.shortage(num_samples=len(labels), num_clients=num_clients)
    if labels.ndim == 1 and fault is None:
        num_labels = len(np.unique(labels))
        fault = settings.wrong_fleet_size(num_clients=num_clients, num_labels=num_labels)
    if fault is not None:
        raise ScenarioError(f"{spelled(fault[0])}: {fault[1]}")
    if labels.ndim > 1 and not settings.splits_sequences:
        raise ScenarioError(
            f"task.partition.kind: {settings.kind} splits by label, but every sample of this data "
            f"set is a sequence with {labels.shape[1]} of them; choose iid or natural"
        )
    return settings.split(labels=labels, owner=owner, num_clients=num_clients, seed=seed)


HoldoutFrom = Literal["own", "everybody"]
"""Source of the held-out samples that a client evaluates models on."""


def split_validation(
    num_samples: int, fraction: float, *, owner: IntArray | None, seed: int
) -> tuple[IntArray, IntArray]:
    """Return the rows that the server keeps and those of the clients; both ascending.

    A share v = `fraction` is kept. `owner` is the natural client of each sample [n]; None: samples
    belong to no client yet.
    """
    order = rng.stream(seed, "validation").permutation(num_samples)
    num_kept = floor_product(fraction, num_samples)
    may_keep = np.ones(num_samples, dtype=np.bool_)
    if owner is not None and num_kept:
        # Each client keeps the last of its samples in the order.
        num_owners = np.unique(owner).size
        _, first_from_end = np.unique(owner[order[::-1]], return_index=True)
        may_keep[num_samples - 1 - first_from_end] = False
        if num_kept > num_samples - num_owners:
            most = math.floor(1000 * (num_samples - num_owners) / num_samples) / 1000
            hint = f"lower it to {most:g}" if most else "leave it out"
            raise ScenarioError(
                f"evaluate.validation_fraction = {fraction:g}: {num_kept} of {num_samples} training"
                f" samples would leave none to some of the {num_owners} natural clients; {hint}"
            )
    kept = order[may_keep][:num_kept]
    is_kept = np.zeros(num_samples, dtype=np.bool_)
    is_kept[kept] = True
    return np.flatnonzero(is_kept), np.flatnonzero(~is_kept)


def num_held(num_samples: IntArray, fraction: float) -> IntArray:
    """Return how many of its samples [N] each client holds out [N], a share h; 0 if that is 0.

    >>> num_held(np.array([2, 9, 10]), 0.2).tolist()
    [1, 1, 2]
    """
    if fraction == 0.0:
        return np.zeros_like(num_samples)
    sizes, size_of = np.unique(num_samples, return_inverse=True)
    floors = [floor_product(fraction, size) for size in sizes.tolist()]
    held: IntArray = np.maximum(1, np.array(floors, dtype=np.int64)[size_of])
    if (held >= num_samples).any():
        client = int(np.argmax(held >= num_samples))
        raise ScenarioError(
            f"task.holdout_fraction = {fraction:g}: client {client} has {num_samples[client]}"
            " sample(s), too few to train with some and hold out others; give clients more"
            " (task.partition, fleet.size) or leave it out"
        )
    return held


def hold_out(
    shares: Sequence[IntArray], fraction: float, *, seed: int
) -> tuple[tuple[IntArray, ...], tuple[IntArray, ...]]:
    """Return the rows that each client trains with and evaluates models on; both ascending."""
    sizes = num_held(np.array([share.size for share in shares], dtype=np.int64), fraction)
    training, evaluation = [], []
    for client, (share, size) in enumerate(zip(shares, sizes.tolist(), strict=True)):
        order = rng.stream(seed, "holdout", client).permutation(share.size)
        evaluation.append(np.sort(share[order[:size]]))
        training.append(np.sort(share[order[size:]]))
    return tuple(training), tuple(evaluation)


def shuffle_holdouts(held_out: Sequence[IntArray], *, seed: int) -> tuple[IntArray, ...]:
    """Return the held-out rows of all clients at random: as many to each as it gave, ascending."""
    together = np.concatenate(held_out)
    order = rng.stream(seed, "holdout/dealt").permutation(together.size)
    ends = np.cumsum([rows.size for rows in held_out])
    return tuple(np.sort(rows) for rows in np.split(together[order], ends[:-1]))


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
