"""Means over seeds with the range in which they are drawn.

With `FEW` seeds or more the range is the 95 % t interval of the mean (`statistics.t_test`). With
fewer it is the least and the most of the seeds, since a t interval of two to four of them is too
wide to read. Costs, which are positive and multiply, are averaged as logarithms: their mean is the
geometric one. Ranges describe; verdicts come from `statistics`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.studies.statistics.t_test import t_interval

FEW = 5
"""Smallest number of seeds with a t interval."""


@dataclass(frozen=True, slots=True)
class Mean:
    """Geometric mean of an arm's costs over seeds, with its range."""

    center: float
    low: float
    high: float
    num_seeds: int


def words(nums: Iterable[int], *, mean: str = "mean") -> str:
    """Return how the ranges of arms of these numbers of seeds are made, for a caption.

    >>> words([5, 4])
    '95 % t interval of the mean over seeds (least to most with fewer than 5 seeds)'
    """
    several = [num for num in nums if num > 1]
    interval = f"95 % t interval of the {mean} over seeds"
    few = f"least to most with fewer than {FEW} seeds"
    match any(num >= FEW for num in several), any(num < FEW for num in several):
        case True, True:
            return f"{interval} ({few})"
        case True, False:
            return interval
        case False, True:
            return f"least to most of the seeds (fewer than {FEW}, too few for an interval)"
        case _:
            return "none (one seed)"


def over_seeds(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, low and high over the first axis of values [seeds, points].

    >>> [float(end) for end, in over_seeds(np.array([[1.0], [3.0]]))]
    [2.0, 1.0, 3.0]
    """
    mean: FloatArray = values.mean(axis=0)
    if len(values) < FEW:
        return mean, values.min(axis=0), values.max(axis=0)
    return mean, *t_interval(values.T)


def geometric(costs: FloatArray) -> Mean:
    """Return the geometric mean of positive costs of one or more seeds, with its range.

    >>> geometric(np.array([1.0, 4.0]))
    Mean(center=2.0, low=1.0, high=4.0, num_seeds=2)
    """
    # Rounded, as exp(log(4)) is not 4.
    center, low, high = (
        float(f"{math.exp(end[0]):.12g}") for end in over_seeds(np.log(costs)[:, np.newaxis])
    )
    return Mean(center, low, high, len(costs))
