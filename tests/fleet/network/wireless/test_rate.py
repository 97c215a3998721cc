import math

import numpy as np
import pytest

from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.rate import Modem

DOWN, UP = Direction.DOWN, Direction.UP
SNR = np.array([0.0, 1.0, 3.0, 15.0, 1023.0])  # log2(1 + snr) is 0, 1, 2, 4, 10


BANDS = (2e6, 1e6)
FAST = Modem((2e6, 2e6), cap_bit_per_s_per_hz=3.0, most_bit_per_s=(5e6, math.inf))


@pytest.mark.parametrize(
    ("modem", "way", "expected"),
    [
        # Shannon's in the band of the direction
        (Modem(BANDS), DOWN, [0.0, 2e6, 4e6, 8e6, 20e6]),
        (Modem(BANDS), UP, [0.0, 1e6, 2e6, 4e6, 10e6]),
        # A gap divides the signal.
        (Modem(BANDS, gap=3.0), UP, [1e6 * math.log2(1.0 + snr / 3.0) for snr in SNR]),
        (Modem(BANDS, cap_bit_per_s_per_hz=3.0), DOWN, [0.0, 2e6, 4e6, 6e6, 6e6]),
        # A fastest rate of its own in each direction, and a slowest modulation
        (FAST, DOWN, [0.0, 2e6, 4e6, 5e6, 5e6]),
        (FAST, UP, [0.0, 2e6, 4e6, 6e6, 6e6]),
        (Modem(BANDS, outage_bit_per_s_per_hz=1.5), UP, [0.0, 0.0, 2e6, 4e6, 10e6]),
    ],
)
def test_rates_are_shannons_less_gap_caps_and_outage(modem, way, expected):
    assert modem.rates_bit_per_s(way, SNR) == pytest.approx(expected)


def test_a_cap_on_the_threshold_gets_through() -> None:
    modem = Modem((0.7e6, 0.7e6), cap_bit_per_s_per_hz=2.3, outage_bit_per_s_per_hz=2.3)

    assert modem.rates_bit_per_s(UP, SNR).tolist() == [0.0, 0.0, 0.0, 2.3 * 0.7e6, 2.3 * 0.7e6]
