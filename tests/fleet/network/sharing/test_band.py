"""Rates over parts of a cell's band."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.fleet.network.sharing.band import Band

BAND_HZ = 10e6
CAP = 5.5547
UP, DOWN = (Band(BAND_HZ, is_up=is_up, most_bit_per_s_per_hz=CAP) for is_up in (True, False))

PER_HZ = st.floats(1e-9, CAP)
PART = st.floats(1e-6, 1.0)


def carried(band: Band, per_hz: float, part: float) -> float:
    return float(band.rates_bit_per_s(np.array([per_hz * BAND_HZ]), np.array([part]))[0])


def test_a_far_phone_loses_little_by_a_narrow_part() -> None:
    """At a ratio of -20 dB over the band a tenth of it has -10 dB: 96 % of the rate."""
    whole = BAND_HZ * math.log2(1.01)

    assert carried(UP, whole / BAND_HZ, 0.1) == pytest.approx(0.1 * BAND_HZ * math.log2(1.1))
    assert carried(UP, whole / BAND_HZ, 0.1) / whole == pytest.approx(0.958, abs=1e-3)
    assert carried(DOWN, whole / BAND_HZ, 0.1) == pytest.approx(0.1 * whole)


def test_a_near_phone_is_limited_by_its_fastest_modulation() -> None:
    assert carried(UP, CAP, 0.25) == pytest.approx(0.25 * CAP * BAND_HZ)


def test_below_a_resource_block_clients_take_turns() -> None:
    block = 180e3 / BAND_HZ

    assert carried(UP, 0.01, block / 4) == pytest.approx(carried(UP, 0.01, block) / 4)


def test_a_band_narrower_than_a_resource_block_is_shared_by_turns() -> None:
    narrow = Band(15e3, is_up=True)

    rate = narrow.rates_bit_per_s(np.array([15e3]), np.array([0.5]))
    assert rate == pytest.approx([7.5e3])


@given(PER_HZ, PART, PART)
def test_larger_parts_carry_more_and_less_each(per_hz: float, one: float, other: float) -> None:
    small, large = sorted((one, other))
    less, more = carried(UP, per_hz, small), carried(UP, per_hz, large)

    assert less <= more * (1 + 1e-12)
    assert less / small >= more / large * (1 - 1e-9)


@given(PER_HZ, PER_HZ, PART)
def test_a_better_link_carries_more(one: float, other: float, part: float) -> None:
    worse, better = sorted((one, other))

    assert carried(UP, worse, part) <= carried(UP, better, part) * (1 + 1e-12)


@given(PER_HZ, PART, st.sampled_from([UP, DOWN]))
def test_parts_are_the_inverse_of_rates(per_hz: float, part: float, band: Band) -> None:
    whole = np.array([per_hz * BAND_HZ])
    rate = band.rates_bit_per_s(whole, np.array([part]))
    found = band.parts(whole, rate)

    assert band.rates_bit_per_s(whole, found) == pytest.approx(rate, rel=1e-9)
    assert found[0] <= part * (1 + 1e-6)  # the least that carries it


def test_the_whole_band_is_the_whole_rate_to_the_last_bit() -> None:
    whole = np.random.default_rng(1).uniform(0.0, CAP * BAND_HZ, 1000)

    assert UP.rates_bit_per_s(whole, np.ones(1000)).tolist() == whole.tolist()
    assert UP.parts(whole, whole).tolist() == [1.0] * 1000


def test_rate_zero_needs_no_part() -> None:
    assert UP.parts(np.array([0.0, 1e6]), np.zeros(2)).tolist() == [0.0, 0.0]
