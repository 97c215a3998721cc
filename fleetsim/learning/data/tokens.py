"""Tokens of texts: vocabulary, samples cut out of a long text, and their memory."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError

_MAX_BYTE = 4_000_000_000
_TOKEN_BYTE = 8


def most_frequent(words: Iterable[str], size: int) -> list[str]:
    """Return the most frequent words, first to last; equally frequent words by alphabet.

    >>> most_frequent("to be or not to be that is".split(), 3)
    ['be', 'to', 'is']
    """
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word))[:size]


def windows(tokens: IntArray, *, length: int, stride: int) -> IntArray:
    """Return windows [m, length] that begin at every `stride`-th token; the rest is left out.

    >>> windows(np.arange(6), length=3, stride=2).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    if len(tokens) < length:
        return np.empty((0, length), dtype=np.int64)
    return sliding_window_view(tokens, length)[::stride]


def spread(num: int, requested: int | None) -> IntArray:
    """Return the rows of `requested` of `num` samples, evenly spread; all if None or fewer exist.

    >>> spread(10, 4).tolist()
    [0, 2, 5, 7]
    """
    if requested is None or requested >= num:
        return np.arange(num, dtype=np.int64)
    return np.arange(requested, dtype=np.int64) * num // requested


def check_memory(key: str, num_windows: int, tokens_per_window: int) -> None:
    """Refuse windows of more than 4 GB."""
    num_byte = num_windows * tokens_per_window * _TOKEN_BYTE
    if num_byte > _MAX_BYTE:
        raise ScenarioError(
            f"{key}: {num_windows} samples of {tokens_per_window} tokens take {num_byte / 1e9:.1f}"
            f" GB, more than {_MAX_BYTE / 1e9:.0f} GB; raise it"
        )
