"""A link is a radio and a channel together: what tasks take and draw on each network.

A megabyte each way at 8 Mbit/s takes one second; nothing is computed.
"""

from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import Work, WorkKind
from fleetsim.engine.tasks.task import TaskResult
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.transport import TcpSettings
from tests.engine.batches import ended, laid_out, task, world_of
from tests.engine.tiny import CONSTANT, NANO_FILE, Tiny
from tests.fleet.closed_transfers import transfer_s
from tests.fleet.one_timeline import row_of

PHONE = {"pixel-6": 1.0}
PEOPLE = {"synthetic": {"availability": 0.99, "users": 3}}
RADIOS = ("lte", "wifi", "wired")
DEAD_CELL = {"kind": "constant", "down_bit_per_s": 1.0, "up_bit_per_s": 1.0, "give_up_s": 60.0}
LTE_DOWN_W = 0.369 + 15.02e-3 * 8.0
LTE_UP_W = 0.543 + 79.53e-3 * 8.0
LTE_TAIL_W, LTE_TAIL_S = 0.122, 5.0
WIFI_UP_W = 0.13286 + (1.739 - 0.13286) / 63.0 * 8.0
"""Connected all the time, and on the air for 8 of the 63 Mbit/s that it can."""


def phones(tiny: Tiny, channel: dict[str, Any], **settings: Any) -> Tiny:
    """Phones with the radios that scenarios have."""
    tiny.devices, tiny.network = PHONE, None
    tiny.channel = {"unmetered_radio": "wifi", **channel}
    for key, value in settings.items():
        setattr(tiny, key, value)
    return tiny


def done(tiny: Tiny, at_s: float = 0.0, client: int = 0) -> TaskResult:
    return done_all(tiny, at_s, [client])[0]


def done_all(tiny: Tiny, at_s: float, clients: list[int]) -> list[TaskResult]:
    tasks = [task(i, client, work=Work(WorkKind.NONE)) for i, client in enumerate(clients)]
    return laid_out(world_of(tiny.fleet()), tasks, at_s).settle()


def test_without_usage_a_phone_draws_the_watts_of_the_metered_radio(tiny: Tiny) -> None:
    row = done(phones(tiny, CONSTANT))

    # The upload begins in the tail of the download, which is paid for and prolonged by a second.
    assert row.energy_j[1] == pytest.approx(LTE_DOWN_W)
    assert row.energy_j[2] == pytest.approx(LTE_UP_W - LTE_TAIL_W)
    assert row.energy_j[3] == pytest.approx(LTE_TAIL_W * (LTE_TAIL_S + 1.0))
    row = done(phones(tiny, {**CONSTANT, "metered_radio": "3g"}))
    assert row.download_s == pytest.approx(0.5821 + 1.0)
    assert row.energy_j[1] == pytest.approx(0.6594 * 0.5821 + 0.81788 + 0.12212 * 8.0)


def test_wifi_does_not_go_through_the_cell_and_an_unmetered_cellular_radio_does(tiny):
    phones(tiny, DEAD_CELL, network={"kind": "wifi"}, wifi=CONSTANT)
    tiny.shared_links = {"cell_up_bit_per_s": 1.0, "cell_down_bit_per_s": 1.0}
    row = done(tiny)
    paid_s = 0.30107

    assert (row.download_s, row.upload_s) == pytest.approx((1.0, 1.0))
    assert row.energy_j[2] == pytest.approx(WIFI_UP_W - 0.13286 * paid_s)
    channel, line = {**CONSTANT, "unmetered_radio": "lte"}, {"line_up_bit_per_s": 1.0}
    row = done(phones(tiny, channel, wifi=line, network={"kind": "wifi"}, shared_links=None))
    assert (row.download_s, row.upload_s) == pytest.approx((1.0, 1.0))
    assert row.energy_j[1] == pytest.approx(LTE_DOWN_W)


@pytest.mark.parametrize(
    ("begins_s", "transmit_j"),
    [
        (0.0, WIFI_UP_W - 0.13286 * 0.30107),
        (9.5, LTE_UP_W),  # the download began over Wi-Fi and ends over it
        (20.0, LTE_UP_W - LTE_TAIL_W),
    ],
)
def test_a_transfer_takes_the_network_of_the_moment_it_starts(tiny, begins_s, transmit_j):
    tiny.trace("0,1,0,1,0 10,1,0,0,0", 100)
    row = done(phones(tiny, CONSTANT, wifi=CONSTANT), begins_s)

    assert (row.download_s, row.upload_s) == pytest.approx((1.0, 1.0))
    assert row.energy_j[2] == pytest.approx(transmit_j)


