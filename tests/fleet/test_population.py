"""Single clients of a fleet: places, speeds and links."""

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import stats

from fleetsim.contracts import ModelCost
from fleetsim.counts import Batching
from fleetsim.fleet.network.channels import ChannelSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.population import Fleet, places_m
from tests.fleet.made_fleets import fleet_of


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
