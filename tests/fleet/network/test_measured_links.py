import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.measured_links import milliseconds
from fleetsim.fleet.network.radio_power import RadioPower
from tests.fleet.alone import transfer
from tests.fleet.net_traces import NET_TRACES, channel_of, links, net_trace, walked
from tests.fleet.one_timeline import row_of

DOWN, UP = Direction.DOWN, Direction.UP
ROW = {DOWN: 0, UP: 1}
RADIO = RadioProfile("test", 2e-8, 0.3, 7e-8, 0.8, 1.0, 5.0)

# 10 s: 4 s at 1 Mbit/s, 3 s of tunnel, 3 s at 2 Mbit/s; up a tenth of it.
TUNNEL_ROWS = [(0, 1e6, 1e5), (4000, 0.0, 0.0), (7000, 2e6, 2e5)]
TUNNEL = net_trace([(10_000, TUNNEL_ROWS)])


@pytest.mark.parametrize("lap", [0, 1, 999_983, 10**9])
def test_a_rate_begins_on_its_edge_and_not_before_in_any_lap(lap):
    channel = channel_of(links(TUNNEL, shift="none"))
    edge_s = lap * 10.0 + 4.0

    assert channel.rate_at(0, DOWN, edge_s) == 0.0
    assert channel.rate_at(0, DOWN, math.nextafter(edge_s, 0.0)) == 1e6
    assert channel.rate_at(0, UP, edge_s + 3.0) == 2e5


@example(1001)  # 1.001 * 1000 is below 1001
@given(st.integers(0, 10**13))
def test_milliseconds_are_the_edges_at_or_before_a_moment(ms):
    edge_s = ms / 1000.0

    assert milliseconds(np.array([edge_s])).tolist() == [ms]
    assert milliseconds(np.array([math.nextafter(edge_s, 1e20)])).tolist() == [ms]
    assert milliseconds(np.array([math.nextafter(edge_s, -1.0)])).tolist() == [ms - 1]


def test_a_transfer_waits_out_the_tunnel():
    channel = channel_of(links(TUNNEL, shift="none"))

    # 1 Mbit until 4 s, nothing until 7 s, 6 Mbit until 10 s, 0.5 Mbit in the next lap.
    laid_out = transfer(channel, 0, DOWN, 3.0, 7.5e6, RADIO)

    assert laid_out.edges_s.tolist() == [3.0, 4.0, 7.0, 10.0, 10.5]
    assert laid_out.progress.tolist() == [0.0, 1e6, 1e6, 7e6, 7.5e6]
    assert laid_out.power_w == pytest.approx([0.3 + 0.02, 0.3, 0.3 + 0.04, 0.3 + 0.02])
    assert laid_out.is_complete


def test_steps_without_a_change_of_rate_are_one_segment():
    trace = net_trace([(9000, [(0, 1e6, 5e5), (1000, 1e6, 4e5), (2000, 1e6, 4e5)])])
    channel = channel_of(links(trace, shift="none"))

    assert transfer(channel, 0, DOWN, 0.0, 8e6, RADIO).power_w.size == 1
    assert transfer(channel, 0, UP, 0.0, 8e5, RADIO).power_w.size == 2