@pytest.mark.parametrize("people", ["none", "synthetic", "intervals"])
def test_clients_may_be_split_over_the_networks_whatever_their_usage(tiny, people):
    if people == "synthetic":
        tiny.usage = PEOPLE
    elif people == "intervals":
        (tiny.folder / "intervals.csv").write_text("user,start_s,end_s\nu,0,90000\n")
        (tiny.folder / "users.csv").write_text("user,span_s\nu,100000\n")
        tiny.usage = {"trace": str(tiny.folder), "shift": "none"}
    tiny.size = 400
    fleet = phones(tiny, CONSTANT, network={"kind": "mixed", "cellular_fraction": 0.25}).fleet()
    clients, zero_s = np.arange(400), np.zeros(400)
    is_cellular = ~fleet.radios.is_wifi[fleet.radios_at(clients, zero_s)]

    # Binomial: 100 of 400 on average, with a standard deviation of 8.7.
    assert 60 < is_cellular.sum() < 140
    assert (fleet.usage.is_unmetered_at(clients, zero_s) == ~is_cellular).all()
    assert (fleet.usage.is_unmetered_at(clients, zero_s + 5e5) == ~is_cellular).all()
    online = fleet.usage.state_at(clients, zero_s).online
    tiny.network = {"kind": "by-usage"}
    assert (tiny.fleet().usage.state_at(clients, zero_s).online == online).all()


def test_a_board_with_people_around_is_on_wifi_and_a_cable_stays_a_cable(tiny):
    phones(tiny, CONSTANT, devices={NANO_FILE: 0.5, "t2.small": 0.4, "pixel-6": 0.1}, size=30)
    cellular, wifi, wired = (sorted(RADIOS).index(name) for name in RADIOS)
    for tiny.usage, tiny.network, of_boards in (
        (PEOPLE, None, wifi),
        ({}, None, cellular),
        (PEOPLE, {"kind": "cellular"}, cellular),
    ):
        fleet = tiny.fleet()
        names = fleet.radios.name[fleet.radios_at(np.arange(30), np.zeros(30))]
        kinds = np.array([fleet.profile(client).kind for client in range(30)])
        assert set(names[kinds == "board"].tolist()) == {of_boards}
        assert set(names[kinds == "vm"].tolist()) == {wired}


def test_the_transmit_power_is_paid_for(tiny):
    channel = {"kind": "fading", "fading": "none", "bandwidth_hz": 1e6}
    channel |= {"min_distance_m": 100.0, "cell_radius_m": 100.0}
    lte = 1
    for dbm, share in ((23.0, 1.0), (13.0, 0.1**0.36)):
        power = phones(tiny, {**channel, "tx_power_dbm": dbm}).fleet().radios.power
        amplifier_w = 10.0 ** (2.3 - 3.0) / 0.165  # 23 dBm at the efficiency of the file
        assert power[Direction.UP].busy_w[lte] == pytest.approx(0.543 + amplifier_w * share)
        assert power[Direction.DOWN].busy_w[lte] == 0.369


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["cellular", "wifi"])
def test_a_transfer_takes_what_the_closed_form_of_slow_start_says(tiny, shared, kind):
    if shared:
        tiny.shared_links = {"server_in_bit_per_s": 1e15, "cell_up_bit_per_s": 1e15}
    row = done(
        phones(tiny, CONSTANT, network={"kind": kind}, wifi=CONSTANT, transport={"kind": "tcp"})
    )
    rtt_s = {"cellular": 0.071, "wifi": 0.037}[kind]
    takes_s = transfer_s(TcpSettings(), np.array([rtt_s]), np.array([8e6]), np.array([8e6]))[0]

    # Three round trips of set-up, then rounds of 14,600, 29,200 ... bytes up to 8 Mbit/s.
    window_bit, ramp_s, moved_bit = 8 * 14_600.0, 3 * rtt_s, 0.0
    while window_bit / rtt_s < 8e6:
        ramp_s, moved_bit, window_bit = ramp_s + rtt_s, moved_bit + window_bit, 2 * window_bit
    assert takes_s == pytest.approx(ramp_s + (8e6 - moved_bit) / 8e6, rel=1e-12)
    assert (row.download_s, row.upload_s) == pytest.approx((takes_s, takes_s), rel=1e-9)
    if kind == "cellular":
        # Base watts for the time, joules for the bits: ramp-up costs time alone.
        assert row.energy_j[1] == pytest.approx(0.369 * takes_s + 15.02e-9 * 8e6, rel=1e-9)


def slow_end_s(fleet, client, start_s, bit):
    """End of an upload over fading blocks of 0.1 s under slow start, walked edge by edge."""
    rtt_s, window_bit = 0.071, 8 * 14_600.0
    offsets, caps = [0.0, 3 * rtt_s], [0.0]
    while window_bit < 8 * 8_388_608:
        offsets.append(offsets[-1] + rtt_s)
        caps.append(window_bit / rtt_s)
        window_bit *= 2
    offsets, caps = [*offsets, np.inf], [*caps, 8 * 8_388_608 / rtt_s]
    now_s, block = start_s, int(start_s / 0.1 + 1e-9)
    while True:
        step = sum(offset <= now_s - start_s + 1e-9 for offset in offsets) - 1
        edge_s = min((block + 1) * 0.1, start_s + offsets[step + 1])
        rate = min(fleet.channel.rate_at(client, Direction.UP, (block + 0.5) * 0.1), caps[step])
        if rate * (edge_s - now_s) >= bit:
            return now_s + bit / rate
        bit -= rate * (edge_s - now_s)
        now_s = edge_s
        block += now_s >= (block + 1) * 0.1 - 1e-9


