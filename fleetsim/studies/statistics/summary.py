"""Summary of the costs of one arm over seeds, under right censoring.

A mean or a standard deviation of the runs that reached the target alone would reward an arm for
its failures, so neither exists unless all did. What always exists is the mean of the restricted
costs (until the target or the end of the run: Royston and Parmar, BMC Medical Research Methodology
13:152, 2013), and a bound of the median.
"""

import math
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Summary:
    """Costs of one arm over seeds; NaN is what the runs do not tell."""

    num_seeds: int
    """Seeds whose run is complete."""
    num_reached: int
    """Seeds that reached the target."""
    mean: float
    """Mean of the costs to the target; NaN unless all seeds reached it."""
    std: float
    """Standard deviation of the same costs, with n - 1 in the denominator; NaN unless all seeds, at
    least two, reached it."""
    median: float
    """Median of the costs to the target, or a lower bound of it (`is_median_bound`)."""
    is_median_bound: bool
    """True: censored runs leave the median open, it is `median` or more. False: it is the same
    whether they cost what they spent or infinitely much."""
    least: float
    """Least cost of a seed that reached the target; NaN if none did."""
    most: float
    """Highest cost to the target; NaN unless all seeds reached it."""
    restricted_mean: float
    """Mean of the costs to the target or to the end of the run, over all seeds (Royston and
    Parmar, BMC Medical Research Methodology 13:152, 2013). Of two arms whose runs end at different
    costs these are no comparison."""
    restricted_std: float
    """Standard deviation of the same costs, with n - 1 in the denominator; NaN for one seed."""


def summarise(cost: FloatArray, is_reached: BoolArray) -> Summary:
    """Summarise the costs of one arm, finite and positive: one value for each seed, [n].

    The median of the costs lies between that of the restricted costs and that in which censored
    runs cost infinitely much. If both are the same it is known: with a common end of all runs, if
    more than half reached the target.

    >>> summary = summarise(np.array([2.0, 4.0, 9.0]), np.array([True, True, False]))
    >>> summary.num_reached, summary.median, summary.is_median_bound, summary.restricted_mean
    (2, 4.0, False, 5.0)
    """
    reached = cost[is_reached]
    have_all = reached.size == cost.size
    mean = float(np.mean(cost))
    std = float(np.std(cost, ddof=1)) if cost.size > 1 else math.nan
    median = float(np.median(cost))
    return Summary(
        num_seeds=cost.size,
        num_reached=reached.size,
        mean=mean if have_all else math.nan,
        std=std if have_all else math.nan,
        median=median,
        is_median_bound=float(np.median(np.where(is_reached, cost, np.inf))) != median,
        least=float(np.min(reached)) if reached.size else math.nan,
        most=float(np.max(reached)) if have_all else math.nan,
        restricted_mean=mean,
        restricted_std=std,
    )
