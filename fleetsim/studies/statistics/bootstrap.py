"""BCa bootstrap interval of the mean of paired log-ratios.

Bias-corrected and accelerated percentiles (Efron, JASA 82:171-185, 1987; Efron and Tibshirani, An
Introduction to the Bootstrap, 1993, equations 14.9, 14.10, 14.14 and 14.15). For a mean, the
acceleration by the jackknife is sum(x^3) / (6 sum(x^2)^1.5) with x the deviations from the mean.

With few pairs it is too short (docs/statistics.md), so it is a second opinion beside Student's t.
"""

from functools import lru_cache

import numpy as np
from scipy import special

from fleetsim import rng
from fleetsim.contracts import FloatArray

NUM_RESAMPLES = 10_000
MIN_PAIRS = 3
"""Fewest pairs with an interval: two have three resamples, whose percentiles say nothing."""
_SAME = 1e-12
"""Difference between resampled means that is rounding."""
_CHUNK = 1 << 24
"""Resampled means held at once."""


def bca_interval(
    log_ratio: FloatArray, seed: int, level: float = 0.95, num_resamples: int = NUM_RESAMPLES
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of the mean of [..., n].

    NaN with less than `MIN_PAIRS` pairs; both ends are the mean if all log-ratios are the same.
    Comparisons with equally many pairs share their resamples (same `seed`).
    """
    num = log_ratio.shape[-1]
    rows = np.reshape(log_ratio, (-1, num))
    ends = np.full((2, len(rows)), np.nan)
    if num >= MIN_PAIRS:
        weights = _weights(seed, num, num_resamples)
        step = max(_CHUNK // num_resamples, 1)
        for start in range(0, len(rows), step):
            chunk = slice(start, start + step)
            ends[:, chunk] = _interval_of_rows(rows[chunk], weights, level)
    low, high = ends.reshape(2, *log_ratio.shape[:-1])
    return low, high


@lru_cache(maxsize=8)
def _weights(seed: int, num: int, num_resamples: int) -> FloatArray:
    """Return the share of each pair in each resample: [n, num_resamples]."""
    draws = rng.stream(seed, "bootstrap", num)
    counts = draws.multinomial(num, np.full(num, 1.0 / num), size=num_resamples)
    weights: FloatArray = np.ascontiguousarray(counts.T) / num
    weights.flags.writeable = False
    return weights


def _interval_of_rows(rows: FloatArray, weights: FloatArray, level: float) -> FloatArray:
    """Return low and high ends of each row: [2, rows]."""
    mean = np.mean(rows, axis=1)
    deviation = rows - mean[:, None]
    is_constant = np.all(rows == rows[:, :1], axis=1)
    # Deviations are resampled, so that ties with the mean are recognised at any magnitude.
    resampled = np.sort(deviation @ weights, axis=1)
    scale = np.max(np.abs(deviation), axis=1, keepdims=True) * _SAME
    below = np.mean(resampled < -scale, axis=1)
    tied = np.mean(np.abs(resampled) <= scale, axis=1)
    # Equation 14.14, with half of the ties.
    bias = special.ndtri(below + 0.5 * tied)
    with np.errstate(invalid="ignore", divide="ignore"):
        acceleration = np.sum(deviation**3, axis=1) / (6.0 * np.sum(deviation**2, axis=1) ** 1.5)
        shares = ((1.0 - level) / 2.0, (1.0 + level) / 2.0)
        ends = np.array([_end(resampled, bias, acceleration, share) for share in shares])
    return np.where(is_constant, rows[:, 0], mean + ends)


def _end(
    resampled: FloatArray, bias: FloatArray, acceleration: FloatArray, share: float
) -> FloatArray:
    """Return the corrected percentile of each row of sorted resampled means."""
    z = bias + special.ndtri(share)
    corrected = special.ndtr(bias + z / (1.0 - acceleration * z))  # equation 14.10
    place = np.nan_to_num(corrected, nan=0.5) * (resampled.shape[1] - 1)
    before = np.floor(place).astype(np.int64)
    after = np.minimum(before + 1, resampled.shape[1] - 1)
    row = np.arange(len(resampled))
    fraction = place - before
    end: FloatArray = resampled[row, before] * (1.0 - fraction) + resampled[row, after] * fraction
    return end
