"""Addressed random streams: every draw has an address (seed, purpose, indices).

The values of a stream depend on its address alone: not on other streams, the order in which they
are made, or the process that reads them. So two selectors meet the same fleet, channel and people
(common random numbers), and new draws or more workers change no other draw.

Two ways to draw:

* `stream(seed, purpose, *indices)`: a numpy Generator for a sequence of draws that belong
  together, such as one client's shuffles in one round.
* `words_of_many(seed, purpose, indices, first_blocks, num_blocks)`: counter-based words with random
  access, for draws that are asked for by position, such as the fading gain of block 10**9.

`first_words` gives the words of many addresses at once, much faster than one generator for each.

Both rest on Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
"""

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

WORDS_PER_BLOCK = 4
_KEY = struct.Struct("<2Q")


Key = tuple[int, int]


def _key(seed: int, purpose: str, indices: tuple[int, ...]) -> Key:
    """Return the 128-bit Philox key of an address; SHA-256 separates addresses."""
    address = f"{seed}/{purpose}/{'/'.join(map(str, indices))}".encode()
    return _KEY.unpack_from(hashlib.sha256(address).digest())


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Return the generator of the address (seed, purpose, indices).

    >>> float(stream(1, "doc", 2).random()) == float(stream(1, "doc", 2).random())
    True
    >>> float(stream(1, "doc", 2).random()) == float(stream(2, "doc", 2).random())
    False
    """
    indices = tuple(int(index) for index in indices)
    return np.random.Generator(_philox(_key(seed, purpose, indices)))


def _philox(key: Key) -> np.random.Philox:
    known = _KnownKey(np.array(key, dtype=np.uint64))
    # numpy's types know SeedSequence alone; its generators take any ISeedSequence.
    return np.random.Philox(known)  # type: ignore[arg-type]


class _KnownKey(ISeedSequence):
    """Seed sequence that is a Philox key; Philox's own `key=` reads unused entropy first."""

    def __init__(self, key: NDArray[np.uint64]) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:
        """Return the key: Philox asks for two words of 64 bits."""
        return self._key


def torch_seed(seed: int, purpose: str, *indices: int) -> int:
    """Return the 63-bit seed for a `torch.Generator` of this address."""
    return _key(seed, purpose, tuple(int(index) for index in indices))[0] >> 1


def words_of_many(
    seed: int,
    purpose: str,
    indices: Sequence[int],
    first_blocks: Sequence[int],
    num_blocks: int,
) -> NDArray[np.uint64]:
    """Return random words of consecutive blocks of n addresses: uint64 [n, num_blocks, 4].

    Addresses differ in their index. Block b of an address always holds the same four words, however
    it is reached.
    """
    source = _Words()
    words = [
        source.of(_block_key(seed, purpose, index), first_block, num_blocks * WORDS_PER_BLOCK)
        for index, first_block in zip(indices, first_blocks, strict=True)
    ]
    return np.array(words, dtype=np.uint64).reshape(len(words), num_blocks, WORDS_PER_BLOCK)


def first_words(
    seed: int, purpose: str, addresses: Sequence[tuple[int, ...]], num_words: Sequence[int]
) -> list[NDArray[np.uint64]]:
    """Return the first `num_words` words of the streams of n addresses: uint64 [num] each.

    >>> (words,) = first_words(1, "doc", [(2, 3)], [5])
    >>> (words == stream(1, "doc", 2, 3).bit_generator.random_raw(5)).all()
    np.True_
    """
    source = _Words()
    return [
        source.of(_key(seed, purpose, indices), 0, num)
        for indices, num in zip(addresses, num_words, strict=True)
    ]


class _Words:
    """Random words of several addresses in sequence.

    Giving one generator another key is much faster than making another generator.
    """

    def __init__(self) -> None:
        self._bits = _philox((0, 0))
        # Read number by number when it is set: lists are read faster than arrays.
        self._place: dict[str, Any] = {"counter": [0] * WORDS_PER_BLOCK, "key": (0, 0)}
        self._state: Any = dict(self._bits.state) | {
            "state": self._place,
            "buffer": [0] * WORDS_PER_BLOCK,
        }

    def of(self, key: Key, first_block: int, num: int) -> NDArray[np.uint64]:
        """Return `num` words under a key, from the beginning of a block on."""
        self._place["counter"][0] = first_block
        self._place["key"] = key
        self._bits.state = self._state
        words: NDArray[np.uint64] = self._bits.random_raw(num)
        return words


@lru_cache(maxsize=1 << 14)
def _block_key(seed: int, purpose: str, index: int) -> Key:
    """Return `_key` of one index, cached: the same clients are asked for again and again."""
    return _key(seed, purpose, (index,))


def words_to_uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return uniforms in [0, 1) with 53 random bits from 64-bit words, shape kept."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
