"""Multipliers of speed and bandwidth: constant mean, growing tails, exact scaling of transfers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats

from fleetsim.contracts import ModelCost
from fleetsim.counts import Batching
from fleetsim.fleet.heterogeneity import NUM_VALUES, multipliers, quantile_means
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import ChannelSettings, ConstantSettings, FadingSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.population import Fleet, places_m
from tests.fleet.made_fleets import fleet_of
from tests.fleet.one_timeline import row_of

SEVERITIES = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0]


def test_the_fast_get_faster_and_the_slow_slower_and_the_mean_stays_one():
    spread = [multipliers(s, "test", seed=3, size=1000) for s in SEVERITIES]

    assert [drawn.mean() for drawn in spread] == pytest.approx([1.0] * len(spread), rel=1e-12)
    assert min(drawn.min() for drawn in spread) > 0.0
    assert (np.diff([drawn.max() for drawn in spread]) > 0).all()
    assert (np.diff([drawn.min() for drawn in spread]) < 0).all()


def test_the_values_are_those_of_a_lognormal_of_mean_one():
    """Against the quantiles of 400,000 draws; a value is the mean of a hundredth of them."""
    drawn = np.sort(np.exp(0.7 * np.random.default_rng(1).standard_normal(400_000) - 0.7**2 / 2))
    by_hand = drawn.reshape(NUM_VALUES, -1).mean(axis=1)

    # The widest hundredth has a relative standard error of 0.5 %.
    assert quantile_means(0.7) == pytest.approx(by_hand, rel=0.03)


@given(size=st.integers(1, 300), more=st.integers(0, 300), seed=st.integers(0, 9))
def test_a_clients_multiplier_does_not_depend_on_the_size_of_the_fleet(size, more, seed):
    few = multipliers(0.8, "test", seed=seed, size=size)

    assert multipliers(0.8, "test", seed=seed, size=size + more)[:size].tolist() == few.tolist()


def test_speed_bandwidth_and_seeds_are_drawn_independently():
    speed, bandwidth = (multipliers(1.0, what, seed=1, size=5000) for what in ("a", "b"))

    # The correlation of independent orders has a standard deviation of 1 / sqrt(5000) = 0.014.
    assert abs(np.corrcoef(speed, bandwidth)[0, 1]) < 0.06
    assert speed.tolist() != multipliers(1.0, "a", seed=2, size=5000).tolist()


CHANNELS: dict[str, FadingSettings | ConstantSettings] = {
    "constant": ConstantSettings(down_bit_per_s=1e6, up_bit_per_s=1e6, give_up_s=50.0),
    "fading": FadingSettings(give_up_s=50.0, bandwidth_hz=2e5),
}


@pytest.mark.parametrize("kind", CHANNELS)
def test_a_transfer_at_twice_the_rate_takes_half_the_bits_time_and_the_same_joules_a_bit(kind):
    multiple = np.array([0.5, 1.0, 2.0, 3.0, 0.01, 7.0, 1.0, 1.3])
    wireless = np.full(8, np.nan)
    plain, scaled = (
        build_channel(CHANNELS[kind], seed=1, size=8, wired_bit_per_s=wireless, multiple=factor)
        for factor in (None, multiple)
    )
    clients, bit = np.arange(8), np.full(8, 6e6)
    start_s, power = np.full(8, 3.3), RadioPower.line(np.zeros(8), np.full(8, 1e-7))
    rows, laid_out = zip(*scaled.transfers(clients, Direction.UP, start_s, bit, power), strict=True)
    for client in range(8):
        part = next(i for i, some in enumerate(rows) if client in some)
        timeline = row_of(laid_out[part], rows[part].tolist().index(client))
        alone = row_of(plain.transfers(
            clients[[client]], Direction.UP, start_s[:1], bit[:1] / multiple[client],
            power.take(np.array([0])),
        )[-1][1], 0)  # fmt: skip

        assert timeline.end_s == pytest.approx(alone.end_s, rel=1e-12)
        assert timeline.is_complete == alone.is_complete == (client != 4)
        if timeline.is_complete:
            assert timeline.progress[-1] == bit[client]
            assert timeline.energy_until(1e9) == pytest.approx(bit[client] * 1e-7, rel=1e-9)
        assert (np.diff(timeline.progress) >= 0).all()


def boards(size: int = 2000, **settings: Any) -> Fleet:
    given = {"devices": {"jetson-nano-cpu": 1.0}, "channel": {"kind": "fading"}, **settings}
    return fleet_of(given.pop("devices"), size=size, seed=3, **given)


def test_clients_stand_at_their_distances_in_every_direction():
    """Kolmogorov-Smirnov at the 1 in 10,000 level, of 2,000 directions against the uniform."""
    fleet = boards()
    position_m = fleet.position_m
    assert position_m is not None
    assert fleet.channel.cell is not None
    distance_m = fleet.channel.cell.distance_m
    assert distance_m is not None
    turn = np.arctan2(position_m[:, 1], position_m[:, 0]) / (2 * np.pi) + 0.5

    np.testing.assert_allclose(np.hypot(*position_m.T), distance_m, rtol=1e-12)
    assert stats.kstest(turn, "uniform").pvalue > 1e-4
    np.testing.assert_array_equal(boards(5).position_m, position_m[:5])  # whatever the size


@pytest.mark.parametrize("kind", ["fading", "calibrated", "normalised"])
def test_places_are_known_before_there_is_a_fleet(kind):
    fleet = boards(20, channel={"kind": kind})
    settings = TypeAdapter(ChannelSettings).validate_python({"kind": kind})
    places = places_m(settings, seed=3, size=20)

    assert (places is None) == (kind == "normalised")
    np.testing.assert_array_equal(places, fleet.position_m)


def test_an_epoch_takes_a_faster_unit_less():
    """Nano: 2 batches of 50 with a million parameters, 100 samples of 3 GFLOP at 13.5 GFLOP/s."""
    cost = ModelCost({"conv": 1e9}, num_parameters=1_000_000, payload_byte=4_000_000)
    plain_s = 2 * (0.02 + 0.0105) + 300 / 13.5
    fleet = boards(4, unit_spread_sigma=0.2)

    assert boards(4).epoch_s(1, cost, Batching(50)) == pytest.approx(plain_s)
    assert fleet.epoch_s(1, cost, Batching(50)) == pytest.approx(plain_s / fleet.unit_speed[1])


def test_a_rate_is_the_channels_times_the_clients_multiple():
    channel = {"kind": "constant", "down_bit_per_s": 1e6, "up_bit_per_s": 3e6}
    fleet = boards(4, channel=channel, devices={"pixel-6": 1.0}, heterogeneity={"bandwidth": 0.5})
    multiple = fleet.channel.multiple
    assert multiple is not None

    assert fleet.rate_at(2, Direction.UP, 5.0) == pytest.approx(3e6 * multiple[2])
