"""Order of clients by descending score, with ties broken at random.

Ties follow a seeded random permutation of the clients' ids. Lowest id first would leak the order in
which clients were numbered: in published experiments the well-behaved clients are often exactly the
first ones. It remains as an option, for comparison with implementations that break ties so.
"""

from typing import Literal

import numpy as np

from fleetsim.contracts import FloatArray, IntArray

TieRule = Literal["random", "lowest_id"]


def tie_keys(rule: TieRule, num_clients: int, generator: np.random.Generator) -> FloatArray:
    """Return keys of all clients [N]; among equal scores the smaller key goes first.

    >>> from fleetsim import rng
    >>> tie_keys("lowest_id", 3, rng.stream(0, "doc")).tolist()
    [0.0, 1.0, 2.0]
    """
    if rule == "lowest_id":
        return np.arange(num_clients, dtype=np.float64)
    # The order of independent uniforms is a uniform random permutation. An id keeps its key,
    # whichever other clients are available.
    return generator.random(num_clients)


def best(scores: FloatArray, num: int, keys: FloatArray) -> IntArray:
    """Return the positions of the `num` largest scores (all, if there are fewer), largest first.

    Takes O(n + num log num). NaN, a score that is not known, ranks below all numbers.

    Among equal scores the smaller key goes first.

    >>> best(np.array([1.0, 3.0, 3.0, 2.0]), 3, np.array([0.1, 0.9, 0.2, 0.3])).tolist()
    [2, 1, 3]
    """
    if num < 0:
        raise ValueError(f"num must not be negative, got {num}")
    if scores.shape != keys.shape:
        raise ValueError(f"{scores.shape} scores but {keys.shape} tie keys")
    scores = np.where(np.isnan(scores), -np.inf, scores)
    pool = np.arange(scores.size, dtype=np.int64)
    if 0 < num < scores.size:
        last = np.partition(scores, scores.size - num)[scores.size - num]
        above = np.flatnonzero(scores > last)
        level = np.flatnonzero(scores == last)
        num_level = num - above.size
        if num_level < level.size:
            level = level[np.argpartition(keys[level], num_level)[:num_level]]
        pool = np.concatenate([above, level])
    order = np.lexsort((keys[pool], -scores[pool]))
    return pool[order[:num]]


def available_in_order(clients: IntArray, candidates: IntArray, wanted: int) -> IntArray:
    """Return the first `wanted` of `clients` that are among the candidates, in their order.

    >>> available_in_order(np.array([7, 2, 5]), np.array([0, 2, 7]), 5).tolist()
    [7, 2]
    """
    return clients[np.isin(clients, candidates)][:wanted]
