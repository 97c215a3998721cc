"""Equations of Oort: shares, utilities, penalties, pools and the pacer.

The server keeps the utility U of every client i that delivered, from the losses of its samples B_i
in training, its seconds t from dispatch to answer, and the last round L in which it was selected.
In round R a client with a utility scores

    U(i)    = |B_i| sqrt(mean over B_i of Loss^2)
    Util(i) = (min(U(i), clip) + sqrt(0.1 ln R / L(i))) * min(1, T / t(i))^alpha
    epsilon = max(0.9 * 0.98^(R - 1), 0.2)

* Of K clients, (1 - epsilon) K are exploited: drawn in proportion to Util among those with at least
  c times the score of that rank.
* The others explore: they are drawn among clients without a utility, in proportion to their
  samples. Each part fills places that the other cannot fill.
* The pacer adds Delta to the preferred duration T where the utility gathered in the last W rounds
  is less than in the W rounds before.
* A client that did not deliver gets the mean utility of those that did.

`profiles.yaml` has the values and rules of published implementations.
"""

import math

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.counts import floor_product
from fleetsim.rounding import ROUNDING_SLACK
from fleetsim.selectors.argument_checks import require_all
from fleetsim.selectors.tie_breaking import best


def exploration_fraction(round_: int, start: float, decay: float, floor: float) -> float:
    """Return the share of explorers (epsilon) in round 1, 2, ...

    >>> exploration_fraction(2, 0.9, 0.5, 0.2), exploration_fraction(9, 0.9, 0.5, 0.2)
    (0.45, 0.2)

    Source: Oort (Lai et al., OSDI 2021), epsilon of Algorithm 1.
    """
    return max(start * decay ** (round_ - 1), floor)


def num_exploited(wanted: int, exploration: float, num_explored: int, num_unexplored: int) -> int:
    """Return the number of explored clients to choose; the rest of `wanted` are explorers.

    >>> num_exploited(10, 0.9, 50, 50), num_exploited(10, 0.9, 50, 2), num_exploited(10, 0.2, 3, 9)
    (1, 8, 3)

    Source: Oort (Lai et al., OSDI 2021), Algorithm 1; the fill-in is fleetsim's.
    """
    # 1 - 0.9 is 0.0999... in binary, and must yield 1 of 10.
    quota = math.floor((1.0 - exploration) * wanted + ROUNDING_SLACK)
    return min(max(quota, wanted - num_unexplored), num_explored)


def statistical_utility(num_samples: FloatArray, loss_rms: FloatArray) -> FloatArray:
    """Return U = |B| sqrt(mean of squared losses) of each client [n].

    Source: Oort (Lai et al., OSDI 2021), the statistical utility.
    """
    utilities = num_samples * loss_rms
    is_good = np.isfinite(utilities) & (utilities >= 0.0)
    require_all("utilities must be finite and not negative", utilities, is_good)
    return utilities


def clipped(utilities: FloatArray, fraction: float) -> FloatArray:
    """Return utilities [n] clipped at that of 0-based rank min(floor(n * fraction), n - 1).

    >>> clipped(np.array([9.0, 1.0, 2.0, 3.0]), 0.5).tolist()
    [3.0, 1.0, 2.0, 3.0]

    Source: Oort (Lai et al., OSDI 2021), the clip of Algorithm 1; by rank as in
    SymbioticLab/Oort@05a3aa1.
    """
    if utilities.size == 0:
        return utilities
    rank = min(floor_product(fraction, utilities.size), utilities.size - 1)
    ceiling = float(np.partition(utilities, rank)[rank])
    return np.minimum(utilities, ceiling)


def scaled(utilities: FloatArray, fraction: float) -> FloatArray:
    """Return utilities [n], clipped and scaled into [0, 1] as the authors' code does.

    (min(U, clip) - 0.999 min U) / max(max U - 0.999 min U, 0.0001), with max and min before the
    clip.

    Source: SymbioticLab/Oort@05a3aa1 `oort.py`.
    """
    if utilities.size == 0:
        return utilities
    floor = 0.999 * float(utilities.min())
    stretch = max(float(utilities.max()) - floor, 1e-4)
    return (clipped(utilities, fraction) - floor) / stretch


