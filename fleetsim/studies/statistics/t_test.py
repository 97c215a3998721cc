"""Student's t for the mean of paired log-ratios: the primary interval and test.

    mean +- t(n - 1; (1 + level) / 2) std / sqrt(n)

exact if log-ratios are normal (Student, Biometrika 6:1-25, 1908; of log-ratios: Bland and Altman,
BMJ 312:1079, 1996). The exponential of the ends is an interval of the geometric mean of the ratios.

Equivalence is shown by two one-sided tests of the same statistic (Schuirmann, Journal of
Pharmacokinetics and Biopharmaceutics 15:657-680, 1987).
"""

import math

import numpy as np
from scipy import special

from fleetsim.contracts import FloatArray


def t_interval(log_ratio: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of the mean of [..., n]; NaN for one pair."""
    mean, error = mean_and_error(log_ratio)
    degrees = log_ratio.shape[-1] - 1
    half = special.stdtrit(max(degrees, 1), (1.0 + level) / 2.0) * error
    return mean - half, mean + half


def t_test(log_ratio: FloatArray) -> FloatArray:
    """Return the two-sided p-value of a mean of 0 of [..., n].

    Without spread the test has nothing to measure with: p is 1 if all are 0, else NaN. It is NaN
    for one pair too.
    """
    mean, error = mean_and_error(log_ratio)
    degrees = log_ratio.shape[-1] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(error > 0.0, np.abs(mean) / error, np.nan)
    p = 2.0 * special.stdtr(max(degrees, 1), -statistic)
    return np.where((error == 0.0) & (mean == 0.0), 1.0, p)


def equivalence_p(mean: float, error: float, num: int, margin: float) -> float:
    """Return the p-value of the larger of two one-sided tests of |mean| >= ln(1 + margin).

    `error` is the standard error of the mean of `num` log-ratios; without spread (0) there is
    nothing to measure with, and p is NaN.

    >>> round(equivalence_p(0.0, 0.01, 5, 0.05), 4), equivalence_p(0.0, 0.0, 5, 0.05)
    (0.0041, nan)
    """
    if not error > 0.0:  # also for NaN
        return math.nan
    return float(special.stdtr(num - 1, (abs(mean) - math.log1p(margin)) / error))


def mean_and_error(log_ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard error; the error is exactly 0 if all are the same."""
    num = log_ratio.shape[-1]
    first = log_ratio[..., 0]
    is_constant = np.all(log_ratio == first[..., None], axis=-1)
    mean = np.where(is_constant, first, np.mean(log_ratio, axis=-1))
    if num < 2:
        return mean, np.full_like(mean, np.nan)
    error = np.std(log_ratio, axis=-1, ddof=1) / np.sqrt(num)
    return mean, np.where(is_constant, 0.0, error)
