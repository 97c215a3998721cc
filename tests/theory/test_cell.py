"""Mean signal-to-noise ratios: three conventions, and shadowing. Intervals: `intervals`.

Outage under Rayleigh fading: 1 - exp(-(2^rho - 1) / snr); ergodic rate: (B / ln 2) exp(1 / snr)
E1(1 / snr).
"""

import math

import numpy as np
import pytest
from scipy import stats

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.channel import Channel, build_channel
from fleetsim.fleet.network.channels import CalibratedSettings, FadingSettings, NormalisedSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.rate import nr_64qam
from fleetsim.units import ratio_to_db
from tests.theory.intervals import Z, assert_distributed, assert_mean

NUM_CLIENTS = 100_000
DOWN, UP = Direction.DOWN, Direction.UP
WAYS = [DOWN, UP]


def channel_of(
    settings: FadingSettings | NormalisedSettings | CalibratedSettings, size: int = 1
) -> Channel:
    return build_channel(settings, seed=12, size=size, wired_bit_per_s=np.full(size, np.nan))


def snr_of(channel: Channel) -> FloatArray:
    assert channel.cell is not None
    return channel.cell.snr


def test_normalised_all_clients_have_20_db_both_ways() -> None:
    assert snr_of(channel_of(NormalisedSettings(), size=50)) == pytest.approx(100.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("distance_m", "snr_db"),
    [(50.0, 57.60), (100.0, 46.28), (250.0, 31.32), (500.0, 20.00), (707.0, 14.34), (1000.0, 8.68)],
)
def test_calibrated_to_20_db_at_500_m(distance_m: float, snr_db: float, way: Direction) -> None:
    channel = channel_of(CalibratedSettings(min_distance_m=distance_m, cell_radius_m=distance_m))

    assert ratio_to_db(channel.mean_snr(0, way)) == pytest.approx(snr_db, abs=0.006)


def test_shadowing_is_normal_in_db_with_the_standard_deviation_asked_for() -> None:
    settings = CalibratedSettings(min_distance_m=500.0, cell_radius_m=500.0, shadowing_sd_db=8.0)
    shadow_db = 20.0 - 10.0 * np.log10(snr_of(channel_of(settings, NUM_CLIENTS))[0])
    half_width_db = Z * 8.0 / math.sqrt(NUM_CLIENTS)

    assert half_width_db < 0.11
    assert abs(float(shadow_db.mean())) < half_width_db
    assert_mean(shadow_db**2, mean=64.0, variance=2.0 * 64.0**2)  # fourth moment 3 sd^4
    assert_distributed(shadow_db, stats.norm(scale=8.0).cdf)


@pytest.mark.parametrize("kind", [FadingSettings, CalibratedSettings])
def test_a_shadow_is_the_same_both_ways(kind):
    clear = snr_of(channel_of(kind(), size=200))
    shadowed = snr_of(channel_of(kind(shadowing_sd_db=8.0), size=200))
    down, up = shadowed / clear

    assert down == pytest.approx(up, rel=1e-12)
    assert np.unique(up.round(9)).size == 200


def test_shadows_move_no_client_and_stay_where_they_are_in_a_larger_fleet() -> None:
    settings = FadingSettings(shadowing_sd_db=6.0)
    few, many = (channel_of(settings, size) for size in (7, 1000))
    clear = channel_of(FadingSettings(), 1000)
    assert clear.cell is not None
    assert many.cell is not None

    np.testing.assert_array_equal(clear.cell.distance_m, many.cell.distance_m)
    np.testing.assert_array_equal(snr_of(few), snr_of(many)[:, :7])


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
