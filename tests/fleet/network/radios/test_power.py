"""Power of busy radios by rate: the line, and sleep between packets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.fleet.network.channels import (
    ConstantSettings,
    FadingSettings,
    NormalisedSettings,
    TraceSettings,
)
from fleetsim.fleet.network.channels.settings import TransferSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.fleet_radios import cellular_radio
from fleetsim.fleet.network.radios.power import RadioPower, power_of

CONSTANT = ConstantSettings(down_bit_per_s=1e6, up_bit_per_s=1e6)
LTE_UP = power_of([cellular_radio(CONSTANT)], Direction.UP)


def watts(radio: RadioPower, *rates_bit_per_s: float) -> list[float]:
    return list(radio.at(np.array([rates_bit_per_s]))[0])


def test_a_slow_transfer_lets_lte_sleep_between_its_packets() -> None:
    """15 kbit/s: a packet of 11,680 bits every 0.779 s, after each of which it is awake for 0.1 s.

    So it is awake for 15 / 116.8 of the time, at 0.543 W, and else draws the 0.122 W of the tail.
    """
    awake = 0.1 / (11_680 / 15e3)
    assert awake == pytest.approx(15 / 116.8)
    expected_w = 0.543 * awake + 0.122 * (1 - awake) + 79.53e-9 * 15e3
    assert watts(LTE_UP, 15e3) == pytest.approx([expected_w])
    assert 400.0 * watts(LTE_UP, 15e3)[0] < 71.0  # 218 J if it never slept


def test_fast_transfers_and_those_that_stand_still_keep_lte_awake() -> None:
    lte = power_of([cellular_radio(CONSTANT)], Direction.DOWN)

    rates = np.array([0.0, 116.8e3, 1e6, 20e6])
    assert watts(lte, *rates) == pytest.approx(0.369 + 15.02e-9 * rates)


@pytest.mark.parametrize(
    "channel",
    [FadingSettings(), NormalisedSettings(), TraceSettings(trace="norway-3g")],
    ids=lambda channel: channel.kind,
)
def test_in_a_cell_packets_wait_for_the_air_and_no_radio_sleeps(channel: TransferSettings) -> None:
    lte = power_of([cellular_radio(channel)], Direction.DOWN)

    assert watts(lte, 15e3) == pytest.approx([0.369 + 15.02e-9 * 15e3])


def test_3g_stays_awake_between_packets() -> None:
    radio = cellular_radio(CONSTANT.model_copy(update={"metered_radio": "3g"}))
    slow = power_of([radio], Direction.UP)

    assert watts(slow, 1e3) == pytest.approx([0.81788 + 868.98e-9 * 1e3])


@given(
    busy_w=st.floats(0.1, 5.0),
    saved=st.floats(0.0, 1.0),
    awake_bit_per_s=st.floats(1e3, 1e7),
    rates=st.lists(st.floats(1.0, 1e8), min_size=2, max_size=8).map(sorted),
)
def test_power_never_falls_with_the_rate_and_lies_below_the_line(
    busy_w: float, saved: float, awake_bit_per_s: float, rates: list[float]
) -> None:
    radio = RadioPower(*np.array([[busy_w], [1e-8], [saved * busy_w], [awake_bit_per_s]]))

    drawn_w = np.array(watts(radio, *rates))
    line_w = np.array(watts(RadioPower.line(radio.busy_w, radio.j_per_bit), *rates))
    assert (np.diff(drawn_w) >= -1e-12).all()
    assert (drawn_w <= line_w + 1e-12).all()
    assert (drawn_w >= line_w - saved * busy_w - 1e-12).all()


@given(multiple=st.floats(0.01, 100.0), rate_bit_per_s=st.floats(1e-3, 1e7))
def test_divided_rates_draw_the_same(multiple: float, rate_bit_per_s: float) -> None:
    divided = LTE_UP.at_multiples(np.array([multiple]))

    assert watts(divided, rate_bit_per_s / multiple) == pytest.approx(watts(LTE_UP, rate_bit_per_s))
