"""Which training samples are kept out of training: by the server, and by each client.

The server keeps floor(v n) of the n training samples of the set as its validation part, for a share
v (`evaluate.validation_fraction`), drawn from the address (seed, "validation") before the others
are dealt. Of a natural client it never keeps the last one.

Of n samples a client holds out max(1, floor(h n)), drawn without replacement from the address
(seed, "holdout", client), for a share h; with h = 0 it holds out none, and judges models on what it
trains with. Losses on held-out samples (a fifth) are what Yoruko-Tang/FedCor@d941083 gives to every
selector that chooses by losses, and local test data what the clients of Tong et al., "From learning
to analytics: improving model efficacy with goal-directed client selection", form opinions on.

What all held out can also be put together and dealt anew, as many to each as it gave
(`holdout_from: everybody`). Clients then train with what they trained with before, and judge models
on samples of all alike: Tong et al. say of their experiments that clients "use the test data set",
whose labels are alike for all, and elsewhere that each evaluates with "its local dataset".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import ScenarioError

HoldoutFrom = Literal["own", "everybody"]
"""Whose held-out samples a client judges models on."""


def keep_back(
    num_samples: int, fraction: float, *, owner: IntArray | None, seed: int
) -> tuple[IntArray, IntArray]:
    """Rows that the server keeps, and rows that are dealt to clients; both ascending.

    Args:
        num_samples: training samples n.
        fraction: share v of them that is kept.
        owner: natural client of each sample [n]; None: samples are dealt to clients that own none.
        seed: the scenario's seed.

    Raises:
        ScenarioError: so many cannot be kept without taking all samples of a natural client.
    """
    order = rng.stream(seed, "validation").permutation(num_samples)
    num_kept = floor_product(fraction, num_samples)
    may_keep = np.ones(num_samples, dtype=np.bool_)
    if owner is not None and num_kept:
        # The last of each client's samples in the order is left to it.
        num_owners = np.unique(owner).size
        _, first_from_end = np.unique(owner[order[::-1]], return_index=True)
        may_keep[num_samples - 1 - first_from_end] = False
        if num_kept > num_samples - num_owners:
            most = math.floor(1000 * (num_samples - num_owners) / num_samples) / 1000
            way_out = f"lower it to {most:g}" if most else "leave it out"
            raise ScenarioError(
                f"evaluate.validation_fraction = {fraction:g}: {num_kept} of {num_samples} training"
                f" samples would leave none to some of the {num_owners} natural clients; {way_out}"
            )
    kept = order[may_keep][:num_kept]
    is_kept = np.zeros(num_samples, dtype=np.bool_)
    is_kept[kept] = True
    return np.flatnonzero(is_kept), np.flatnonzero(~is_kept)


def num_held(num_samples: IntArray, fraction: float) -> IntArray:
    """How many samples clients with so many [N] hold out [N]; none if the fraction is 0.

    Raises:
        ScenarioError: a client has too few samples to train with any.

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
    """Rows that each client trains with, and rows that it judges models on; both ascending.

    Raises:
        ScenarioError: as of `num_held`.
    """
    sizes = num_held(np.array([share.size for share in shares], dtype=np.int64), fraction)
    trained, judged = [], []
    for client, (share, size) in enumerate(zip(shares, sizes.tolist(), strict=True)):
        order = rng.stream(seed, "holdout", client).permutation(share.size)
        judged.append(np.sort(share[order[:size]]))
        trained.append(np.sort(share[order[size:]]))
    return tuple(trained), tuple(judged)


def dealt_anew(judged: Sequence[IntArray], *, seed: int) -> tuple[IntArray, ...]:
    """What all hold out, at random to everybody: to each as many rows as it gave, ascending."""
    together = np.concatenate(judged)
    order = rng.stream(seed, "holdout/dealt").permutation(together.size)
    ends = np.cumsum([rows.size for rows in judged])
    return tuple(np.sort(rows) for rows in np.split(together[order], ends[:-1]))
