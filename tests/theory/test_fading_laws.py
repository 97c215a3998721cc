"""The laws of block fading against closed forms and numerical integrals over their densities.

With gain g of mean 1: rayleigh has density exp(-g); rician (K + 1) exp(-K - (K + 1) g)
I0(2 sqrt(K (K + 1) g)) and variance (1 + 2 K) / (1 + K)^2 (Rice, 1948); nakagami
m^m g^(m - 1) exp(-m g) / Gamma(m) and variance 1 / m (Nakagami, 1960). At a mean ratio `snr` the
outage below rho bit/s/Hz is Pr[g < (2^rho - 1) / snr] and the ergodic rate E[log2(1 + g snr)].
Intervals: `intervals`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import NormalisedSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.cell import Cell
from tests.theory.intervals import (
    assert_distributed,
    assert_mean,
    assert_share,
    assert_uncorrelated,
)

NUM_BLOCKS = 400_000
BANDWIDTH_HZ = 1e6
DOWN, UP = Direction.DOWN, Direction.UP
RAYLEIGH = ("rayleigh", 1.0)
LAWS = [RAYLEIGH, ("rician", 3.0), ("rician", 10.0), ("nakagami", 0.5), ("nakagami", 3.0)]
"""Of which Rayleigh is also rician with 0 and nakagami with 1, draw for draw."""
every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law[0]} {law[1]:g}")
Law = tuple[str, float]


def cell_of(law: Law, snr_db: float = 0.0, seed: int = 5, **settings: Any) -> Cell:
    """A cell with one client."""
    name, parameter = law
    if name != "rayleigh":
        settings["rician_k" if name == "rician" else "nakagami_m"] = parameter
    channel = build_channel(
        NormalisedSettings(fading=name, mean_snr_db=snr_db, bandwidth_hz=BANDWIDTH_HZ, **settings),
        seed=seed,
        size=1,
        wired_bit_per_s=np.full(1, np.nan),
    )
    assert channel.cell is not None
    return channel.cell


@functools.cache
def gains_of(law: Law, direction: Direction = UP) -> FloatArray:
    one, first = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    gains: FloatArray = cell_of(law).fading.gains(one, direction, first, NUM_BLOCKS)[0]
    return gains


def rates_of(law: Law, snr_db: float, **settings: Any) -> FloatArray:
    """Rates per hertz upwards."""
    cell = cell_of(law, snr_db, **settings)
    return cell.modem.rates_bit_per_s(UP, gains_of(law) * cell.snr[1, 0]) / BANDWIDTH_HZ


def density(law: Law, gain: float) -> float:
    name, parameter = law
    if name == "rician":
        k = parameter
        bessel = 2.0 * math.sqrt(k * (k + 1.0) * gain)
        scaled = float(special.ive(0, bessel))  # exp(-bessel) * I0(bessel)
        return (k + 1.0) * math.exp(bessel - k - (k + 1.0) * gain) * scaled
    m = parameter  # rayleigh is m = 1
    return float(m**m * gain ** (m - 1.0)) * math.exp(-m * gain) / math.gamma(m)


def expected(law: Law, value: Callable[[float], float], until: float = 150.0) -> float:
    """Integral of value(g) * density(g) up to a gain, over sqrt(g): smooth at 0 for m = 0.5 too."""
    knots = [root for root in (0.5, 1.0, 2.0, 4.0) if root**2 < until]
    integral, _ = integrate.quad(
        lambda root: value(root**2) * density(law, root**2) * 2.0 * root,
        1e-150,
        math.sqrt(until),
        points=knots or None,
        limit=200,
        epsabs=1e-11,
        epsrel=1e-10,
    )
    return float(integral)


def variance_of(law: Law) -> float:
    name, parameter = law
    if name == "rician":
        return (1.0 + 2.0 * parameter) / (1.0 + parameter) ** 2
    return 1.0 / parameter


@every_law
@pytest.mark.parametrize("direction", [DOWN, UP])
def test_the_mean_gain_is_one(law: Law, direction: Direction) -> None:
    assert_mean(gains_of(law, direction), mean=1.0, variance=variance_of(law))


@every_law
@pytest.mark.parametrize("rho", [1.0, 2.0])
def test_outage_is_that_of_the_law(law: Law, rho: float) -> None:
    outage = expected(law, lambda gain: 1.0, until=(2.0**rho - 1.0) / 10.0**0.5)

    rates = rates_of(law, snr_db=5.0, outage_bit_per_s_per_hz=rho)

    assert_share(rates == 0.0, outage, within=0.12)


@every_law
@pytest.mark.parametrize("snr_db", [-5.0, 5.0, 20.0])
def test_the_mean_rate_is_the_ergodic_capacity(law: Law, snr_db: float) -> None:
    snr = 10.0 ** (snr_db / 10.0)
    mean = expected(law, lambda gain: math.log2(1.0 + gain * snr))
    square = expected(law, lambda gain: math.log2(1.0 + gain * snr) ** 2)

    assert_mean(rates_of(law, snr_db), mean=mean, variance=square - mean**2)


@every_law
@pytest.mark.parametrize("lag", [1, 2, 3, 4, 5, 7])
def test_blocks_are_uncorrelated(law: Law, lag: int) -> None:
    gains = gains_of(law)

    assert_uncorrelated(gains[lag:], gains[:-lag], sd=math.sqrt(variance_of(law)))


@every_law
def test_up_and_down_are_uncorrelated(law: Law) -> None:
    assert_uncorrelated(gains_of(law, UP), gains_of(law, DOWN), sd=math.sqrt(variance_of(law)))


@every_law
def test_gains_are_distributed_by_the_law(law: Law) -> None:
    name, parameter = law
    if name == "rician" and parameter > 0.0:
        # 2 (K + 1) g is chi-square with 2 degrees of freedom and non-centrality 2 K
        reference = stats.ncx2(2, 2.0 * parameter, scale=0.5 / (parameter + 1.0))
    elif name == "nakagami":
        reference = stats.gamma(parameter, scale=1.0 / parameter)
    else:
        reference = stats.expon()

    assert_distributed(gains_of(law)[:100_000], reference.cdf)


@pytest.mark.parametrize("law", [("rician", 0.0), ("nakagami", 1.0)])
def test_rayleigh_is_a_special_case(law: Law) -> None:
    """In law, by draws of another seed; and draw for draw, since they use the same words."""
    one, first = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    others = cell_of(law, seed=6).fading.gains(one, UP, first, 100_000)[0]

    assert_distributed(others, stats.expon().cdf)
    np.testing.assert_allclose(gains_of(law), gains_of(RAYLEIGH), rtol=1e-9)
