"""How a link's power gain varies from one block of time to the next.

Block b covers [b * block_s, (b + 1) * block_s) of virtual time: the channel's coherence time. In
each, client and direction have a power gain g of their own, with mean 1, under one of four laws:

    none           g = 1
    rayleigh       g ~ Exp(1)                              no line of sight
    rician(K)      g = |sqrt(K) + h|^2 / (K + 1)           K: power of the line of sight over the
                   with h ~ CN(0, 1)                       scattered power; K = 0 is rayleigh
    nakagami(m)    g ~ Gamma(shape m, scale 1 / m)         m = 1 is rayleigh

(Simon and Alouini, Digital Communication over Fading Channels, 2000.) A block has four random
words, addressed by (seed, client, b): words 0 and 2 make the gain downwards, 1 and 3 the one
upwards. So gains can be asked for in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction

_SPARE_BLOCKS = 4
"""Blocks that are drawn beyond those that were asked for."""
_SECOND_WORD = 2
"""A direction's second word stands so many words behind its first."""

Words = NDArray[np.uint64]


class Law(Protocol):
    """Law of the power gain, with mean 1."""

    def gains(self, words: Words, direction: Direction) -> FloatArray:
        """Gains [...] of a direction from the words of blocks [..., 4]."""


@dataclass(frozen=True, slots=True)
class NoFading:
    """Gain 1, always."""

    def gains(self, words: Words, direction: Direction) -> FloatArray:
        """Ones [...]."""
        return np.ones(words.shape[:-1])


@dataclass(frozen=True, slots=True)
class Rayleigh:
    """Scattered waves alone: Exp(1), by its inverse distribution function."""

    def gains(self, words: Words, direction: Direction) -> FloatArray:
        """Gains [...] from the words of blocks [..., 4]."""
        uniform = rng.words_to_uniform(words[..., ROW[direction]])
        return np.asarray(-np.log1p(-uniform))


@dataclass(frozen=True, slots=True)
class Rician:
    """A line of sight and scattered waves.

    The scattered part is complex normal: its power is Exp(1) by one word, its angle to the line of
    sight uniform by the other. With K = 0 the gains are those of `Rayleigh`, bit for bit.
    """

    k: float
    """Power of the line of sight over that of the scattered waves, >= 0."""

    def gains(self, words: Words, direction: Direction) -> FloatArray:
        """Gains [...] from the words of blocks [..., 4]."""
        scattered = Rayleigh().gains(words, direction)
        turn = rng.words_to_uniform(words[..., ROW[direction] + _SECOND_WORD])
        in_phase = np.sqrt(self.k * scattered) * np.cos(2.0 * math.pi * turn)
        # Exact arithmetic never gives less than 0, rounding may where both parts cancel.
        return np.asarray(np.maximum(self.k + scattered + 2.0 * in_phase, 0.0) / (self.k + 1.0))


@dataclass(frozen=True, slots=True)
class Nakagami:
    """Nakagami-m amplitude: the power is gamma distributed, by its inverse distribution function.

    m = 0.5 fades the most (one-sided normal amplitude); a large m hardly fades.
    """

    m: float
    """Shape, >= 0.5."""

    def gains(self, words: Words, direction: Direction) -> FloatArray:
        """Gains [...] from the words of blocks [..., 4]."""
        # Its import takes 0.2 s, which the other laws need not wait for.
        from scipy.special import gammaincinv  # noqa: PLC0415

        uniform = rng.words_to_uniform(words[..., ROW[direction]])
        return np.asarray(gammaincinv(self.m, uniform) / self.m)


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """Random words of blocks of some clients, of both directions."""

    clients: IntArray
    first_block: IntArray
    """Of each client [n]."""
    words: Words
    """[n, blocks, 4]"""

    def of(self, clients: IntArray, first_block: IntArray, num: int) -> Words | None:
        """Words [n, num, 4] of these blocks, if all are among them."""
        if not np.array_equal(clients, self.clients):
            return None
        skipped = first_block - self.first_block
        if (skipped < 0).any() or (skipped + num > self.words.shape[1]).any():
            return None
        blocks = skipped[:, np.newaxis] + np.arange(num)
        words: Words = self.words[np.arange(clients.size)[:, np.newaxis], blocks]
        return words


@dataclass(frozen=True, slots=True)
class BlockFading:
    """Gains of any client in any block; a pure function of its arguments."""

    seed: int
    block_s: float
    law: Law
    _latest: list[_Drawn] = field(default_factory=list, compare=False, repr=False)
    """The words last drawn: an upload soon after its download is in the same blocks."""

    def blocks_at(self, t_s: FloatArray) -> IntArray:
        """The blocks that cover moments, shape kept."""
        block = (t_s / self.block_s).astype(np.int64)
        # The quotient is rounded, so it may miss by one: the edges b * block_s decide.
        while (is_after := block * self.block_s > t_s).any():
            block -= is_after
        while (is_before := (block + 1) * self.block_s <= t_s).any():
            block += is_before
        return block

    def gains(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Power gains of consecutive blocks of each client [n, num]."""
        words = self._latest[0].of(clients, first_block, num) if self._latest else None
        if words is None:
            ahead = num + _SPARE_BLOCKS
            words = rng.words_of_many(
                self.seed, "fading", clients.tolist(), first_block.tolist(), ahead
            )
            self._latest[:] = [_Drawn(clients.copy(), first_block.copy(), words)]
            words = words[:, :num]
        return self.law.gains(words, direction)
