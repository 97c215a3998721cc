"""Equations of FedGRA: metrics, grey relational grades, fairness, and the choice from both.

Each of n clients reports four metrics: training loss h (lower is better), weight divergence d, free
processing power m and free memory r (higher is better). With p the metrics of which more is better
and q the others:

    (1, 2)   m = cores * clock * (1 - load),  r = RAM * (1 - load)
    (3)      smoothed x(t) = theta x(t) + (1 - theta) smoothed x(t-1), of m and r
    (4, 5)   h = sqrt(sum over epochs of Loss^2),  d = || w_global - w_local ||_2
    (6, 7)   p' = (p - min p) / (max p + min p),  q' = (max q - q) / (max q + min q)
    (8, 9)   x = x' / mean(x'),  Delta_i = max_j x_j - x_i
    (10-12)  xi_i = (Delta_min + rho Delta_max) / (Delta_i + rho Delta_max), extremes over all
             clients and metrics
    (13-15)  p_i = x_i / sum x,  E = - sum p_i ln p_i / ln n,  w = (1 - E) / sum of all (1 - E)
    (16)     g_i = sum over metrics of w xi_i    (printed: of xi_i / w)
    (17)     fairness F = 1 at first and when selected, F + f otherwise; F >= b must take part

The paper contradicts itself: its text and (15) prefer metrics of low entropy, but (16) divides by
w. `weighting="ewm"` (entropy weight method, the default) multiplies; `inverse` is as printed. A
metric in which all clients are equal has entropy 1 and no weight in either. (8) cancels the
denominators of (6, 7), so that max - min (`mapping="range"`) gives the same grades.

Source: Chen, Tavallaie, Hambali, Zandavi, Haddadi, Lane, Guo, Zomaya, "Optimization of federated
learning's client selection for non-IID data based on grey relational analysis", arXiv
2310.08147v3, equations (1) to (17), Algorithm 2.
"""

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Parameters
from fleetsim.selectors.tie_breaking import best

HIGHER_IS_BETTER: BoolArray = np.array([False, True, True, True])
"""Of loss, weight divergence, processing power and memory, in this order [4]."""

Mapping = Literal["sum", "range"]
"""Denominator of (6, 7): max + min as printed, or max - min."""
Weighting = Literal["ewm", "inverse"]
"""Grades by w xi (entropy weight method), or by xi / w as (16) is printed."""
Overflow = Literal["capped", "printed"]
"""Forced clients count towards the number wanted, or all of them count as one (Algorithm 2)."""
Reset = Literal["selection", "marking"]
"""Event that resets fairness: selection, or already marking (Algorithm 2)."""


def is_selection_round(round_: int, every: int = 5) -> bool:
    """Return whether a cohort is chosen in round 1, 2, ...; the same set trains between (t_select).

    >>> [round_ for round_ in range(1, 12) if is_selection_round(round_)]
    [1, 6, 11]

    Source: FedGRA (arXiv 2310.08147v3), Algorithm 2, t_select.
    """
    return (round_ - 1) % every == 0


def free_capacity(capacity: FloatArray, load_fraction: FloatArray) -> FloatArray:
    """Return (1, 2): the free part of a capacity, in its unit: core * Hz, FLOP/s or byte [n].

    Source: FedGRA (arXiv 2310.08147v3), (1) and (2).
    """
    return np.asarray(capacity * (1.0 - load_fraction))


def smoothed(values: FloatArray, previous: FloatArray, theta: float = 0.9) -> FloatArray:
    """Return (3): theta x + (1 - theta) of the previous average; x where that is NaN [n].

    Source: FedGRA (arXiv 2310.08147v3), (3).
    """
    return np.where(np.isnan(previous), values, theta * values + (1.0 - theta) * previous)


def loss_metric(epoch_losses: FloatArray) -> FloatArray:
    """Return (4): h [n] of the mean losses of each client's epochs [n, E]; of one, that loss.

    Source: FedGRA (arXiv 2310.08147v3), (4).
    """
    squares: FloatArray = np.square(epoch_losses).sum(axis=1)
    return np.sqrt(squares)


def weight_divergence(base: Parameters, local: Iterable[Parameters]) -> FloatArray:
    """Return (5): distance of each local model [P] from the model that it started from [P]; [n].

    Source: FedGRA (arXiv 2310.08147v3), (5).
    """
    start = base.astype(np.float64)
    return np.array([np.linalg.norm(start - model) for model in local], dtype=np.float64)


def mapped(
    metrics: FloatArray, higher_is_better: BoolArray, mapping: Mapping = "sum"
) -> FloatArray:
    """Return (6, 7): metrics with 0 for the worst client, and more for better ones [n, M].

    Metrics are not negative. A column in which all are equal becomes 0.

    Source: FedGRA (arXiv 2310.08147v3), (6) and (7).
    """
    if metrics.shape[0] == 0:
        return metrics.copy()
    low, high = metrics.min(axis=0), metrics.max(axis=0)
    gain = np.where(higher_is_better, metrics - low, high - metrics)
    scale = high + low if mapping == "sum" else high - low
    result = np.zeros_like(metrics)
    np.divide(gain, scale, out=result, where=np.broadcast_to(high > low, gain.shape))
    return result


