"""Power of busy radios by rate: the line, and sleep between packets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import bundled
from fleetsim.fleet.devices.profile import AmplifierProfile, RadioProfile, duty_cycle, load_radio
from fleetsim.fleet.network.channels import (
    ConstantSettings,
    FadingSettings,
    NormalisedSettings,
    TraceSettings,
)
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.fleet_radios import cellular_radio
from fleetsim.fleet.network.radio_power import RadioPower, amplifier_w, power_of, with_tx_power
from fleetsim.units import dbm_to_w

CONSTANT = ConstantSettings(down_bit_per_s=1e6, up_bit_per_s=1e6)
LTE_UP = power_of([cellular_radio(CONSTANT)], Direction.UP)


def watts(radio: RadioPower, *rates_bit_per_s: float) -> list[float]:
    return list(radio.at(np.array([rates_bit_per_s]))[0])


def test_a_slow_transfer_lets_lte_sleep_between_its_packets():
    """15 kbit/s: a packet of 11,680 bits every 0.779 s, after each of which it is awake for 0.1 s.

    So it is awake for 15 / 116.8 of the time, at 0.543 W, and else draws the 0.122 W of the tail.
    """
    awake = 0.1 / (11_680 / 15e3)
    assert awake == pytest.approx(15 / 116.8)
    expected_w = 0.543 * awake + 0.122 * (1 - awake) + 79.53e-9 * 15e3
    assert watts(LTE_UP, 15e3) == pytest.approx([expected_w])
    assert 400.0 * watts(LTE_UP, 15e3)[0] < 71.0  # 218 J if it never slept


IN_CELLS = [FadingSettings(), NormalisedSettings(), TraceSettings(trace="norway-3g")]
RADIO_3G = CONSTANT.model_copy(update={"metered_radio": "3g"})


@pytest.mark.parametrize(
    ("channel", "way", "rates_bit_per_s", "base_w", "j_per_bit"),
    [
        # Fast transfers keep LTE awake, and so do those that stand still; 3G never sleeps.
        (CONSTANT, Direction.DOWN, [0.0, 116.8e3, 1e6, 20e6], 0.369, 15.02e-9),
        (RADIO_3G, Direction.UP, [1e3], 0.81788, 868.98e-9),
        # In a cell packets wait for the air.
        *((channel, Direction.DOWN, [15e3], 0.369, 15.02e-9) for channel in IN_CELLS),
    ],
)
def test_a_radio_that_is_awake_draws_a_line(channel, way, rates_bit_per_s, base_w, j_per_bit):
    drawn_w = watts(power_of([cellular_radio(channel)], way), *rates_bit_per_s)

    assert drawn_w == pytest.approx(base_w + j_per_bit * np.array(rates_bit_per_s))


@given(
    busy_w=st.floats(0.1, 5.0),
    saved=st.floats(0.0, 1.0),
    awake_bit_per_s=st.floats(1e3, 1e7),
    rates=st.lists(st.floats(1.0, 1e8), min_size=2, max_size=8).map(sorted),
)
def test_power_rises_with_the_rate_and_lies_below_the_line(busy_w, saved, awake_bit_per_s, rates):
    radio = RadioPower(*np.array([[busy_w], [1e-8], [saved * busy_w], [awake_bit_per_s]]))

    drawn_w = np.array(watts(radio, *rates))
    line_w = np.array(watts(RadioPower.line(radio.busy_w, radio.j_per_bit), *rates))
    assert (np.diff(drawn_w) >= -1e-12).all()
    assert (drawn_w <= line_w + 1e-12).all()
    assert (drawn_w >= line_w - saved * busy_w - 1e-12).all()


# 20 dBm are 0.1 W, which cost 0.4 W.
AMPLIFIER = AmplifierProfile(max_dbm=20.0, efficiency=0.25, full_bit_per_s=10e6)
CELLULAR = {
    name: load_radio(name) for name in bundled.names("radios") if name not in ("wifi", "wired")
}
# At 10 Mbit/s 0.5 + 1.0 W, of which the amplifier takes 0.4.
RADIO = RadioProfile("test", 1e-8, 0.3, 1e-7, 0.5, 0.1, 1.0, amplifier=AMPLIFIER)


@pytest.mark.parametrize(
    ("dbm", "bit_per_s", "watts"),
    [
        # At the power and rate of its figures a radio draws what its file says.
        (20.0, 10e6, 1.5),
        # 1 kbit/s: the file alone says 0.5001 W, the amplifier adds its 0.4 W.
        (20.0, 1e3, 0.9 + (1e-7 - 0.4 / 10e6) * 1e3),
        # A hundredth of the power: 0.01^0.36 = 0.19055 of the amplifier's watts.
        (0.0, 0.0, 0.5 + 0.4 * 0.19055),
        (0.0, 1e6, 0.5 + 0.4 * 0.19055 + (1e-7 - 4e-8) * 1e6),
    ],
)
def test_an_amplifier_is_on_all_the_time_and_less_power_costs_less(dbm, bit_per_s, watts):
    radio = with_tx_power(RADIO, dbm)

    assert radio.transmit_w + radio.transmit_j_per_bit * bit_per_s == pytest.approx(watts, rel=1e-5)
    assert (radio.receive_w, radio.receive_j_per_bit) == (0.3, 1e-8)
    assert with_tx_power(load_radio("wired"), 60.0) == load_radio("wired")


@given(st.sampled_from(sorted(CELLULAR)), st.floats(-40.0, 23.0))
def test_a_bundled_radio_takes_more_than_it_emits_and_never_less_for_more(name, dbm):
    radio = CELLULAR[name]
    assert radio.amplifier is not None
    assert amplifier_w(radio.amplifier, dbm) > dbm_to_w(dbm)
    assert with_tx_power(radio, dbm).transmit_w <= with_tx_power(radio, 23.0).transmit_w
    assert 0.0 < with_tx_power(radio, dbm).transmit_j_per_bit < radio.transmit_j_per_bit


@given(st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(1e3, 1e9), st.floats(0.0, 1.0))
def test_a_duty_cycle_is_the_mean_of_its_two_states(connected_w, busy_w, full_bit_per_s, share):
    base_w, j_per_bit = duty_cycle(connected_w, busy_w, full_bit_per_s)
    drawn_w = base_w + j_per_bit * share * full_bit_per_s
    expected_w = share * busy_w + (1.0 - share) * connected_w
    assert drawn_w == pytest.approx(min(expected_w, busy_w), abs=1e-9)
