"""Batteries that only tasks drain."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.fleet.batteries.plain import walk_battery
from tests.fleet.made_fleets import always_on_phones, charge_after, phase


def test_a_battery_falls_by_its_load_and_dies_where_its_level_meets_the_cut_off():
    never = (math.inf, 0.0)
    # 100 J, floor 40 J; 2 W + 1 W idle: 60 J last 20 s.
    one = phase(5.0, (60.0, 2.0))
    after = walk_battery(100.0, 200.0, 40.0, one.edges_s, one.power_w, 1.0, iter([never]), 65.0)
    assert after == (40.0, 25.0)
    # The walk ends in the middle of the second segment.
    two = phase(0.0, (10.0, 2.0), (10.0, 4.0))
    after = walk_battery(100.0, 100.0, 0.0, two.edges_s, two.power_w, 0.0, iter([never]), 12.5)
    assert after == pytest.approx((100.0 - 20.0 - 10.0, math.inf))


def test_an_idle_battery_never_holds_more_than_its_capacity():
    fleet = always_on_phones(1, {"charge_w": 7.5})
    capacity_j = 63_950.04  # 4614 mAh x 3.85 V

    def after(level_j: float, seconds: float) -> float:
        return float(charge_after(fleet, level_j, seconds).level_j[0])

    assert after(50.0, 1.0) == 57.5
    assert after(capacity_j - 10.0, 100.0) == pytest.approx(capacity_j)


@pytest.mark.slow
@given(
    st.floats(0, 100),
    st.lists(st.tuples(st.floats(0.1, 20), st.floats(0, 5)), min_size=1, max_size=5),
    st.lists(st.floats(0.5, 15), min_size=1, max_size=6),
    st.booleans(),
)
def test_a_battery_matches_a_second_by_second_simulation(level_j, segments, on_off_s, is_on):
    capacity_j, charge_w, idle_w = 100.0, 6.0, 0.5
    timeline = phase(0.0, *segments)
    edges = list(itertools.accumulate(on_off_s))
    steps = [(t, charge_w if is_on ^ (i % 2 == 1) else 0.0) for i, t in enumerate(edges)]
    steps.append((math.inf, 0.0))

    got_j, died_s = walk_battery(
        level_j,
        capacity_j,
        0.0,
        timeline.edges_s,
        timeline.power_w,
        idle_w,
        iter(steps),
        timeline.end_s,
    )

    num_steps = 10_000
    dt_s = timeline.end_s / num_steps
    at_s = (np.arange(num_steps) + 0.5) * dt_s
    drain_w = timeline.power_w[np.searchsorted(timeline.edges_s, at_s) - 1] + idle_w
    gain_w = np.array([w for _, w in steps])[np.searchsorted([t for t, _ in steps], at_s)]
    slow_j = level_j
    for net_w in gain_w - drain_w:
        slow_j = min(slow_j + net_w * dt_s, capacity_j)
        if slow_j < 0.0:
            break
    bound_j = 12.0 * dt_s * (len(segments) + len(steps) + 2)
    if slow_j < 0.0:
        assert died_s < math.inf or got_j < bound_j
    else:
        assert got_j == pytest.approx(slow_j, abs=bound_j)
