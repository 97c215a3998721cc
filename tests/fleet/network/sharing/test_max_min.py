"""Max-min fair division of links and bands, against the definition and by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.sharing.band import Band
from fleetsim.fleet.network.sharing.flows import Flows, lay_out_flows
from fleetsim.fleet.network.sharing.max_min import fair_rates
from fleetsim.fleet.network.sharing.shared_links import SharedLinks, SharedLinksSettings
from fleetsim.fleet.network.transfer import Demands, RateSteps
from fleetsim.fleet.network.wireless.rate import Modem, nr_64qam
from tests.fleet.fair import Flow, ends
from tests.fleet.one_timeline import Timeline, row_of


def test_a_client_is_in_the_same_cell_whatever_the_size_of_the_fleet():
    settings = SharedLinksSettings(cells=3, cell_up_bit_per_s=1e6)
    small, large = (
        settings.build(seed=4, wired_bit_per_s=np.full(size, np.nan)) for size in (100, 3000)
    )
    counts = np.bincount(large.cell)

    assert small.cell.tolist() == large.cell[:100].tolist()
    assert counts.size == 3
    assert counts.min() > 1000 - 5 * np.sqrt(3000 * 2 / 9)  # five standard deviations


@pytest.mark.parametrize("has_cable", [True, False], ids=["cable", "wifi"])
def test_a_cable_and_wifi_bypass_the_cells_and_not_the_server(has_cable):
    settings = SharedLinksSettings(cell_up_bit_per_s=10.0, server_in_bit_per_s=28.0)
    wired_bit_per_s = np.array([np.nan, np.nan, 90.0 if has_cable else np.nan])
    links = settings.build(seed=1, wired_bit_per_s=wired_bit_per_s)
    cells = links.cells_of(np.arange(3), np.array([False, False, not has_cable]))
    demand = np.array([50.0, 50.0, 90.0])

    assert links.fair_bit_per_s(cells, Direction.UP, demand, demand).tolist() == [5.0, 5.0, 18.0]
    assert links.fair_bit_per_s(cells, Direction.DOWN, demand, demand).tolist() == demand.tolist()


BAND_HZ = 10e6
MODEM = Modem(bandwidth_hz=(BAND_HZ, BAND_HZ), cap_bit_per_s_per_hz=5.5)


def in_band(num_cells: int, **capacities: float) -> SharedLinks:
    settings = SharedLinksSettings(cells=num_cells, **capacities)
    return settings.build(seed=1, wired_bit_per_s=np.full(3, np.nan), modem=MODEM)


def part_of(way: Direction, whole: float, rate: float) -> float:
    """Part of the band that carries a rate: bisection over the law as the module states it."""

    def carried(part: float) -> float:
        if way == Direction.DOWN:
            return part * whole
        snr, least = 2.0 ** (whole / BAND_HZ) - 1.0, 180e3 / BAND_HZ
        if part < least:
            return part / least * carried(least)
        return part * BAND_HZ * min(math.log2(1.0 + snr / part), 5.5)

    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if carried(middle) < rate else (low, middle)
    return high


@pytest.mark.parametrize(
    ("limits", "way", "demand", "whole", "expected"),
    [
        # A ratio of 1 over 10 MHz: half the band is half the rate down; up it has a ratio of 2.
        ({}, Direction.DOWN, [10, 10], [10, 10], [5, 5]),
        ({}, Direction.UP, [10, 10], [10, 10], [5 * math.log2(3.0)] * 2),
        # A tenth of the band for the first, 45 % for each of the others.
        ({"server_in": 1e9}, Direction.DOWN, [4, 40, 4], [40, 40, 4], [4, 18, 1.8]),
        # Even parts: 20 + 2 Mbit/s. With L for the first: (1 - L / 40) * 4 + L = 10, L = 20 / 3.
        ({"server_out": 10e6}, Direction.DOWN, [40, 4], [40, 4], [20 / 3, 10 / 3]),
        # A capacity replaces the band in its direction alone.
        ({"cell_up": 6e6}, Direction.UP, [40, 4], [40, 4], [3, 3]),
        ({"cell_up": 6e6}, Direction.DOWN, [40, 4], [40, 4], [20, 2]),
    ],
)
def test_who_is_limited_elsewhere_leaves_its_part_to_others(limits, way, demand, whole, expected):
    """Rates in Mbit/s."""
    links = in_band(1, **{f"{name}_bit_per_s": most for name, most in limits.items()})
    cells = np.zeros(len(demand), dtype=int)
    rate = links.fair_bit_per_s(cells, way, 1e6 * np.array(demand), 1e6 * np.array(whole))

    assert rate == pytest.approx(1e6 * np.array(expected))


def test_multiples_of_rates_are_multiples_of_what_a_part_carries():
    links = in_band(1)
    whole, multiple = np.array([10e6, 10e6]), np.array([1.0, 3.0])
    rate = links.fair_bit_per_s(
        np.zeros(2, dtype=int), Direction.UP, whole * multiple, whole * multiple, multiple
    )

    assert rate == pytest.approx(5e6 * math.log2(3.0) * multiple)


@pytest.mark.slow
@given(
    flows=st.lists(
        st.tuples(
            st.floats(1e-2, 5.5), st.one_of(st.just(1.0), st.floats(0.0, 1.0)), st.integers(0, 2)
        ),
        min_size=1,
        max_size=9,
    ),
    way=st.sampled_from([Direction.DOWN, Direction.UP]),
    server=st.one_of(st.just(1e12), st.floats(1e4, 2e8)),
)
def test_bands_are_divided_max_min_fair(flows, way, server):
    per_hz, share, cell = (np.array(column) for column in zip(*flows, strict=True))
    whole = per_hz * BAND_HZ
    demand = whole * share
    links = in_band(2, server_in_bit_per_s=server, server_out_bit_per_s=server)
    rate = links.fair_bit_per_s(cell, way, demand, whole)  # cell 2 is none

    part = np.array([part_of(way, w, r) for w, r in zip(whole, rate, strict=True)])
    used = np.bincount(cell, part, minlength=3)
    most = np.array([part[cell == c].max(initial=0.0) for c in range(3)])
    assert (rate <= demand * (1 + 1e-9)).all()
    assert (used[:2] <= 1 + 1e-6).all()
    # Parts of a band are found to 1e-9, and the level to 1e-12 of the fastest rate.
    server_slack = 1e-8 * server + 1e-12 * len(flows) * demand.max()
    assert rate.sum() <= server + server_slack
    is_held = rate >= demand * (1 - 1e-9)
    is_held |= (cell < 2) & (used[cell] >= 1 - 1e-6) & (part >= most[cell] * (1 - 1e-6))
    is_held |= (rate.sum() >= server - server_slack) & (rate >= rate.max() * (1 - 1e-9))
    assert is_held.all()


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


def test_a_far_phone_loses_little_by_a_narrow_part():
    """At a ratio of -20 dB over the band a tenth of it has -10 dB: 96 % of the rate."""
    whole = BAND_HZ * math.log2(1.01)

    assert carried(UP, whole / BAND_HZ, 0.1) == pytest.approx(0.1 * BAND_HZ * math.log2(1.1))
    assert carried(UP, whole / BAND_HZ, 0.1) / whole == pytest.approx(0.958, abs=1e-3)
    assert carried(DOWN, whole / BAND_HZ, 0.1) == pytest.approx(0.1 * whole)


def test_below_a_resource_block_clients_take_turns():
    block = 180e3 / BAND_HZ

    assert carried(UP, 0.01, block / 4) == pytest.approx(carried(UP, 0.01, block) / 4)


def test_a_band_narrower_than_a_resource_block_is_shared_by_turns():
    narrow = Band(15e3, is_up=True)

    assert narrow.rates_bit_per_s(np.array([15e3]), np.array([0.5])) == pytest.approx([7.5e3])


@given(LINKS, PART, PART)
def test_larger_parts_carry_more_and_less_each(link: tuple[Band, float], one, other):
    small, large = sorted((one, other))
    less, more = carried(*link, small), carried(*link, large)

    assert less <= more * (1 + 1e-12)
    assert less / small >= more / large * (1 - 1e-9)


@given(PER_HZ, PER_HZ, PART)
def test_a_better_link_carries_more(one, other, part):
    worse, better = sorted((one, other))

    assert carried(UP, worse, part) <= carried(UP, better, part) * (1 + 1e-12)


@given(LINKS, PART)
def test_parts_are_the_inverse_of_rates(link, part):
    band, per_hz = link
    whole = np.array([per_hz * BAND_HZ])
    rate = band.rates_bit_per_s(whole, np.array([part]))
    least = band.parts(whole, rate)

    assert band.rates_bit_per_s(whole, least) == pytest.approx(rate, rel=1e-9)
    assert least[0] <= part * (1 + 1e-6)  # the least that carries it


def test_a_narrower_part_lets_a_far_phone_take_a_faster_step():
    """At 0.2 dB over the band (MCS 4) half of it has 3.21 dB: MCS 6 there, less a tenth."""
    per_hz = math.log2(1.0 + 10.0**0.02)

    assert carried(UP_STEPS, per_hz, 1.0) == pytest.approx(0.9 * 0.6015625 * BAND_HZ)
    assert carried(UP_STEPS, per_hz, 0.5) == pytest.approx(
        0.9 * BAND_HZ * max(0.5 * 0.876953125, 1.02734375 * 10.0**0.02 / STEPS.least_snr[7])
    )
    assert carried(DOWN_STEPS, per_hz, 0.5) == pytest.approx(0.9 * 0.5 * 0.6015625 * BAND_HZ)


def test_the_whole_band_is_the_whole_rate_to_the_last_bit():
    whole = np.random.default_rng(1).uniform(0.0, CAP * BAND_HZ, 1000)

    assert UP.rates_bit_per_s(whole, np.ones(1000)).tolist() == whole.tolist()
    assert UP.parts(whole, whole).tolist() == [1.0] * 1000


INF = np.inf
BUSY_W, J_PER_BIT = 0.8, 0.25


def steps(demand: list[list[tuple[float, float]]]) -> Demands:
    """Demands as (until_s, rate) lists whose last step holds for ever, two steps at a time."""

    def demands(rows, t_s):
        edges_s, rates = [], []
        for row, now_s in zip(rows.tolist(), t_s.tolist(), strict=True):
            left = [(until_s, rate) for until_s, rate in demand[row][:-1] if until_s > now_s][:2]
            left += [(INF, demand[row][-1][1])] * (2 - len(left))
            edges_s.append([now_s, *(until_s for until_s, _ in left)])
            rates.append([rate for _, rate in left])
        return RateSteps(np.array(edges_s), np.array(rates), np.array(rates))

    return demands


def laid_out(start_s, bit, demand, cell, cells, server, lost_at_s, give_up_s) -> list[Timeline]:
    size, begin_s = len(bit), np.array(start_s)
    power = RadioPower.line(np.full(size, BUSY_W), np.full(size, J_PER_BIT))
    flows = Flows(begin_s, np.array(bit), begin_s + give_up_s, np.array(lost_at_s), power)

    def fair(demand_bit_per_s: FloatArray, channel_bit_per_s: FloatArray) -> FloatArray:
        return fair_rates(demand_bit_per_s, np.array(cell), np.array(cells), server)

    by_row = {
        int(row): row_of(timelines, index)
        for rows, timelines in lay_out_flows(flows, steps(demand), fair)
        for index, row in enumerate(rows)
    }
    return [by_row[row] for row in range(size)]


quarters = st.integers(0, 40).map(lambda n: n / 4)
some_bits = st.integers(1, 60).map(float)
demand_steps = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 12).map(float)), max_size=4)
flow_lists = st.lists(
    st.tuples(quarters, some_bits, demand_steps, st.integers(1, 9), st.integers(0, 1), quarters),
    min_size=1,
    max_size=7,
)


def steps_from(lengths: list[tuple[int, float]], last: int) -> list[tuple[float, float]]:
    until_s = np.cumsum([length for length, _ in lengths])
    return [(float(u), rate) for u, (_, rate) in zip(until_s, lengths, strict=True)] + [
        (INF, float(last))
    ]


# An example takes 5 ms, most of it in exact fractions.
@pytest.mark.slow
@settings(max_examples=50)
@given(
    flow_lists,
    st.integers(1, 15),
    st.integers(1, 15),
    st.integers(1, 20),
    st.integers(4, 40),
    st.booleans(),
)
def test_flows_end_when_exact_fractions_say(drawn, one, other, server, give_up_s, has_losses):
    """And conserve bits and joules."""
    start_s, bit, lengths, last, cell, lost_after_s = (
        list(part) for part in zip(*drawn, strict=True)
    )
    demand = [steps_from(*pair) for pair in zip(lengths, last, strict=True)]
    lost_at_s = [
        s + after if has_losses else INF for s, after in zip(start_s, lost_after_s, strict=True)
    ]
    timelines = laid_out(start_s, bit, demand, cell, [one, other], server, lost_at_s, give_up_s)
    flows = [
        Flow(
            Fraction(start_s[i]),
            Fraction(bit[i]),
            [(Fraction(0 if u == INF else u), Fraction(rate)) for u, rate in demand[i]],
            cell[i],
            Fraction(lost_at_s[i]) if has_losses else None,
            Fraction(give_up_s),
        )
        for i in range(len(bit))
    ]
    reference = ends(flows, [Fraction(one), Fraction(other)], Fraction(server))
    end_s = np.minimum([t.end_s for t in timelines], lost_at_s)

    assert end_s == pytest.approx([float(at) for at, _ in reference], rel=1e-9)
    for timeline, at_s, (_, moved) in zip(timelines, end_s.tolist(), reference, strict=True):
        done_bit = timeline.progress_until(at_s)
        assert done_bit == pytest.approx(float(moved), rel=1e-9, abs=1e-9)
        assert (np.diff(timeline.edges_s) > 0.0).all()
        assert (np.diff(timeline.progress) >= 0.0).all()
        assert timeline.energy_until(at_s) == pytest.approx(
            BUSY_W * (at_s - timeline.start_s) + J_PER_BIT * done_bit, rel=1e-9
        )


@pytest.mark.parametrize("k", [1, 2, 7, 100])
def test_k_equal_flows_take_k_times_as_long_as_one(k):
    demand, never_s = [[(INF, 50.0)]] * k, [INF] * k
    timelines = laid_out([3.0] * k, [1000.0] * k, demand, [0] * k, [50.0], INF, never_s, 1e9)

    assert [t.end_s for t in timelines] == pytest.approx([3.0 + k * 20.0] * k, rel=1e-12)
    assert [t.power_w.size for t in timelines] == [1] * k
    assert [t.progress[-1] for t in timelines] == [1000.0] * k
    assert timelines[0].energy_until(INF) == pytest.approx(BUSY_W * k * 20.0 + 1000.0 * J_PER_BIT)
