"""Mean rate up by steps of modulation and coding under Rayleigh fading, against closed forms.

With g ~ Exp(1), mean ratio m and step k working from t_k at rate e_k, r is e_k from t_k to
c_k = e_k t_(k+1) / e_(k+1), and from there (e_(k+1) / t_(k+1)) s until t_(k+1): sums of moments of
an exponential between two edges. The rate down is compared in `test_fading_laws`, for all laws.
"""

import math

import numpy as np
import pytest

from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import NormalisedSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.rate import nr_64qam
from tests.theory.intervals import assert_mean

NUM_BLOCKS = 400_000
BANDWIDTH_HZ = 5e6
ONE = np.zeros(1, dtype=np.int64)


def powers_between(low: float, high: float, mean: float) -> tuple[float, float, float]:
    """E[s^p; low < s < high] for p = 0, 1, 2, s exponential with this mean."""

    def above(edge: float) -> tuple[float, float, float]:
        if edge == math.inf:
            return 0.0, 0.0, 0.0
        tail = math.exp(-edge / mean)
        return tail, (edge + mean) * tail, (edge**2 + 2 * edge * mean + 2 * mean**2) * tail

    return tuple(a - b for a, b in zip(above(low), above(high), strict=True))  # type: ignore[return-value]


def moments(mean_snr: float) -> tuple[float, float]:
    """Mean and variance of the rate per hertz, without overhead."""
    steps = nr_64qam(0.0, math.inf, 1.0)
    t, e = [float(x) for x in steps.least_snr], [float(x) for x in steps.bit_per_s_per_hz]
    first, second = 0.0, 0.0
    for k, (t_k, e_k) in enumerate(zip(t, e, strict=True)):
        t_next = t[k + 1] if k + 1 < len(t) else math.inf
        flat_until, slope = t_next, 0.0
        if t_next < math.inf:
            slope = e[k + 1] / t_next
            flat_until = e_k / slope
        share, _, _ = powers_between(t_k, flat_until, mean_snr)
        _, linear, square = powers_between(flat_until, t_next, mean_snr)
        first += e_k * share + slope * linear
        second += e_k**2 * share + slope**2 * square
    # Below the lowest step, down to one resource block.
    _, linear, square = powers_between(t[0] * 180e3 / BANDWIDTH_HZ, t[0], mean_snr)
    first += e[0] / t[0] * linear
    second += (e[0] / t[0]) ** 2 * square
    return first, second - first**2


@pytest.mark.parametrize("snr_db", [-5.0, 5.0, 20.0])
def test_mean_rate_under_rayleigh_fading(snr_db: float):
    settings = NormalisedSettings(rate="nr-64qam", mean_snr_db=snr_db, bandwidth_hz=BANDWIDTH_HZ)
    cell = build_channel(settings, seed=11, size=1, wired_bit_per_s=np.full(1, np.nan)).cell
    assert cell is not None
    rates = cell.rates_bit_per_s(ONE, Direction.UP, ONE, NUM_BLOCKS)[0]
    mean, variance = moments(10.0 ** (snr_db / 10.0))

    assert_mean(rates / (0.92 * BANDWIDTH_HZ), mean, variance)
