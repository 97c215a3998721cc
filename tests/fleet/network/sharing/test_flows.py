"""Transfers over links that they share: closed forms, exact fractions, and what is conserved."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.sharing.flows import Flows, lay_out_flows
from fleetsim.fleet.network.sharing.max_min import fair_rates
from fleetsim.fleet.network.transfer import Demands, RateSteps
from tests.fleet.fair import Flow, ends
from tests.fleet.one_timeline import Timeline, row_of

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


@pytest.mark.parametrize("k", [1, 2, 7, 100])
def test_k_equal_flows_take_k_times_as_long_as_one(k):
    demand, never_s = [[(INF, 50.0)]] * k, [INF] * k
    timelines = laid_out([3.0] * k, [1000.0] * k, demand, [0] * k, [50.0], INF, never_s, 1e9)

    assert [t.end_s for t in timelines] == pytest.approx([3.0 + k * 20.0] * k, rel=1e-12)
    assert [t.power_w.size for t in timelines] == [1] * k
    assert [t.progress[-1] for t in timelines] == [1000.0] * k
    assert timelines[0].energy_until(INF) == pytest.approx(BUSY_W * k * 20.0 + 1000.0 * J_PER_BIT)


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
