"""Set-up and slow start of transfers: worked examples, closed form, properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.arrivals import Arrivals, SuccessSettings, build_arrivals
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import ConstantSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.transport import (
    NoTransportSettings,
    RateCaps,
    TcpSettings,
    capped_steps,
)
from tests.fleet.closed_transfers import transfer_s
from tests.theory.intervals import assert_share, assert_uncorrelated

# A first window of 1000 bytes = 8000 bit and a receive window of 8 of them: rounds of 1, 2, 4, 8.
SMALL = TcpSettings(initial_window_segments=10, segment_byte=100, receive_window_byte=8_000)
FIRST_BIT = 8_000.0
UP = Direction.UP


def caps_of(settings: TcpSettings, rtt_s: float, rows: int = 1) -> RateCaps:
    caps = settings.rate_caps(np.full(rows, rtt_s))
    assert caps is not None
    return caps


def capped(edges_s, rates, start_s, caps) -> tuple[FloatArray, FloatArray]:
    """Edges and rates of one link."""
    edges, link = np.array([edges_s]), np.array([rates])
    new_edges, new_rates, _ = capped_steps(edges, link, np.array([start_s]), caps)
    return new_edges[0], new_rates[0]


def seconds(settings: TcpSettings, rtt_s: float, bit: float, rate_bit_per_s: float) -> float:
    """Time of a transfer at a constant rate."""
    return float(
        transfer_s(settings, np.array([rtt_s]), np.array([bit]), np.array([rate_bit_per_s]))[0]
    )


def test_defaults_are_the_first_window_of_rfc_6928_and_a_new_tls_connection():
    settings = TcpSettings()
    assert settings.initial_window_bit == 14_600 * 8
    assert caps_of(settings, 0.05).offsets_s[0, 1] == pytest.approx(0.15)
    # 14,600 * 2^9 = 7,475,200 is below 8,388,608, twice that is not: rounds 0 to 9.
    assert settings.num_rounds == 10


@pytest.mark.parametrize(
    ("changed", "setup_s", "last_bit_per_s"),
    [
        ({}, 0.3, 640e3),
        # A window between two doublings; a kept connection, which waits for the request alone.
        ({"receive_window_byte": 5_000}, 0.3, 400e3),
        ({"handshake_round_trips": 0.0}, 0.1, 640e3),
    ],
)
def test_steps_are_the_set_up_the_rounds_and_the_receive_window(changed, setup_s, last_bit_per_s):
    caps = caps_of(SMALL.model_copy(update=changed), 0.1)
    ends_s = [0.0, *(setup_s + late for late in (0.0, 0.1, 0.2, 0.3)), math.inf]
    assert caps.offsets_s[0].tolist() == pytest.approx(ends_s)
    expected = [0.0, 80e3, 160e3, 320e3, last_bit_per_s]
    assert caps.cap_bit_per_s[0].tolist() == pytest.approx(expected)


def test_without_a_round_trip_time_nothing_is_capped():
    assert caps_of(SMALL, 0.0).offsets_s[0, :-1].tolist() == [0.0] * 5
    assert seconds(SMALL, 0.0, 1e6, 5e6) == 0.2
    assert NoTransportSettings().rate_caps(np.array([0.1])) is None


def test_whole_rounds_are_the_loss_free_slow_start_of_cardwell() -> None:
    # E[T_ss] = T log2(S / W0 + 1) for a growth of 2 (INFOCOM 2000), at whole rounds.
    settings = TcpSettings(receive_window_byte=1 << 30)
    for rounds in range(1, 12):
        bit = settings.initial_window_bit * (2**rounds - 1)
        expected_s = 0.06 * math.log2(bit / settings.initial_window_bit + 1.0)
        assert seconds(settings, 0.06, bit, 1e15) - 0.18 == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("settings", "rtt_s", "bit", "rate_bit_per_s", "expected_s"),
    [
        # 15 kbit/s for 70 ms is less than a segment: the first window hides slow start.
        (TcpSettings(), 0.07, 6e6, 15e3, 0.21 + 400.0),
        # A model of 800 kB takes 64 ms at 100 Mbit/s. At 75 ms the pipe holds 7.5 Mbit: windows of
        # 0.1168 Mbit times 1, 2, ... 32 move 7.3584 Mbit in six rounds; after five, 3.6208 Mbit.
        # The rest, 2.7792 Mbit, is 0.7436 of the sixth round: 13 times as long.
        (TcpSettings(), 0.075, 6.4e6, 100e6, 0.075 * (3.0 + 5.0 + 2.7792 / 3.7376)),
        # At 0.1 s and 200 kbit/s the link holds 20,000 bit: it ends rounds of 8,000 and 16,000.
        (SMALL, 0.1, 24_000 + 50_000, 200e3, 0.3 + 0.2 + 0.25),
        # A link so fast that the windows alone decide, three round trips of set-up. What is sent by
        # the end of each round, in first windows: 1, 3, 7; then 8 each round.
        (SMALL, 0.1, 0.25 * FIRST_BIT, 1e12, 0.3 + 0.025),
        (SMALL, 0.1, 2.0 * FIRST_BIT, 1e12, 0.3 + 0.15),
        (SMALL, 0.1, 23.0 * FIRST_BIT, 1e12, 0.3 + 0.5),
    ],
)
def test_a_transfer_by_hand(settings, rtt_s, bit, rate_bit_per_s, expected_s):
    assert seconds(settings, rtt_s, bit, rate_bit_per_s) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("rtt_s", "start_s", "edges_s", "link", "new_edges_s", "rates"),
    [
        (0.0, 1.0, [1, 3], [5e6], [1, 3], [5e6]),
        # Starts at 10; set-up to 10.3, 80 kbit/s to 10.4, 160 to 10.5, 320 to 10.6, then 640.
        # The link: 100 kbit/s to 10.45, then 1 Mbit/s to 12.
        (
            *(0.1, 10.0, [10, 10.45, 12], [100e3, 1e6]),
            *([10, 10.3, 10.4, 10.45, 10.5, 10.6, 12], [0, 80e3, 100e3, 160e3, 320e3, 640e3]),
        ),
        # Flows ask for the steps around a moment; the transfer began at 4.75, before it.
        (0.1, 4.75, [5, 6, math.inf], [70e3, 70e3], [5, 5.05, 6, math.inf], [0, 70e3, 70e3]),
        # Before the first moment nothing moves.
        (0.1, 2.0, [0, 9], [1e3], [0, 2.3, 9], [0, 1e3]),
    ],
)
def test_caps_meet_a_link_that_changes(rtt_s, start_s, edges_s, link, new_edges_s, rates):
    new_edges, new_rates = capped(edges_s, link, start_s, caps_of(SMALL, rtt_s))

    assert new_edges.tolist() == pytest.approx(new_edges_s)
    assert new_rates.tolist() == pytest.approx(rates)


def test_a_receive_window_below_the_first_window_is_refused():
    with pytest.raises(ValidationError, match="less than the first window"):
        TcpSettings(initial_window_segments=100, segment_byte=1460, receive_window_byte=100_000)


SHARE = st.floats(0.01, 1.0)


@given(
    settings=st.sampled_from([SMALL, TcpSettings(), TcpSettings(handshake_round_trips=0.0)]),
    start_s=st.floats(0.0, 1e4),
    rate=st.floats(1e3, 1e10),
    bit=st.floats(1.0, 1e9),
    rtt_s=st.floats(1e-4, 2.0),
    shares=st.tuples(SHARE, SHARE, SHARE),
)
def test_a_transfer_takes_its_closed_form_and_never_longer_on_a_better_link(
    settings, start_s, rate, bit, rtt_s, shares
):
    """Four rows: as given; with a share of the bits; at a faster rate; at a shorter round trip.

    Every cap rises as the round trip gets shorter: the set-up ends earlier, a moment lies in the
    same or a later round, and its window takes less time. So at each moment the rate, the smaller
    of cap and link, is no less in rows 2 and 3, and they end no later. Rounding of their edges may
    add some ulps. Row 1 has the very steps of row 0, where each operation on the bits is monotone:
    there it is exact.
    """
    fewer, faster, shorter = shares
    rates, rtts_s = rate * np.array([1, 1, 1 / faster, 1]), rtt_s * np.array([1, 1, 1, shorter])
    bits = bit * np.array([1, fewer, 1, 1])
    link = ConstantSettings(down_bit_per_s=1.0, up_bit_per_s=1.0, give_up_s=1e9)
    channel = build_channel(link, seed=1, size=4, wired_bit_per_s=rates)
    starts_s, power = np.full(4, start_s), RadioPower.line(np.zeros(4), np.zeros(4))
    caps = settings.rate_caps(rtts_s)
    ((_, timelines),) = channel.transfers(np.arange(4), UP, starts_s, bits, power, caps=caps)
    end_s, rounding_s = timelines.end_s, 1e-12 * timelines.end_s[0]

    expected_s = transfer_s(settings, rtts_s, bits, rates)
    assert end_s - start_s == pytest.approx(expected_s, rel=1e-9, abs=rounding_s)
    assert end_s[1] <= end_s[0]
    assert (end_s[2:] <= end_s[0] + rounding_s).all()


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(1e-3, 0.5), st.floats(0.0, 1e6)), min_size=1, max_size=8),
    st.floats(0.0, 0.3),
    st.floats(1e-3, 0.3),
)
def test_capped_rates_are_the_smaller_at_every_moment(steps, offset_s, rtt_s):
    edges = np.concatenate([[0.0], np.cumsum([length for length, _ in steps])])
    rates = np.array([rate for _, rate in steps])
    caps, start_s = caps_of(SMALL, rtt_s), min(offset_s, 0.9 * float(edges[-1]))
    new_edges, new_rates = capped(edges.tolist(), rates.tolist(), start_s, caps)
    assert (np.diff(new_edges) > 0.0).all()
    assert (new_edges[0], new_edges[-1]) == (edges[0], edges[-1])
    assert new_rates.size >= rates.size
    for moment in (new_edges[:-1] + new_edges[1:]) / 2.0:
        link = rates[np.searchsorted(edges, moment, side="right") - 1]
        since_s = moment - start_s
        step = int(np.searchsorted(caps.offsets_s[0], since_s, side="right")) - 1
        cap = caps.cap_bit_per_s[0, step] if since_s >= 0.0 else 0.0
        expected = min(link, cap)
        got = new_rates[np.searchsorted(new_edges, moment, side="right") - 1]
        assert got == expected


RTT_S = st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.2, 0.7])


@given(RTT_S, RTT_S)
def test_a_row_does_not_depend_on_the_others(first_s, second_s):
    caps = SMALL.rate_caps(np.array([first_s, second_s]))
    edges = np.array([[0.0, 0.2, 5.0], [0.0, 0.4, 5.0]])
    rates, start_s = np.array([[1e5, 3e5], [2e5, 1e6]]), np.array([0.0, 0.1])
    both_edges, both_rates, _ = capped_steps(edges, rates, start_s, caps)
    for row in range(2):
        one = np.array([row])
        alone_edges, alone_rates, _ = capped_steps(
            edges[one], rates[one], start_s[one], caps.take(one)
        )
        num = alone_rates.shape[1]
        assert both_edges[row, : num + 1].tolist() == alone_edges[0].tolist()
        assert both_rates[row, :num].tolist() == alone_rates[0].tolist()
        assert not both_rates[row, num:].any()


def test_further_exchanges_delay_the_first_payload_by_a_round_trip_each():
    """One row without and one with two exchanges of .1 s; the caps stay the same."""
    settings = TcpSettings()
    caps = settings.rate_caps(np.array([0.1, 0.1]), np.array([0, 2]))
    later_s = caps.offsets_s[1, 1:-1] - caps.offsets_s[0, 1:-1]

    assert later_s == pytest.approx(0.2)
    assert caps.offsets_s[1, 0] == 0.0
    assert np.array_equal(caps.cap_bit_per_s[0], caps.cap_bit_per_s[1])


SIZE = 42_000
CLIENTS = np.arange(SIZE)
THETAS = (1.0, 0.75, 0.5)
SHARES = (0.5, 0.3, 0.2)


def arrivals_of(*pairs: tuple[float, float], size: int = SIZE, seed: int = 3) -> Arrivals:
    successes = [SuccessSettings(probability=theta, share=share) for theta, share in pairs]
    arrivals = build_arrivals(successes, seed=seed, size=size)
    assert arrivals is not None
    return arrivals


def mixed(size: int = SIZE) -> Arrivals:
    return arrivals_of(*zip(THETAS, SHARES, strict=True), size=size)


def arrive(arrivals: Arrivals, *address: int) -> np.ndarray:
    return arrivals.of(CLIENTS, [address] * SIZE)


def test_each_share_of_the_clients_has_its_probability_and_uploads_arrive_as_often():
    arrivals = mixed()
    arrived = arrive(arrivals, 0, 7)

    for theta, share in zip(THETAS, SHARES, strict=True):
        assert_share(arrivals.probability == theta, share, within=0.05)
    assert arrived[arrivals.probability == 1.0].all()
    for theta in THETAS[1:]:
        assert_share(arrived[arrivals.probability == theta], theta, within=0.05)


@pytest.mark.slow
def test_uploads_of_one_client_are_independent():
    arrivals = arrivals_of((0.5, 1.0))
    first, second = (2.0 * arrive(arrivals, 0, number) for number in (1, 2))

    assert_uncorrelated(first, second)


def test_what_becomes_of_an_upload_depends_on_its_address_alone():
    arrivals = mixed()
    addresses = [(0, index % 5) for index in range(500)]
    together = arrivals.of(CLIENTS[:500], addresses)

    for client in (0, 17, 499):
        alone = arrivals.of(np.array([client]), [addresses[client]])
        assert alone.tolist() == [together[client]]


def test_a_client_has_the_same_probability_in_a_larger_fleet():
    assert mixed(1000).probability[:9].tolist() == mixed(9).probability.tolist()


def test_nothing_is_drawn_where_every_upload_succeeds():
    sure = [SuccessSettings(probability=1.0, share=share) for share in (0.4, 0.6)]

    assert build_arrivals(sure, seed=1, size=5) is None
    assert arrivals_of((1.0, 0.9), (0.5, 0.1)) is not None
