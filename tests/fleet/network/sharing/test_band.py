"""Rates over parts of a cell's band."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.fleet.network.sharing.band import Band
from fleetsim.fleet.network.wireless.rate import nr_64qam

BAND_HZ = 10e6
CAP = 5.5547
UP, DOWN = (Band(BAND_HZ, is_up=is_up, most_bit_per_s_per_hz=CAP) for is_up in (True, False))
STEPS = nr_64qam(0.1, math.inf, 1.0)
UP_STEPS, DOWN_STEPS = (Band(BAND_HZ, is_up, modulations=STEPS) for is_up in (True, False))

PER_HZ = st.floats(1e-9, CAP)
PART = st.floats(1e-6, 1.0)
LINKS = st.tuples(st.sampled_from([UP, DOWN]), PER_HZ) | st.tuples(
    st.sampled_from([UP_STEPS, DOWN_STEPS]), st.floats(1e-9, 13.0)
)
"""Bands, and Shannon's rates per hertz of links in them."""


def carried(band: Band, per_hz: float, part: float) -> float:
    return float(band.rates_bit_per_s(np.array([per_hz * BAND_HZ]), np.array([part]))[0])


def test_a_far_phone_loses_little_by_a_narrow_part() -> None:
    """At a ratio of -20 dB over the band a tenth of it has -10 dB: 96 % of the rate."""
    whole = BAND_HZ * math.log2(1.01)

    assert carried(UP, whole / BAND_HZ, 0.1) == pytest.approx(0.1 * BAND_HZ * math.log2(1.1))
    assert carried(UP, whole / BAND_HZ, 0.1) / whole == pytest.approx(0.958, abs=1e-3)
    assert carried(DOWN, whole / BAND_HZ, 0.1) == pytest.approx(0.1 * whole)


def test_below_a_resource_block_clients_take_turns() -> None:
    block = 180e3 / BAND_HZ

    assert carried(UP, 0.01, block / 4) == pytest.approx(carried(UP, 0.01, block) / 4)


def test_a_band_narrower_than_a_resource_block_is_shared_by_turns() -> None:
    narrow = Band(15e3, is_up=True)

    rate = narrow.rates_bit_per_s(np.array([15e3]), np.array([0.5]))
    assert rate == pytest.approx([7.5e3])


@given(LINKS, PART, PART)
def test_larger_parts_carry_more_and_less_each(link, one, other) -> None:
    small, large = sorted((one, other))
    less, more = carried(*link, small), carried(*link, large)

    assert less <= more * (1 + 1e-12)
    assert less / small >= more / large * (1 - 1e-9)


@given(PER_HZ, PER_HZ, PART)
def test_a_better_link_carries_more(one: float, other: float, part: float) -> None:
    worse, better = sorted((one, other))

    assert carried(UP, worse, part) <= carried(UP, better, part) * (1 + 1e-12)


@given(LINKS, PART)
def test_parts_are_the_inverse_of_rates(link: tuple[Band, float], part: float) -> None:
    band, per_hz = link
    whole = np.array([per_hz * BAND_HZ])
    rate = band.rates_bit_per_s(whole, np.array([part]))
    found = band.parts(whole, rate)

    assert band.rates_bit_per_s(whole, found) == pytest.approx(rate, rel=1e-9)
    assert found[0] <= part * (1 + 1e-6)  # the least that carries it


def test_a_narrower_part_lets_a_far_phone_take_a_faster_step() -> None:
    """At 0.2 dB over the band (MCS 4) half of it has 3.21 dB: MCS 6 there, less a tenth."""
    per_hz = math.log2(1.0 + 10.0**0.02)

    assert carried(UP_STEPS, per_hz, 1.0) == pytest.approx(0.9 * 0.6015625 * BAND_HZ)
    assert carried(UP_STEPS, per_hz, 0.5) == pytest.approx(
        0.9 * BAND_HZ * max(0.5 * 0.876953125, 1.02734375 * 10.0**0.02 / STEPS.least_snr[7])
    )
    assert carried(DOWN_STEPS, per_hz, 0.5) == pytest.approx(0.9 * 0.5 * 0.6015625 * BAND_HZ)


def test_the_whole_band_is_the_whole_rate_to_the_last_bit() -> None:
    whole = np.random.default_rng(1).uniform(0.0, CAP * BAND_HZ, 1000)

    assert UP.rates_bit_per_s(whole, np.ones(1000)).tolist() == whole.tolist()
    assert UP.parts(whole, whole).tolist() == [1.0] * 1000


def test_rate_zero_needs_no_part() -> None:
    assert UP.parts(np.array([0.0, 1e6]), np.zeros(2)).tolist() == [0.0, 0.0]
