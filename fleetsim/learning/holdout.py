"""Which of its own samples a client keeps to judge models on, and does not train with.

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

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import ScenarioError

HoldoutFrom = Literal["own", "everybody"]
"""Whose held-out samples a client judges models on."""


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