def mean_normalised(values: FloatArray) -> FloatArray:
    """Return (8): columns divided by their means; a column of zeros stays zero [n, M].

    Source: FedGRA (arXiv 2310.08147v3), (8).
    """
    if values.shape[0] == 0:
        return values.copy()
    means = values.mean(axis=0)
    return values / np.where(means > 0.0, means, 1.0)


def relational_coefficients(normalised: FloatArray, rho: float = 0.5) -> FloatArray:
    """Return (9-12): closeness of each client to the best one in each metric, in (0, 1] [n, M].

    All are 1 where all clients are equal in all metrics.

    Source: FedGRA (arXiv 2310.08147v3), (9) to (12).
    """
    if normalised.size == 0:
        return normalised.copy()
    deviations: FloatArray = normalised.max(axis=0) - normalised
    largest = float(deviations.max())
    if largest == 0.0:
        return np.ones_like(normalised)
    nearest = float(deviations.min())
    return (nearest + rho * largest) / (deviations + rho * largest)


def entropies(normalised: FloatArray) -> FloatArray:
    """Return (13, 14): entropy of the clients' shares in each metric, in [0, 1] [M].

    1, the entropy of equal shares, for a column of zeros and for less than two clients.

    Source: FedGRA (arXiv 2310.08147v3), (13) and (14).
    """
    num, num_metrics = normalised.shape
    result = np.ones(num_metrics)
    if num < 2:
        return result
    totals = normalised.sum(axis=0)
    for column in np.flatnonzero(totals > 0.0):
        shares = normalised[:, column] / totals[column]
        shares = shares[shares > 0.0]
        result[column] = -float(np.sum(shares * np.log(shares))) / math.log(num)
    return result


def entropy_weights(entropy: FloatArray) -> FloatArray:
    """Return (15): weights of the metrics, of sum 1; all 0 where every entropy is 1 [M].

    Source: FedGRA (arXiv 2310.08147v3), (15).
    """
    information = 1.0 - entropy
    total = float(information.sum())
    return information / total if total > 0.0 else np.zeros_like(information)


def grades(
    coefficients: FloatArray, weights: FloatArray, weighting: Weighting = "ewm"
) -> FloatArray:
    """Return (16): grey relational grade of each client [n]; metrics of weight 0 do not count.

    Source: FedGRA (arXiv 2310.08147v3), (16).
    """
    if weighting == "inverse":
        factors = np.zeros_like(weights)
        np.divide(1.0, weights, out=factors, where=weights > 0.0)
    else:
        factors = weights
    return coefficients @ factors


def grey_relational_grades(
    metrics: FloatArray,
    higher_is_better: BoolArray = HIGHER_IS_BETTER,
    *,
    rho: float = 0.5,
    weighting: Weighting = "ewm",
    mapping: Mapping = "sum",
) -> FloatArray:
    """Return (6-16): grades of the clients [n] from their metrics [n, M]; more is better.

    All are 0 where all clients are equal in all metrics.

    Source: FedGRA (arXiv 2310.08147v3), (6) to (16).
    """
    normalised = mean_normalised(mapped(metrics, higher_is_better, mapping))
    weights = entropy_weights(entropies(normalised))
    return grades(relational_coefficients(normalised, rho), weights, weighting)


def fairness_after(
    fairness: FloatArray,
    is_selected: BoolArray,
    *,
    increment: float = 1.0,
    bound: float = 6.0,
    reset: Reset = "selection",
) -> tuple[FloatArray, BoolArray]:
    """Return (17): fairness after a selection, and a mask of forced clients in the next [N], [N].

    Fairness counts selections, not rounds; clients that did not report were not selected. With
    `reset="marking"` the mask does not follow from the fairness, and must be stored with it.

    F of every client is 1 at first, and grows by f; F >= b forces a client. The event `reset` sets
    it to 1 again.

    Source: FedGRA (arXiv 2310.08147v3), (17).
    """
    after = np.where(is_selected, 1.0, fairness + increment)
    is_forced = ~is_selected & (after >= bound)
    if reset == "marking":
        after = np.where(is_forced, 1.0, after)
    return after, is_forced


def choose(
    grade: FloatArray,
    fairness: FloatArray,
    is_forced: BoolArray,
    num: int,
    keys: FloatArray,
    overflow: Overflow = "capped",
) -> IntArray:
    """Return positions of the chosen among the clients that reported, most wanted first.

    The forced ones come first (fairness descending, then grade), then the others by grade.
    Grade g, fairness F and the mask are of each client [n]; where fairness and grade, or grades,
    are equal, the smaller key goes first [n]. `capped` chooses `num`, or all if there are fewer.
    `printed` is Algorithm 2: all forced clients, and num - 1 others if there is one, so possibly
    more than `num`.

    Source: FedGRA (arXiv 2310.08147v3), Algorithm 2.
    """
    forced = np.flatnonzero(is_forced)
    forced = forced[np.lexsort((keys[forced], -grade[forced], -fairness[forced]))]
    num_ranked = num
    if overflow == "capped":
        forced = forced[:num]
        num_ranked -= forced.size
    elif forced.size:
        num_ranked = max(num - 1, 0)
    others = np.flatnonzero(~is_forced)
    return np.concatenate([forced, others[best(grade[others], num_ranked, keys[others])]])
