"""Training samples that are kept out of training: by the server, and by each client.

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
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import ScenarioError

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