@pytest.mark.parametrize("severity", [0.0, 0.7])
@pytest.mark.parametrize("shared", [False, True])
def test_slow_start_over_fading_blocks_equals_a_walk(tiny, shared, severity):
    tiny.size = 12
    if shared:
        tiny.shared_links = {"server_in_bit_per_s": 1e15}
    channel = {"kind": "fading", "block_s": 0.1, "max_bit_per_s_per_hz": None}
    phones(tiny, channel, transport={"kind": "tcp"}, heterogeneity={"bandwidth": severity})
    fleet = tiny.fleet()
    clients, bit = np.arange(12), np.geomspace(1e4, 3e8, 12)
    start_s = np.linspace(0.0, 7.0, 12)
    radio, none, never_s = (
        fleet.radios_at(clients, start_s),
        np.zeros(12, bool),
        np.full(12, np.inf),
    )
    laid = fleet.access.transfers(clients, Direction.UP, start_s, bit, radio, none, never_s)
    assert sorted(np.concatenate([rows for rows, _ in laid]).tolist()) == list(range(12))
    for some, timelines in laid:
        for row, timeline in ((row, row_of(timelines, i)) for i, row in enumerate(some.tolist())):
            end_s = slow_end_s(fleet, row, float(start_s[row]), float(bit[row]))
            assert timeline.end_s == pytest.approx(end_s, rel=1e-9)
            assert timeline.progress[-1] == bit[row]
            assert (np.diff(timeline.edges_s) > 0.0).all()
            assert timeline.start_s == start_s[row]


def test_slow_start_over_a_network_trace_equals_the_closed_form_in_one_step(tiny: Tiny) -> None:
    (tiny.folder / "rates.csv").write_text(
        "trace,t_s,down_bit_per_s,up_bit_per_s\na,0,8e6,8e6\na,1,4e6,8e6\na,1000,,\n"
    )
    trace = {"kind": "trace", "trace": str(tiny.folder), "shift": "none"}
    row = done(phones(tiny, trace, transport={"kind": "tcp"}))
    by_hand_s = transfer_s(TcpSettings(), np.array([0.071]), np.array([8e6]), np.array([8e6]))[0]

    assert row.upload_s == pytest.approx(by_hand_s, rel=1e-9)
    # Of the download, what is left after a second goes at half the rate.
    assert row.download_s == pytest.approx(1.0 + 2.0 * (by_hand_s - 1.0), rel=1e-9)


PROMOTION_S, PROMOTION_W, TAIL_S = 0.5821, 0.6594, 8.9124
RECEIVE_W = 0.81788 + 0.12212 * 8.0  # at 8 Mbit/s: one second for the megabyte of a task


def test_an_idle_radio_is_promoted_before_the_first_bit_and_one_in_its_tail_is_not(tiny):
    tiny.channel = {**CONSTANT, "unmetered_radio": "3g"}
    world = world_of(tiny.fleet())
    [whole] = laid_out(world, [task(0, 0)]).settle()
    inside_s = whole.finished_at_s + TAIL_S - 0.5
    [short] = laid_out(world, [task(1, 0, work=Work(WorkKind.NONE))], inside_s).settle()
    after_s = short.finished_at_s + TAIL_S
    [cut] = ended(laid_out(world, [task(2, 0)], after_s), at_s=after_s + 0.25)

    assert whole.download_s == pytest.approx(PROMOTION_S + 1.0)
    assert whole.energy_j[1] == pytest.approx(PROMOTION_W * PROMOTION_S + RECEIVE_W)
    # The computation outlasts the tail of the download.
    assert whole.compute_s > TAIL_S
    assert whole.upload_s == pytest.approx(PROMOTION_S + 1.0)
    assert (short.download_s, short.upload_s) == pytest.approx((1.0, 1.0))
    assert (cut.downloaded_bit, cut.download_s) == (0.0, 0.25)
    assert cut.energy_j[1] == pytest.approx(PROMOTION_W * 0.25)
    # Who is awake has the server's 8 Mbit/s to itself while another radio wakes.
    tiny.shared_links = {"server_out_bit_per_s": 8e6}
    [first] = laid_out(world := world_of(tiny.fleet()), [task(0, 0)]).settle()
    batch = laid_out(world, [task(1, 0), task(2, 1)], first.finished_at_s + 1.0)
    assert [t.download_s for t in batch.settle()] == pytest.approx([2.0 - PROMOTION_S, 2.0])
