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
