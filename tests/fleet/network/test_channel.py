import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fleetsim import rng
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channel import Channel, build_channel
from fleetsim.fleet.network.channels import ChannelSettings, ConstantSettings, FadingSettings
from fleetsim.fleet.network.direction import Direction
from tests.fleet.alone import transfer
from tests.fleet.one_timeline import Timeline

DOWN, UP = Direction.DOWN, Direction.UP
RADIO = RadioProfile(
    name="test",
    receive_j_per_bit=2e-8,
    receive_w=0.3,
    transmit_j_per_bit=7e-8,
    transmit_w=0.8,
    tail_w=1.0,
    tail_s=5.0,
)
SEED = 11
ALL_WIRELESS = np.full(4, np.nan)


def fading(**settings: Any) -> Channel:
    return build_channel(
        FadingSettings(**settings), seed=SEED, size=4, wired_bit_per_s=ALL_WIRELESS
    )


def at_distance(distance_m: float, **settings: Any) -> Channel:
    return fading(min_distance_m=distance_m, cell_radius_m=distance_m, **settings)


def gain_from_words(client: int, direction: Direction, block: int) -> float:
    words = rng.words_of_many(SEED, "fading", [client], [block], 1)[0, 0]
    uniform = (int(words[0 if direction is DOWN else 1]) >> 11) / 2**53
    return -math.log(1.0 - uniform)


def slow_finish(channel, client, direction, start_s, bit, block_s) -> tuple[float, float]:
    """End and joules of a transfer by walking `rate_at` in steps that stop at every block edge."""
    base_w, per_bit = (0.3, 2e-8) if direction is DOWN else (0.8, 7e-8)
    t_s, left_bit, energy_j = start_s, bit, 0.0
    block = math.floor(start_s / block_s)
    while True:
        for quarter in (0.25, 0.5, 0.75, 1.0):
            until_s = (block + quarter) * block_s
            if until_s <= t_s:
                continue
            rate = channel.rate_at(client, direction, 0.5 * (t_s + until_s))
            step_s = until_s - t_s
            if rate > 0.0:
                step_s = min(step_s, left_bit / rate)
            energy_j += step_s * base_w + step_s * rate * per_bit
            left_bit -= step_s * rate
            if step_s < until_s - t_s:
                return t_s + step_s, energy_j
            t_s = until_s
        block += 1


def assert_well_formed(laid_out: Timeline) -> None:
    assert np.all(np.diff(laid_out.edges_s) > 0.0)
    assert np.all(np.diff(laid_out.progress) >= 0.0)
    assert laid_out.progress[0] == 0.0
    assert len(laid_out.power_w) == len(laid_out.edges_s) - 1


@pytest.mark.parametrize("direction", [DOWN, UP])
def test_rate_is_shannon_of_the_addressed_gain_and_the_link_budget(direction):
    channel = at_distance(
        200.0, bandwidth_hz=2e6, tx_power_dbm=20.0, server_tx_power_dbm=30.0, noise_figure_db=5.0
    )
    tx_dbm = 30.0 if direction is DOWN else 20.0
    noise_dbm = -174.0 + 10.0 * math.log10(2e6) + 5.0
    snr = 10.0 ** ((tx_dbm - (128.1 + 37.6 * math.log10(0.2)) - noise_dbm) / 10.0)
    gain = gain_from_words(2, direction, 9)

    assert channel.mean_snr(2, direction) == pytest.approx(snr, rel=1e-12)
    assert channel.rate_at(2, direction, 9.5) == pytest.approx(
        2e6 * math.log2(1.0 + gain * snr), rel=1e-12
    )


