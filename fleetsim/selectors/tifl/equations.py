"""Equations of TiFL: latencies, tiers, credits, probabilities of tiers, and the choice.

1. Profiling: every client runs the training task R times; its latency is the sum of its times, each
   limited to T_max. A client that never answers within T_max is dropped for the run.
2. Tiers: the others are sorted by latency and divided into m tiers of equal size (`count`), or of
   equal width in latency (`width`, a histogram). Tier 0 is the fastest.
3. Each round a tier is drawn with probability P among those that have credits; it pays one credit,
   and K of its clients are drawn uniformly. Each tier has ceil(T / m) credits of T rounds, or
   unlimited ones.
4. In rounds I, 2I, ... the tiers' accuracies A are measured. If that of the current tier has not
   risen since the last time (`stalled`; always, with `every`), the probabilities change. With the n
   tiers that have credits ranked by accuracy, r = 0 the worst,

       P = (n - r) / (n (n + 1) / 2)         `rank`, as fltk does
       P = (n - 1 - r) / (n (n - 1) / 2)     `rank_to_zero`: never the best
       P = (1 - A) / sum of (1 - A)          `error`

   and 0 for tiers without credits. Before the first change P = 1 / m.

With ceil(T / m) credits each tier is used about equally often, whatever P is; only unlimited
credits let P act.

Source: Chai et al., "TiFL: a tier-based federated learning system", HPDC 2020 (arXiv 2001.09249),
whose full text was not at hand: profiling, credits, `rank` and its interval as in
bacox/fltk@ba90a78, the test for a stall as in later re-implementations. If m does not divide the
number of clients, tiers differ in size by one; fltk takes blocks of ceil(N / m), which can leave
tiers empty.
"""

import math
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.selectors.argument_checks import require_all, require_lengths
from fleetsim.selectors.tie_breaking import best

DROPPED = -1
"""Tier of a client that never answered in time."""

Split = Literal["count", "width"]
"""Tiers of equal size, or of equal width in latency."""
ProbabilityRule = Literal["rank", "rank_to_zero", "error"]
"""Rule by which accuracies become probabilities."""
Fill = Literal["slower", "none"]
"""Replacement of clients that a tier lacks: by the next slower tiers, or none."""


def latency_s(observed_s: FloatArray, max_s: float) -> FloatArray:
    """Return the summed profiling times of each client [n]; NaN for a dropped one.

    Times are of each client in each profiling round, NaN without an answer [n, R]; T_max replaces
    longer times and missing answers.

    >>> latency_s(np.array([[2.0, 3.0], [2.0, np.nan], [9.0, 5.0]]), 5.0).tolist()
    [5.0, 7.0, nan]

    Source: TiFL (Chai et al., HPDC 2020), profiling, as in bacox/fltk@ba90a78.
    """
    total_s: FloatArray = np.fmin(observed_s, max_s).sum(axis=1)
    total_s[~(observed_s < max_s).any(axis=1)] = np.nan
    return total_s


def tiers(
    latencies_s: FloatArray, num_tiers: int, keys: FloatArray, split: Split = "count"
) -> IntArray:
    """Return the tier of each client, 0 the fastest, `DROPPED` where the latency is NaN [n].

    Numbers have no gaps: with fewer clients than tiers, or an empty interval of latency, there are
    fewer tiers.
    With `count` the first N mod m tiers have one more client, and among equal latencies the smaller
    key counts as faster [n].

    Source: TiFL (Chai et al., HPDC 2020), tiering; `count` as in bacox/fltk@ba90a78.
    """
    require_lengths(latencies_s.shape[0], keys=keys)
    result = np.full(latencies_s.shape, DROPPED, dtype=np.int64)
    kept = np.flatnonzero(~np.isnan(latencies_s))
    if kept.size == 0:
        return result
    if split == "count":
        order = kept[np.lexsort((keys[kept], latencies_s[kept]))]
        for tier, members in enumerate(np.array_split(order, min(num_tiers, order.size))):
            result[members] = tier
        return result
    low, high = float(latencies_s[kept].min()), float(latencies_s[kept].max())
    inner_edges = np.linspace(low, high, num_tiers + 1)[1:-1]
    interval = np.searchsorted(inner_edges, latencies_s[kept], side="right")
    result[kept] = np.unique(interval, return_inverse=True)[1]
    return result


