"""Uploads that a scenario forces to be lost.

Client n's uploads succeed with probability theta_n, independently of each other and of the link;
docs/models/channel.md (Forced success) has the source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.schema.ranges import PositiveFraction
from fleetsim.settings import Settings


class SuccessSettings(Settings):
    """Probability that uploads succeed, for a share of the clients."""

    probability: Annotated[float, Ge(0.0), Le(1.0)]
    """Probability of each upload (theta)."""
    share: PositiveFraction = 1.0
    """Probability that a client is one of these; the shares of a list sum to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Uploads that arrive: addressed draws, built by `build_arrivals`."""

    seed: int
    probability: FloatArray
    """Probability of each upload of every client [N]."""

    def of(self, clients: IntArray, addresses: Sequence[tuple[int, ...]]) -> BoolArray:
        """Draw whether the uploads of tasks of these clients [n] and addresses arrive [n]."""
        indices = [
            (client, *address) for client, address in zip(clients.tolist(), addresses, strict=True)
        ]
        words = rng.first_words(self.seed, "upload-success", indices, [1] * len(indices))
        arrive: BoolArray = rng.words_to_uniform(np.concatenate(words)) < self.probability[clients]
        return arrive


def build_arrivals(
    successes: Sequence[SuccessSettings], *, seed: int, size: int
) -> Arrivals | None:
    """Assign the probabilities to N clients; None where every upload succeeds."""
    if all(success.probability == 1.0 for success in successes):
        return None
    edges = np.cumsum([success.share for success in successes])
    draw = rng.stream(seed, "upload-success-share").random(size)
    # The last edge is 1 but for rounding.
    which = np.minimum(np.searchsorted(edges, draw, side="right"), edges.size - 1)
    probability = np.array([success.probability for success in successes])[which]
    probability.flags.writeable = False
    return Arrivals(seed, probability)