@pytest.mark.parametrize("block_s", [0.1, 1e-3, 0.7, 1.0])
@pytest.mark.parametrize("block", [1, 3, 5, 9, 17, 999_983, 10**9])
def test_a_block_begins_on_its_edge_and_not_before(block: int, block_s: float) -> None:
    # among them quotients t / block_s that round into the wrong block, such as 3 * 0.7 and just
    # below 17 * 0.1
    channel = fading(block_s=block_s)
    assert channel.cell is not None
    before, after = channel.cell.rates_bit_per_s(np.array([0]), DOWN, np.array([block - 1]), 2)[0]
    edge_s = block * block_s

    assert channel.rate_at(0, DOWN, edge_s) == after
    assert channel.rate_at(0, DOWN, math.nextafter(edge_s, 0.0)) == before


LOSSY = {"snr_gap_db": 3.0, "max_bit_per_s_per_hz": 4.0, "outage_bit_per_s_per_hz": 2.0}
LAWS: list[dict[str, Any]] = [
    {},
    {"fading": "rician", "rician_k": 3.0},
    {"fading": "nakagami", "nakagami_m": 0.5},
]


@pytest.mark.slow
@given(
    client=st.integers(0, 3),
    direction=st.sampled_from(Direction),
    start_s=st.floats(0.0, 1e5),
    bit=st.floats(1e4, 2e7),
    block_s=st.sampled_from([0.05, 0.3, 1.0, 20.0]),
    limits=st.sampled_from([{}, LOSSY]),
    law=st.sampled_from(LAWS),
)
def test_a_transfer_is_the_slow_integral(client, direction, start_s, bit, block_s, limits, law):
    channel = at_distance(900.0, bandwidth_hz=1e6, block_s=block_s, **limits, **law)
    laid_out = transfer(channel, client, direction, start_s, bit, RADIO)
    end_s, energy_j = slow_finish(channel, client, direction, start_s, bit, block_s)
    moved_bit, width_s = np.diff(laid_out.progress), np.diff(laid_out.edges_s)
    base_w, per_bit = (0.3, 2e-8) if direction is DOWN else (0.8, 7e-8)
    is_silent = laid_out.power_w == base_w

    assert_well_formed(laid_out)
    assert laid_out.is_complete
    assert laid_out.progress[-1] == bit
    assert laid_out.end_s - start_s == pytest.approx(end_s - start_s, rel=1e-9, abs=1e-9)
    assert laid_out.energy_until(math.inf) == pytest.approx(energy_j, rel=1e-9, abs=1e-9)
    assert np.all(moved_bit[is_silent] == 0.0)
    rates = (laid_out.power_w[~is_silent] - base_w) / per_bit
    assert not limits or np.all((rates > 1.999999e6) & (rates < 4.000001e6))
    assert moved_bit[~is_silent] == pytest.approx(rates * width_s[~is_silent], rel=1e-6, abs=1e-3)


def test_in_outage_for_good_a_transfer_is_given_up_with_nothing_done():
    channel = at_distance(900.0, fading="none", outage_bit_per_s_per_hz=100.0, give_up_s=50.0)
    laid_out = transfer(channel, 0, UP, 7.0, 1e6, RADIO)

    assert (laid_out.end_s, laid_out.is_complete) == (57.0, False)
    assert laid_out.progress.tolist() == [0.0, 0.0]
    assert laid_out.energy_until(math.inf) == pytest.approx(50.0 * 0.8)


def test_the_way_up_can_have_a_band_of_its_own():
    both = at_distance(300.0, fading="none", bandwidth_hz=1e7, up_bandwidth_hz=1e6)
    narrow = at_distance(300.0, fading="none", bandwidth_hz=1e6)
    wide = at_distance(300.0, fading="none", bandwidth_hz=1e7)

    assert both.rate_at(0, UP, 0.0) == narrow.rate_at(0, UP, 0.0)
    assert both.rate_at(0, DOWN, 0.0) == wide.rate_at(0, DOWN, 0.0)
    assert both.rate_at(0, UP, 0.0) < wide.rate_at(0, UP, 0.0)


def test_a_transfer_too_short_for_the_clock_still_takes_time():
    laid_out = transfer(at_distance(10.0), 0, DOWN, 1e12, 1e-6, RADIO)

    assert laid_out.end_s == math.nextafter(1e12, math.inf)
    assert laid_out.progress.tolist() == [0.0, 1e-6]


