"""Addressed random streams: every draw has an address (seed, purpose, indices).

A stream's values depend on nothing but its address: not on how many other streams exist, the
order in which they are made, or who reads them. So two selectors meet the same fleet, channel
and people (common random numbers), a new consumer shifts nobody, and workers change nothing.

Two ways to draw:

* `stream(seed, purpose, *indices)`: a numpy Generator for a sequence of draws that belong
  together, such as one client's shuffles in one round.
* `block_words(seed, purpose, index, first_block, num_blocks)`: counter-based words with random
  access, for draws that are asked for by position, such as the fading gain of block 10**9.

Both rest on Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

WORDS_PER_BLOCK = 4


def _key(seed: int, purpose: str, indices: tuple[int, ...]) -> NDArray[np.uint64]:
    """128-bit Philox key of an address; SHA-256 keeps different addresses apart."""
    address = f"{seed}/{purpose}/{'/'.join(map(str, indices))}".encode()
    return np.frombuffer(hashlib.sha256(address).digest()[:16], dtype="<u8").astype(np.uint64)


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Generator of the address (seed, purpose, indices).

    >>> float(stream(1, "doc", 2).random()) == float(stream(1, "doc", 2).random())
    True
    >>> float(stream(1, "doc", 2).random()) == float(stream(2, "doc", 2).random())
    False
    """
    indices = tuple(int(index) for index in indices)
    return np.random.Generator(np.random.Philox(key=_key(seed, purpose, indices)))


def torch_seed(seed: int, purpose: str, *indices: int) -> int:
    """63-bit seed for a `torch.Generator` of this address."""
    return int(_key(seed, purpose, tuple(int(index) for index in indices))[0] >> np.uint64(1))


def block_words(
    seed: int, purpose: str, index: int, first_block: int, num_blocks: int
) -> NDArray[np.uint64]:
    """Random words of consecutive blocks, any block in any order: [num_blocks, 4] uint64.

    Block b of an address always holds the same four words, however it is reached.
    """
    bits = np.random.Philox(key=_key(seed, purpose, (int(index),)), counter=first_block)
    words = bits.random_raw(num_blocks * WORDS_PER_BLOCK)
    return np.asarray(words, dtype=np.uint64).reshape(num_blocks, WORDS_PER_BLOCK)


def words_to_uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniforms in [0, 1) with 53 random bits from 64-bit words, shape kept."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
