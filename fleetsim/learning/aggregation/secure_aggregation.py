"""Costs and failures of secure aggregation: SecAgg and SecAgg+.

The server learns the sum of the cohort's updates and no single one. n clients are vertices of a
graph in which each has k neighbours: all others (SecAgg), or k of a random Harary graph (SecAgg+:
the clients in random order on a ring, each a neighbour of the k/2 before and after it). A client

    up    2 public keys                              2 a_K
    down  those of its neighbours                    2 k a_K
    up    2 encrypted shares for each neighbour      2 k a_S
    down  the shares that neighbours made for it     2 k a_S
    up    its masked vector of m entries             m B,   B = ceil(log2(n (2^b - 1) + 1)) bit
    up    one share for each neighbour and itself    (k + 1) a_S

so that it moves 2 (k + 1) a_K + (5 k + 1) a_S + m B in all. With k = n - 1 that is the
2 n a_K + (5 n - 4) a_S + m B of Bonawitz et al., section 7.1. Values of b bit need B bit each, so
that a sum of n does not overflow; a further entry sums up the weights of the mean.

The server removes the masks if, of the neighbours of each client of the cohort, at least
t = floor(f k) + 1 delivered (SecAgg: t = floor(f n) + 1 of all n). Else the round fails.

Sources: Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning",
CCS 2017; Bell, Bonawitz, Gascon, Lepoint, Raykova, "Secure single-server aggregation with
(poly)logarithmic overhead", CCS 2020 (semi-honest).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import BoolArray, IntArray
from fleetsim.counts import floor_product
from fleetsim.schema.ranges import PartFraction
from fleetsim.settings import Settings
from fleetsim.units import BIT_PER_BYTE

Length = Annotated[int, Field(ge=1, le=10_000)]


class SecAggSettings(Settings):
    """Masks between all pairs of a cohort (Bonawitz et al. 2017)."""

    kind: Literal["secagg"]
    threshold_fraction: PartFraction = 0.5
    """More than this share f of a client's neighbours must deliver, or the round fails."""
    value_bit: Annotated[int, Field(ge=1, le=32)] = 16
    """Bits b of a quantised weight of one client."""
    key_byte: Length = 32
    """Bytes a_K of a public key."""
    share_byte: Length = 32
    """Bytes a_S of an encrypted share of a secret."""

    def num_neighbours(self, cohort: int) -> int:
        """Return the number k of neighbours of each client of a cohort."""
        return cohort - 1


class SecAggPlusSettings(SecAggSettings):
    """Masks between neighbours in a random graph (Bell et al. 2020)."""

    kind: Literal["secagg-plus"]  # type: ignore[assignment]
    neighbours: Annotated[int, Field(ge=2, le=1_000_000, multiple_of=2, examples=[64])]
    """Number k of neighbours of each client, even; at most all others."""

    def num_neighbours(self, cohort: int) -> int:
        """Return the number k of neighbours of each client of a cohort."""
        return min(self.neighbours, cohort - 1)


SecureAggregationSettings = Annotated[
    SecAggSettings | SecAggPlusSettings, Field(discriminator="kind")
]


class SecureAggregation:
    """Bytes and failures of the protocol for one model."""

    download_round_trips = 2
    """Exchanges before the training: keys, and shares."""
    upload_round_trips = 1
    """Exchange after the upload of the vector: unmasking."""

    def __init__(self, settings: SecAggSettings, *, num_values: int, seed: int) -> None:
        self._settings = settings
        self._num_values = num_values
        self._seed = seed

    def value_bit(self, cohort: int) -> int:
        """Return the bits B of an entry of a masked vector.

        >>> model = SecureAggregation(SecAggSettings(kind="secagg"), num_values=9, seed=1)
        >>> model.value_bit(1), model.value_bit(2), model.value_bit(1024)
        (16, 17, 26)
        """
        return int(cohort * (2**self._settings.value_bit - 1)).bit_length()

    def download_byte(self, cohort: int) -> int:
        """Return the bytes that a client of a cohort receives beside the model."""
        k = self._settings.num_neighbours(cohort)
        return 2 * k * (self._settings.key_byte + self._settings.share_byte)

    def upload_byte(self, cohort: int) -> int:
        """Return all bytes that a client of a cohort sends, with its masked vector."""
        k = self._settings.num_neighbours(cohort)
        vector_bit = (self._num_values + 1) * self.value_bit(cohort)
        return (
            2 * self._settings.key_byte
            + (3 * k + 1) * self._settings.share_byte
            + -(-vector_bit // BIT_PER_BYTE)
        )

    def is_unmasked(self, clients: Sequence[int], delivered: Sequence[int], round_: int) -> bool:
        """Return whether the server can remove the masks of a round.

        The cohort `clients` is in the order of the selection; the round determines the graph.
        """
        size = len(clients)
        arrived = np.isin(np.asarray(clients), np.asarray(delivered, dtype=np.int64))
        k = self._settings.num_neighbours(size)
        fraction = self._settings.threshold_fraction
        if k == size - 1:
            return bool(arrived.sum() >= floor_product(fraction, size) + 1)
        order = rng.stream(self._seed, "secure aggregation", round_).permutation(size)
        alive = num_alive_neighbours(arrived[order], k)
        return bool((alive >= floor_product(fraction, k) + 1).all())


def num_alive_neighbours(is_alive: BoolArray, k: int) -> IntArray:
    """Return for each client on a ring [n] how many of its k neighbours are alive [n].

    >>> num_alive_neighbours(np.array([True, True, False, False, True]), 2).tolist()
    [2, 1, 1, 1, 1]
    """
    alive = is_alive.astype(np.int64)
    steps = range(1, k // 2 + 1)
    result: IntArray = sum(
        (np.roll(alive, step) + np.roll(alive, -step) for step in steps), np.zeros_like(alive)
    )
    return result