@pytest.mark.parametrize("start_s", [0.0, 40.0, 40.3])
@pytest.mark.parametrize("give_up_s", [0.2, 5.0, 5.6])
def test_a_transfer_that_takes_too_long_is_given_up(start_s, give_up_s):
    patient = at_distance(500.0)
    hasty = at_distance(500.0, give_up_s=give_up_s)
    whole = transfer(patient, 1, UP, start_s, 1e9, RADIO)
    cut = transfer(hasty, 1, UP, start_s, 1e9, RADIO)

    assert_well_formed(cut)
    assert not cut.is_complete
    assert cut.end_s == start_s + give_up_s
    assert cut.progress[-1] == pytest.approx(whole.progress_until(cut.end_s), rel=1e-12)
    assert cut.energy_until(1e9) == pytest.approx(whole.energy_until(cut.end_s), rel=1e-12)


def cable(bit_per_s: float, give_up_s: float) -> Channel:
    settings = FadingSettings(give_up_s=give_up_s)
    return build_channel(settings, seed=1, size=1, wired_bit_per_s=np.array([bit_per_s]))


def test_a_transfer_that_just_makes_it_is_complete():
    channel = cable(1e6, give_up_s=4.0)

    assert transfer(channel, 0, UP, 3.0, 4e6, RADIO).is_complete
    assert not transfer(channel, 0, UP, 3.0, 4e6 + 1.0, RADIO).is_complete


def test_rounding_never_ends_a_transfer_after_its_time():
    rate_bit_per_s, give_up_s = 7530302.0, 98.094
    bit = rate_bit_per_s * give_up_s

    assert bit / rate_bit_per_s > give_up_s  # what makes the case
    assert transfer(cable(rate_bit_per_s, give_up_s), 0, UP, 0.0, bit, RADIO).end_s == give_up_s


def test_a_constant_channel_has_one_rate_a_direction_but_leaves_wires_alone():
    settings = ConstantSettings(down_bit_per_s=4e6, up_bit_per_s=1e6, give_up_s=100.0)
    wired = np.array([np.nan, 2e6])
    channel = build_channel(settings, seed=1, size=2, wired_bit_per_s=wired)
    given_up = transfer(channel, 0, UP, 7.0, 2e8, RADIO)

    assert transfer(channel, 0, DOWN, 7.0, 8e6, RADIO).end_s == 9.0
    assert transfer(channel, 0, UP, 7.0, 8e6, RADIO).end_s == 15.0
    assert transfer(channel, 1, UP, 7.0, 8e6, RADIO).end_s == 11.0
    assert (given_up.end_s, given_up.progress[-1], given_up.is_complete) == (107.0, 1e8, False)
    assert math.isnan(channel.mean_snr(0, UP))


CAPPED = {"max_bit_per_s_per_hz": 1.0, "outage_bit_per_s_per_hz": 2.0}
HALF_OF_SOME = {"upload_success": [{"probability": 0.5, "share": 0.4}]}


@pytest.mark.parametrize(
    ("kind", "faulty", "message"),
    [
        ("fading", {"min_distance_m": 600.0}, "is beyond cell_radius_m = 500"),
        ("fading", {"give_up_s": 1e6, "block_s": 1e-3}, r"1e\+09 blocks"),
        ("fading", {"fading": "rician"}, "fading: rician needs rician_k"),
        ("fading", {"fading": "nakagami"}, "fading: nakagami needs nakagami_m"),
        ("fading", {"rician_k": 3.0}, "rician_k is of fading: rician, not of rayleigh"),
        ("normalised", {"nakagami_m": 2.0}, "nakagami_m is of fading: nakagami, not of rayleigh"),
        ("fading", CAPPED, "nothing gets through"),
        ("normalised", HALF_OF_SOME, "must sum to 1, they sum to 0.4"),
    ],
)
def test_faulty_settings_are_refused(kind, faulty, message):
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(ChannelSettings).validate_python({"kind": kind, **faulty})
