"""Intervals that a correct simulator misses once in 16,000 seeds, computed from theory alone.

Means: the theoretical mean plus or minus Z = 4 standard errors (normal limit, two-sided 6.3e-5).
The standard error comes from the theoretical variance. Each check also asserts that its interval
is narrow enough to notice an error that matters.

Distributions: the Kolmogorov-Smirnov distance D of n draws has Pr[sqrt(n) D > c] -> 2 exp(-2 c^2)
for any continuous law; c = 2.28 makes that 6.3e-5 too.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from fleetsim.contracts import FloatArray

Z = 4.0
KOLMOGOROV = 2.28


def assert_mean(sample: FloatArray, mean: float, variance: float, within: float = 0.02) -> None:
    """Assert the mean of a sample, within an interval narrow enough to notice an error `within`."""
    half_width = Z * math.sqrt(variance / sample.size)

    assert half_width < within * abs(mean)
    assert abs(float(np.mean(sample)) - mean) < half_width


def assert_share(is_one: FloatArray, share: float, within: float = 0.02) -> None:
    """Assert the share of true values in a sample (Bernoulli)."""
    assert_mean(is_one.astype(np.float64), share, share * (1.0 - share), within)


def assert_uncorrelated(one: FloatArray, other: FloatArray, sd: float = 1.0) -> None:
    """Assert that samples of mean 1 do not covary: products of z-scores: mean 0, variance 1."""
    half_width = Z / math.sqrt(one.size)

    assert half_width < 0.02
    assert abs(float(np.mean((one - 1.0) * (other - 1.0)))) / sd**2 < half_width


def assert_distributed(sample: FloatArray, cdf: Callable[[FloatArray], FloatArray]) -> None:
    """Assert that a sample has this distribution function."""
    distance = float(stats.kstest(sample, cdf).statistic)

    assert distance < KOLMOGOROV / math.sqrt(sample.size)