def initial_credits(num_tiers: int, planned_rounds: int | None) -> FloatArray:
    """Return ceil(T / m) for each tier [m]; infinity if no number of rounds is given.

    >>> initial_credits(3, 10).tolist(), initial_credits(2, None).tolist()
    ([4.0, 4.0, 4.0], [inf, inf])

    Source: TiFL (Chai et al., HPDC 2020), as in bacox/fltk@ba90a78.
    """
    if planned_rounds is None:
        return np.full(num_tiers, np.inf)
    return np.full(num_tiers, float(-(-planned_rounds // num_tiers)))


def open_tiers(credit: FloatArray, num_available: IntArray) -> BoolArray:
    """Return a mask of tiers that may be drawn [m]: those with credits and available clients.

    If there is none, all tiers with available clients may be drawn, so that a run whose credits are
    spent continues.

    Source: TiFL (Chai et al., HPDC 2020), adaptive tier selection.
    """
    require_lengths(credit.shape[0], num_available=num_available)
    is_present = num_available > 0
    has_both = is_present & (credit > 0.0)
    return has_both if has_both.any() else is_present


def draw_tier(probabilities: FloatArray, is_open: BoolArray, uniform: float) -> int:
    """Return a tier drawn in proportion to P among the open ones; uniformly if all P are 0.

    P >= 0 and the mask of `open_tiers` are of each tier [m]; the uniform is in [0, 1).

    >>> draw_tier(np.array([0.5, 0.3, 0.2]), np.array([True, False, True]), 0.7)
    0
    >>> draw_tier(np.array([0.5, 0.3, 0.2]), np.array([True, False, True]), 0.72)
    2

    Source: TiFL (Chai et al., HPDC 2020), adaptive tier selection.
    """
    require_lengths(probabilities.shape[0], is_open=is_open)
    weights = np.where(is_open, probabilities, 0.0)
    if weights.sum() == 0.0:
        weights = is_open.astype(np.float64)
    edges = np.cumsum(weights)
    # A product of tiny numbers may round up to the last edge.
    tier = int(np.searchsorted(edges, uniform * edges[-1], side="right"))
    return min(tier, int(np.flatnonzero(weights)[-1]))


def tier_accuracies(
    tier_of: IntArray, num_tiers: int, accuracies: FloatArray, num_samples: IntArray
) -> FloatArray:
    """Return the accuracy on all samples of each tier's clients, NaN without an answer [m].

    Accuracies are those that clients measured on `num_samples`, NaN without an answer [n].

    Source: TiFL (Chai et al., HPDC 2020), adaptive tier selection.
    """
    require_lengths(tier_of.shape[0], accuracies=accuracies, num_samples=num_samples)
    reported = np.flatnonzero(~np.isnan(accuracies) & (tier_of != DROPPED))
    weights = num_samples[reported].astype(np.float64)
    samples = np.bincount(tier_of[reported], weights=weights, minlength=num_tiers)
    hits = np.bincount(
        tier_of[reported], weights=weights * accuracies[reported], minlength=num_tiers
    )
    result = np.full(num_tiers, np.nan)
    np.divide(hits, samples, out=result, where=samples > 0.0)
    return result


def changed_probabilities(
    accuracies: FloatArray, credit: FloatArray, keys: FloatArray, rule: ProbabilityRule = "rank"
) -> FloatArray:
    """Return P of each tier after a change [m]: 0 without credits, of sum 1 if any tier has some.

    Accuracies in [0, 1] (NaN, not known, counts as 0) and credits are of the tiers [m]; among equal
    accuracies the smaller key counts as worse.

    Source: TiFL (Chai et al., HPDC 2020), ChangeProbs; `rank` as in bacox/fltk@ba90a78, the
    others as in later re-implementations.
    """
    require_lengths(accuracies.shape[0], credit=credit, keys=keys)
    known = np.where(np.isnan(accuracies), 0.0, accuracies)
    require_all("accuracies must be between 0 and 1", known, (known >= 0.0) & (known <= 1.0))
    probabilities = np.zeros(accuracies.shape)
    has_credit = np.flatnonzero(credit > 0.0)
    num = has_credit.size
    if rule == "error":
        weights = 1.0 - known[has_credit]
    else:
        weights = np.zeros(num)
        worst_first = best(-known[has_credit], num, keys[has_credit])
        weights[worst_first] = num - np.arange(num) - (rule == "rank_to_zero")
    if num and weights.sum() == 0.0:
        weights = np.ones(num)
    probabilities[has_credit] = weights / (math.fsum(weights) or 1.0)
    return probabilities


def choose(
    tier_of: IntArray, tier: int, num: int, keys: FloatArray, fill: Fill = "slower"
) -> IntArray:
    """Return positions of `num` clients of a tier, then of the next slower ones if too few.

    Dropped clients are never chosen. Independent uniform keys make the draw in a tier uniform [n].
    The result may be shorter than `num`, as faster tiers never fill up.

    >>> choose(np.array([1, 0, 2, 1]), 1, 3, np.array([0.5, 0.1, 0.2, 0.3])).tolist()
    [3, 0, 2]

    Source: TiFL (Chai et al., HPDC 2020); that slower tiers fill up is fleetsim's.
    """
    require_lengths(tier_of.shape[0], keys=keys)
    is_meant = tier_of == tier if fill == "none" else tier_of >= tier
    meant = np.flatnonzero(is_meant)
    return meant[best(-tier_of[meant].astype(np.float64), num, keys[meant])]
