"""Fading of a link: its power gain from one block of time to the next.

Block b covers [b * block_s, (b + 1) * block_s) of virtual time: the channel's coherence time. In
each block, every client and direction has a power gain g with mean 1 (Simon and Alouini, Digital
Communication over Fading Channels, 2000). A block has four random words, addressed by (seed,
client, b): words 0 and 2 give the downlink gain, 1 and 3 the uplink gain. So gains can be drawn in
any order. docs/models/channel.md (Block fading) has the laws.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction

_SECOND_WORD = 2
"""Distance from a direction's first word to its second."""

Words = NDArray[np.uint64]


Law = Callable[[Words, Direction], FloatArray]
"""Distribution of the power gain, with mean 1: gains [...] of a direction from the words of blocks
[..., 4]."""


def no_fading(words: Words, direction: Direction) -> FloatArray:
    """Gain 1, always."""
    return np.ones(words.shape[:-1])


def rayleigh(words: Words, direction: Direction) -> FloatArray:
    """Scattered waves only: Exp(1), by its inverse distribution function."""
    uniform = rng.words_to_uniform(words[..., ROW[direction]])
    return np.asarray(-np.log1p(-uniform))


def rician(words: Words, direction: Direction, k: float) -> FloatArray:
    """Line of sight of `k` >= 0 times the power of scattered waves.

    The scattered part is complex normal: one word gives its power, Exp(1), the other its angle to
    the line of sight, uniform. With k = 0 the gains are those of `rayleigh`, bit for bit.
    """
    scattered = rayleigh(words, direction)
    turn = rng.words_to_uniform(words[..., ROW[direction] + _SECOND_WORD])
    in_phase = np.sqrt(k * scattered) * np.cos(2.0 * math.pi * turn)
    # Where both parts cancel, rounding may give less than 0.
    return np.asarray(np.maximum(k + scattered + 2.0 * in_phase, 0.0) / (k + 1.0))


def nakagami(words: Words, direction: Direction, m: float) -> FloatArray:
    """Nakagami amplitude of shape `m` >= 0.5: the power is gamma distributed.

    m = 0.5 fades the most (one-sided normal amplitude); a large m hardly fades.
    """
    # The import takes 0.2 s, and the other laws do not need it.
    from scipy.special import gammaincinv  # noqa: PLC0415

    uniform = rng.words_to_uniform(words[..., ROW[direction]])
    return np.asarray(gammaincinv(m, uniform) / m)


@dataclass(frozen=True, slots=True)
class BlockFading:
    """Gains of any client in any block: a pure function of the seed, the client and the block."""

    seed: int
    block_s: float
    law: Law

    def blocks_at(self, t_s: FloatArray) -> IntArray:
        """Return the blocks that contain moments, shape kept."""
        block = (t_s / self.block_s).astype(np.int64)
        # Rounding of the quotient may be off by one block: the edges b * block_s decide.
        while (is_after := block * self.block_s > t_s).any():
            block -= is_after
        while (is_before := (block + 1) * self.block_s <= t_s).any():
            block += is_before
        return block

    def gains(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Return power gains of consecutive blocks of each client [n, num]."""
        words = rng.words_of_many(self.seed, "fading", clients.tolist(), first_block.tolist(), num)
        return self.law(words, direction)