def temporal_bonus(round_: int, last_round: IntArray) -> FloatArray:
    """Return sqrt(0.1 ln R / L) of clients last selected in rounds L >= 1 [n].

    Source: Oort (Lai et al., OSDI 2021), temporal uncertainty in Algorithm 1.
    """
    return np.sqrt(0.1 * math.log(round_) / last_round)


def duration_at(durations_s: FloatArray, percentile: float) -> float:
    """Return the preferred duration T as a percentile of all known durations [n].

    It is the one of 0-based rank min(floor(n * percentile / 100), n - 1); infinity, which is no
    preference, from 100 on; NaN where no duration is known.

    >>> duration_at(np.array([9.0, 1.0, np.nan, 5.0, 7.0]), 50.0), duration_at(np.ones(2), 100.0)
    (7.0, inf)

    Source: SymbioticLab/Oort@05a3aa1 `oort.py`, the round threshold.
    """
    if percentile >= 100.0:
        return math.inf
    known_s = durations_s[~np.isnan(durations_s)]
    if known_s.size == 0:
        return math.nan
    rank = min(floor_product(percentile, known_s.size, per=100), known_s.size - 1)
    return float(np.partition(known_s, rank)[rank])


def system_penalty(duration_s: FloatArray, preferred_s: float, alpha: float) -> FloatArray:
    """Return (T / t)^alpha of clients slower than T, else 1; 1 also where t or T is NaN [n].

    Source: Oort (Lai et al., OSDI 2021), the global system utility.
    """
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
    """Return Util of each client [n] from its clipped statistical utility, duration, last round.

    Source: Oort (Lai et al., OSDI 2021), Util of Algorithm 1.
    """
    bonus = temporal_bonus(round_, last_round)
    return (statistical + bonus) * system_penalty(duration_s, preferred_s, alpha)


def cut_off_pool(utilities: FloatArray, quota: int, cut_off_fraction: float) -> IntArray:
    """Return positions with a utility of at least c times the `quota`-th largest one.

    >>> cut_off_pool(np.array([4.0, 10.0, 8.0, 7.6]), 2, 0.95).tolist()
    [1, 2, 3]

    Source: Oort (Lai et al., OSDI 2021), the cut-off of Algorithm 1.
    """
    if quota == 0:
        return np.empty(0, dtype=np.int64)
    rank = utilities.size - quota
    cut_off = np.partition(utilities, rank)[rank]
    return np.flatnonzero(utilities >= cut_off_fraction * cut_off)


def exploration_pool(weights: FloatArray, num: int, window: float, keys: FloatArray) -> IntArray:
    """Return positions of the window * num largest weights (rounded down), the pool of explorers.

    The authors' code draws among five times as many as it wants. Weights are the utilities assumed
    of clients never explored [n]; of equal ones the smaller key goes first [n].

    Source: SymbioticLab/Oort@05a3aa1 `oort.py`.
    """
    return best(weights, floor_product(window, num), keys)


def is_declining(achieved: FloatArray, window: int) -> bool:
    """Return whether the last `window` rounds gathered less utility than the `window` before.

    False as long as there are not two windows.

    Source: Oort (Lai et al., OSDI 2021), the pacer of Algorithm 1.
    """
    if achieved.size < 2 * window:
        return False
    return bool(achieved[-2 * window : -window].sum() > achieved[-window:].sum())


def paced_percentile(percentile: float, achieved: FloatArray, window: int, step: float) -> float:
    """Return the percentile of the preferred duration after the authors' pacer.

    With b the mean utility gathered in the last `window` rounds and a in the `window` rounds
    before: `step` more, at most 100, if b is within 10 % of a; else `step` less, but not below
    `step`, if they differ by 5 a or more. Unchanged as long as there are not two windows. The
    authors' code gathers the mean U of the exploited clients that delivered.

    Source: SymbioticLab/Oort@05a3aa1 `oort.py`, its pacer.
    """
    if achieved.size < 2 * window:
        return percentile
    before = float(achieved[-2 * window : -window].sum())
    change = abs(float(achieved[-window:].sum()) - before)
    if change <= 0.1 * before:
        return min(100.0, percentile + step)
    if change >= 5.0 * before:
        return max(step, percentile - step)
    return percentile
