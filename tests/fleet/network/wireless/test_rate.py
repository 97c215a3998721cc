from __future__ import annotations

import math

import numpy as np
import pytest

from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.rate import Modem

DOWN, UP = Direction.DOWN, Direction.UP
SNR = np.array([0.0, 1.0, 3.0, 15.0, 1023.0])  # log2(1 + snr) is 0, 1, 2, 4, 10


def test_without_losses_the_rate_is_shannons_in_the_band_of_the_direction() -> None:
    modem = Modem((2e6, 1e6))

    assert modem.rates_bit_per_s(DOWN, SNR) == pytest.approx([0.0, 2e6, 4e6, 8e6, 20e6])
    assert modem.rates_bit_per_s(UP, SNR) == pytest.approx([0.0, 1e6, 2e6, 4e6, 10e6])


def test_a_gap_divides_the_signal() -> None:
    modem = Modem((1e6, 1e6), gap=3.0)

    assert modem.rates_bit_per_s(UP, SNR[2:4]) == pytest.approx([1e6, 1e6 * math.log2(6.0)])


def test_no_rate_is_above_the_cap() -> None:
    modem = Modem((2e6, 1e6), cap_bit_per_s_per_hz=3.0)

    assert modem.rates_bit_per_s(DOWN, SNR) == pytest.approx([0.0, 2e6, 4e6, 6e6, 6e6])


def test_a_modem_has_a_fastest_rate_of_its_own_in_each_direction() -> None:
    modem = Modem((2e6, 2e6), cap_bit_per_s_per_hz=3.0, most_bit_per_s=(5e6, math.inf))

    assert modem.rates_bit_per_s(DOWN, SNR) == pytest.approx([0.0, 2e6, 4e6, 5e6, 5e6])
    assert modem.rates_bit_per_s(UP, SNR) == pytest.approx([0.0, 2e6, 4e6, 6e6, 6e6])


def test_what_is_slower_than_the_slowest_modulation_is_lost() -> None:
    modem = Modem((2e6, 1e6), outage_bit_per_s_per_hz=1.5)

    assert modem.rates_bit_per_s(UP, SNR).tolist()[:2] == [0.0, 0.0]
    assert modem.rates_bit_per_s(UP, SNR)[2:] == pytest.approx([2e6, 4e6, 10e6])


def test_a_cap_on_the_threshold_gets_through() -> None:
    modem = Modem((0.7e6, 0.7e6), cap_bit_per_s_per_hz=2.3, outage_bit_per_s_per_hz=2.3)

    assert modem.rates_bit_per_s(UP, SNR).tolist() == [0.0, 0.0, 0.0, 2.3 * 0.7e6, 2.3 * 0.7e6]


def test_the_ratios_that_are_asked_for_are_left_alone() -> None:
    snr = SNR.copy()
    Modem((1e6, 1e6), 2.0, 3.0, outage_bit_per_s_per_hz=1.0).rates_bit_per_s(UP, snr)

    assert snr.tolist() == SNR.tolist()
