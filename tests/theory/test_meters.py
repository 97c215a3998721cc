"""A meter's joules are the integral of power, whatever the sequence of states."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import Outcome, Purpose
from tests.engine.tiny import Tiny
from tests.fleet.alone import compute_timeline

NUM_POINTS = 20_001
TAIL_W, TAIL_S = 0.13286, 0.30107  # Wi-Fi

states = st.lists(st.tuples(st.floats(0.5, 30.0), st.floats(0.0, 0.9)), min_size=1, max_size=8)


@given(states, st.floats(0.0, 0.9), st.floats(1.0, 60.0), st.floats(0.0, 1.0), st.floats(0.1, 12.0))
def test_compute_energy_is_the_integral_of_power_over_random_loads(
    steps, last_load, work_s, cut, train_w
):
    ends_s = list(itertools.accumulate(seconds for seconds, _ in steps))
    loads = [load for _, load in steps] + [last_load]
    timeline = compute_timeline(
        0.0, work_s, train_w, [*zip(ends_s, loads[:-1], strict=True), (math.inf, last_load)]
    )
    until_s = cut * timeline.end_s

    # The oracle samples power at the midpoints of a fine grid: it can be wrong by at most one cell
    # per change of load.
    edges_s = np.linspace(0.0, until_s, NUM_POINTS)
    at_s = (edges_s[1:] + edges_s[:-1]) / 2
    load_at = np.array(loads)[np.searchsorted(ends_s, at_s, side="right")]
    integral_j = float((train_w * (1 - load_at)).sum() * until_s / (NUM_POINTS - 1))

    bound_j = train_w * until_s / (NUM_POINTS - 1) * (len(steps) + 1) + 1e-9
    assert timeline.energy_until(until_s) == pytest.approx(integral_j, abs=bound_j)


def test_the_meters_of_a_run_are_the_integral_of_what_its_phases_draw(tmp_path):
    """Idle power over the whole task, training power while it computes, the radio while busy."""
    tiny = Tiny(tmp_path)
    tiny.size, tiny.samples = 6, [40, 90, 150, 220, 60, 110]
    tiny.server = {"cohort": 3, "over_commit": 2.0, "deadline_s": 70.0}
    tiny.trace("0,1,0,1,0.3 17,1,0,1,0 41,1,0,1,0.8 66,0,0,1,0 80,1,0,1,0.1", span_s=100)
    tiny.stop = {"rounds": 12}
    tiny.run()
    tail_until_s: dict[int, float] = {}
    num_overlaps = 0
    load_of = np.repeat([0.3, 0.0, 0.8, 0.0, 0.1], [17, 24, 25, 14, 20])

    assert {row.outcome for row in tiny.recorder.tasks} >= {Outcome.DELIVERED, Outcome.CANCELLED}
    for row in tiny.recorder.tasks:
        assert row.purpose is Purpose.TRAIN
        starts_s = row.dispatched_at_s + row.download_s
        edges_s = np.linspace(starts_s, starts_s + row.compute_s, NUM_POINTS)
        at_s = (edges_s[1:] + edges_s[:-1]) / 2
        load = load_of[np.floor(at_s).astype(int) % 100]
        compute_j = float((3.3 * (1 - load)).mean()) * row.compute_s
        awake_s = row.finished_at_s - row.dispatched_at_s

        assert row.energy_compute_j == pytest.approx(compute_j, abs=3.3 * row.compute_s / 1000)
        assert row.energy_idle_j == pytest.approx(2.1 * awake_s)
        assert row.energy_transmit_j == pytest.approx(2.0 * row.upload_s)
        # A download that begins in the tail of the last task's transfer pays what is above it.
        overlap_s = max(0.0, tail_until_s.get(row.client, 0.0) - row.dispatched_at_s)
        paid_j = TAIL_W * min(overlap_s, row.download_s)
        assert row.energy_receive_j == pytest.approx(2.0 * row.download_s - paid_j)
        num_overlaps += paid_j > 0.0
        ended_s = row.finished_at_s if row.upload_s else row.dispatched_at_s + row.download_s
        tail_until_s[row.client] = ended_s + TAIL_S
    assert num_overlaps > 0
