"""Power that a transmitter draws, by the power that it emits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import bundled
from fleetsim.fleet.devices.profile import AmplifierProfile, RadioProfile, duty_cycle, load_radio
from fleetsim.fleet.network.radios.power import amplifier_w, with_tx_power
from fleetsim.units import dbm_to_w

# 20 dBm are 0.1 W, which cost 0.4 W.
AMPLIFIER = AmplifierProfile(max_dbm=20.0, efficiency=0.25, full_bit_per_s=10e6)
CELLULAR = {
    name: load_radio(name) for name in bundled.names("radios") if name not in ("wifi", "wired")
}
# At 10 Mbit/s 0.5 + 1.0 W, of which the amplifier takes 0.4.
RADIO = RadioProfile("test", 1e-8, 0.3, 1e-7, 0.5, 0.1, 1.0, amplifier=AMPLIFIER)


@pytest.mark.parametrize(
    ("dbm", "watts"),
    # 10^-0.36 = 0.43652, its square 0.19055.
    [(20.0, 0.4), (10.0, 0.4 * 0.43652), (0.0, 0.4 * 0.19055)],
)
def test_a_tenth_of_the_power_costs_44_percent_of_the_watts(dbm: float, watts: float) -> None:
    assert amplifier_w(AMPLIFIER, dbm) == pytest.approx(watts, rel=1e-4)


@pytest.mark.parametrize(
    ("dbm", "bit_per_s", "watts"),
    [
        # At the power and rate of its figures a radio draws what its file says.
        (20.0, 10e6, 1.5),
        # 1 kbit/s: the file alone says 0.5001 W, the amplifier adds its 0.4 W.
        (20.0, 1e3, 0.9 + (1e-7 - 0.4 / 10e6) * 1e3),
        (0.0, 0.0, 0.5 + 0.4 * 0.19055),
        (0.0, 1e6, 0.5 + 0.4 * 0.19055 + (1e-7 - 4e-8) * 1e6),
    ],
)
def test_an_amplifier_is_on_all_the_time_and_less_power_costs_less(dbm, bit_per_s, watts):
    radio = with_tx_power(RADIO, dbm)

    assert radio.transmit_w + radio.transmit_j_per_bit * bit_per_s == pytest.approx(watts, rel=1e-5)
    assert (radio.receive_w, radio.receive_j_per_bit) == (0.3, 1e-8)


def test_a_radio_without_an_amplifier_stays_as_it_is() -> None:
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
