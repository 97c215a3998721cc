"""What Oort computes: shares, utilities, penalties, the pool, the pacer's question.

Pure functions of arrays over the clients considered [n]. How they fit together, and the sources,
stand in `fleetsim.selectors.oort`.
"""

from __future__ import annotations

import math

import numpy as np

from fleetsim.contracts import FloatArray, IntArray

_ROUNDING_SLACK = 1e-9


def exploration_fraction(round_: int, start: float, decay: float, floor: float) -> float:
    """Share of explorers (epsilon) in round 1, 2, ...

    >>> exploration_fraction(2, 0.9, 0.5, 0.2), exploration_fraction(9, 0.9, 0.5, 0.2)
    (0.45, 0.2)
    """
    return max(start * decay ** (round_ - 1), floor)


def num_exploited(wanted: int, exploration: float, num_explored: int, num_unexplored: int) -> int:
    """How many explored clients are chosen; the rest of `wanted` are explorers.

    >>> num_exploited(10, 0.9, 50, 50), num_exploited(10, 0.9, 50, 2), num_exploited(10, 0.2, 3, 9)
    (1, 8, 3)
    """
    # 1 - 0.9 is 0.0999... in binary, and must yield 1 of 10.
    quota = math.floor((1.0 - exploration) * wanted + _ROUNDING_SLACK)
    return min(max(quota, wanted - num_unexplored), num_explored)


def statistical_utility(num_samples: FloatArray, loss_rms: FloatArray) -> FloatArray:
    """U = |B| sqrt(mean of squared losses) of each client [n]."""
    return num_samples * loss_rms


def clipped(utilities: FloatArray, fraction: float) -> FloatArray:
    """Utilities [n], none above that of 0-based rank min(floor(n * fraction), n - 1).

    >>> clipped(np.array([9.0, 1.0, 2.0, 3.0]), 0.5).tolist()
    [3.0, 1.0, 2.0, 3.0]
    """
    if utilities.size == 0:
        return utilities
    rank = min(int(utilities.size * fraction), utilities.size - 1)
    ceiling = float(np.partition(utilities, rank)[rank])
    return np.minimum(utilities, ceiling)


def temporal_bonus(round_: int, last_round: IntArray) -> FloatArray:
    """sqrt(0.1 ln R / L) of clients last asked in rounds L >= 1 [n]."""
    return np.sqrt(0.1 * math.log(round_) / last_round)


def system_penalty(duration_s: FloatArray, preferred_s: float, alpha: float) -> FloatArray:
    """(T / t)^alpha of clients slower than T, else 1; 1 too where t or T is not known (NaN) [n]."""
    is_slow = duration_s > preferred_s
    penalty = np.ones(duration_s.shape)
    penalty[is_slow] = (preferred_s / duration_s[is_slow]) ** alpha
    return penalty


def utility(
    statistical: FloatArray,
    duration_s: FloatArray,
    last_round: IntArray,
    *,
    round_: int,
    preferred_s: float,
    alpha: float,
) -> FloatArray:
    """Util of each client [n] from its clipped statistical utility, duration and last round."""
    bonus = temporal_bonus(round_, last_round)
    return (statistical + bonus) * system_penalty(duration_s, preferred_s, alpha)


def cut_off_pool(utilities: FloatArray, quota: int, cut_off_fraction: float) -> IntArray:
    """Positions with a utility of at least c times the `quota`-th largest; at least `quota`.

    >>> cut_off_pool(np.array([4.0, 10.0, 8.0, 7.6]), 2, 0.95).tolist()
    [1, 2, 3]
    """
    if quota == 0:
        return np.empty(0, dtype=np.int64)
    rank = utilities.size - quota
    cut_off = np.partition(utilities, rank)[rank]
    return np.flatnonzero(utilities >= cut_off_fraction * cut_off)


def is_declining(achieved: FloatArray, window: int) -> bool:
    """Whether the last `window` rounds gathered less utility than the `window` before them.

    False as long as there are not two windows.
    """
    if achieved.size < 2 * window:
        return False
    return bool(achieved[-2 * window : -window].sum() > achieved[-window:].sum())
