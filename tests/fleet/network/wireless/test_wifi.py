"""Rates on Wi-Fi by hand, independent of the fleet's size."""

import math

import numpy as np
import pytest

from fleetsim.fleet.devices.profile import load_radio
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import FadingSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.wifi import IndoorWifiSettings

SEED = 3
EXACT = {"shadowing_sd_db": 0.0, "airtime_share": (0.5, 0.5)}


def at_distance(distance_m: float, **settings: object) -> IndoorWifiSettings:
    place = {"radius_m": distance_m, "min_distance_m": distance_m}
    return IndoorWifiSettings.model_validate({**place, **EXACT, **settings})


def test_far_from_the_access_point_the_rate_is_the_budget_of_the_link() -> None:
    settings = at_distance(80.0, path_loss_exponent_db=35.0, access_point_tx_power_dbm=20.0)
    down, up = settings.rates_bit_per_s(seed=SEED, size=3)

    loss_db = 46.3 + 35.0 * math.log10(80.0)
    noise_dbm = -174.0 + 7.0 + 10.0 * math.log10(20e6)
    for rates, tx_dbm in ((down, 20.0), (up, 16.0)):
        snr = 10.0 ** ((tx_dbm - loss_db - noise_dbm) / 10.0)
        by_hand = 0.5 * 20e6 * math.log2(1.0 + snr / 10.0**0.3)
        assert rates == pytest.approx([by_hand] * 3, rel=1e-9)
        assert by_hand < 20e6


def test_near_it_the_modem_and_the_line_are_the_limits() -> None:
    down, up = at_distance(2.0).rates_bit_per_s(seed=SEED, size=2)

    assert down.tolist() == pytest.approx([0.5 * 72.2e6] * 2)
    assert up.tolist() == [20e6, 20e6]


def test_shares_of_the_airtime_are_uniform_and_shadows_are_the_same_both_ways() -> None:
    settings = IndoorWifiSettings(radius_m=2.0, line_down_bit_per_s=None, line_up_bit_per_s=None)
    down, up = settings.rates_bit_per_s(seed=SEED, size=20_000)

    share = down / 72.2e6
    assert share.min() >= 0.4
    assert share.max() <= 0.8
    # The mean of 20,000 uniform draws on [0.4, 0.8] has a standard deviation of 0.0008.
    assert share.mean() == pytest.approx(0.6, abs=0.0035)
    assert (down == up).all()
    assert down.max() <= settings.top_bit_per_s


def test_a_client_has_the_same_rates_in_a_larger_fleet() -> None:
    settings = IndoorWifiSettings(radius_m=100.0)
    few, many = (settings.rates_bit_per_s(seed=SEED, size=size) for size in (5, 500))

    assert (few == many[:, :5]).all()
    assert len(set(few[0].tolist())) == 5


def test_no_client_is_on_wifi_that_was_not_built() -> None:
    channel = build_channel(FadingSettings(), seed=SEED, size=1, wired_bit_per_s=np.full(1, np.nan))

    with pytest.raises(ValueError, match="client 0 is on Wi-Fi"):
        channel.rate_at(0, Direction.UP, 9.0, on_wifi=True)


def test_the_fastest_uplink_of_the_radio_limits_a_cell() -> None:
    channel = build_channel(
        FadingSettings(cell_radius_m=10.0, bandwidth_hz=100e6),
        seed=SEED,
        size=50,
        wired_bit_per_s=np.full(50, np.nan),
        radio=load_radio("lte"),
    )

    assert max(channel.rate_at(c, Direction.UP, 0.0) for c in range(50)) == pytest.approx(59.5e6)