@pytest.mark.slow
@given(
    trace=NET_TRACES,
    client=st.integers(0, 3),
    direction=st.sampled_from([DOWN, UP]),
    start_ms=st.integers(0, 500),
    bit=st.sampled_from([1.0, 999.0, 3e4, 4e5, 2e6]),
    give_up_ms=st.sampled_from([1, 37, 400]),
)
def test_bits_and_joules_are_those_of_a_walk(trace, client, direction, start_ms, bit, give_up_ms):
    net = links(trace)
    channel = channel_of(net, give_up_s=give_up_ms / 1000.0)
    laid_out = transfer(channel, client, direction, start_ms / 1000.0, bit, RADIO)
    # Rounding decides of a last bit that meets the deadline or an outage: an end between those of a
    # little less and a little more is right.
    less, more = [
        walked(trace, net, client, ROW[direction], start_ms, bit * factor, give_up_ms)
        for factor in (1.0 - 1e-9, 1.0 + 1e-9)
    ]
    lasts_s, moved_bit = laid_out.end_s - laid_out.start_s, float(laid_out.progress[-1])
    base_w, per_bit = (0.3, 2e-8) if direction is DOWN else (0.8, 7e-8)

    assert less[0] - 1e-9 <= lasts_s <= more[0] + 1e-9
    assert moved_bit == pytest.approx(more[1], rel=1e-8, abs=1e-6)
    assert more[2] <= laid_out.is_complete <= less[2]
    assert laid_out.energy_until(math.inf) == pytest.approx(
        base_w * lasts_s + per_bit * moved_bit, rel=1e-9
    )
    assert np.all(np.diff(laid_out.edges_s) > 0.0)
    assert np.all(np.diff(laid_out.progress) >= 0.0)


def test_a_transfer_is_the_same_alone_and_in_a_crowd():
    trace = net_trace(
        [(10_000, TUNNEL_ROWS), (777, [(0, 3e4, 2e4), (11, 0.0, 1e3)]), (60_000, [(0, 5e5, 1e4)])]
    )
    channel = channel_of(links(trace, size=50), give_up_s=300.0)
    clients = np.arange(50)
    start_s = np.array([1.37 * client for client in range(50)])
    bit = np.array([10.0 ** (1 + client % 7) for client in range(50)])
    power = RadioPower.line(np.full(50, 0.3), np.full(50, 2e-8))
    parts = channel.transfers(clients, DOWN, start_s, bit, power)

    by_client = {
        int(row): row_of(timelines, i) for rows, timelines in parts for i, row in enumerate(rows)
    }
    assert sorted(by_client) == clients.tolist()
    for client in clients.tolist():
        alone = transfer(channel, client, DOWN, float(start_s[client]), float(bit[client]), RADIO)
        assert np.array_equal(by_client[client].edges_s, alone.edges_s)
        assert np.array_equal(by_client[client].progress, alone.progress)
        assert np.array_equal(by_client[client].power_w, alone.power_w)


def test_every_record_has_as_many_clients_at_any_place_of_it_whatever_the_size_of_the_fleet():
    trace = net_trace([(span, [(0, 1e6, 1e6)]) for span in (1000, 2000, 3000)])
    few, net = links(trace, size=5), links(trace, size=6000)

    assert np.array_equal(few.record, net.record[:5])
    assert np.array_equal(few.shift_ms, net.shift_ms[:5])
    assert np.bincount(net.record).tolist() == [2000, 2000, 2000]
    longest = net.shift_ms[net.record == 2]
    assert longest.min() >= 0
    assert longest.max() < 3000
    # The mean of 2,000 uniform draws: 3000 / sqrt(12 * 2000) = 19.4 is its standard deviation.
    assert longest.mean() == pytest.approx(1499.5, abs=5 * 19.4)


def test_a_scale_and_a_ratio_make_the_rates_and_a_trace_without_rates_up_needs_a_ratio():
    trace = net_trace([(1000, [(0, 1e6, 0.0)])], has_up=False)

    with pytest.raises(ScenarioError, match=r"fleet\.channel\.up_over_down: missing, and test has"):
        links(trace)
    channel = channel_of(links(trace, rate_scale=2.0, up_over_down=0.25))
    assert (channel.rate_at(0, DOWN, 0.0), channel.rate_at(0, UP, 0.0)) == (2e6, 5e5)


def test_too_many_samples_and_a_scale_beyond_any_radio_are_refused():
    trace = net_trace([(2, [(0, 1e6, 1e6), (1, 2e6, 1e6)])])

    with pytest.raises(ScenarioError, match=r"fleet\.channel\.give_up_s = 3e\+07: spans over"):
        links(trace, give_up_s=3e7)
    with pytest.raises(ScenarioError, match=r"fleet\.channel\.rate_scale = 1e\+09: makes rates of"):
        links(TUNNEL, rate_scale=1e9)
