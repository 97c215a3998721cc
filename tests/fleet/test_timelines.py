"""Energy of phases and their tails; batches of phases equal single phases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import simulate
from fleetsim.catalogue import listing
from fleetsim.fleet.devices.profile import device_names, load_device, reproduction_names
from fleetsim.fleet.energy import beyond_tails
from fleetsim.scenario import load, reproductions, scenario_warnings
from tests.fleet.alone import beyond_tail, side_by_side
from tests.fleet.one_timeline import Timeline, row_of

segments = st.lists(
    st.tuples(st.floats(0.01, 50.0), st.floats(0.0, 30.0), st.floats(0.0, 9.0)), max_size=40
)


def phase(start_s: float, parts: list[tuple[float, float, float]]) -> Timeline:
    """A phase from (seconds, work, watts)."""
    widths_s, work, power_w = np.array(parts).reshape(-1, 3).T
    return Timeline(
        start_s + np.concatenate([[0.0], np.cumsum(widths_s)]),
        np.concatenate([[0.0], np.cumsum(work)]),
        power_w,
        is_complete=True,
    )


phases = st.lists(st.builds(phase, st.floats(0.0, 1e5), segments), min_size=1, max_size=6)


def same(one: Timeline, other: Timeline) -> bool:
    return (
        one.edges_s.tolist() == other.edges_s.tolist()
        and one.progress.tolist() == other.progress.tolist()
        and one.power_w.tolist() == other.power_w.tolist()
        and one.is_complete == other.is_complete
    )


@pytest.mark.slow
@given(phases, st.floats(0.0, 1.2))
def test_energy_and_progress_side_by_side_are_those_alone(alone, share):
    rows = side_by_side(*alone)
    t_s = rows.start_s + share * (rows.end_s - rows.start_s)

    assert rows.energy_until(t_s).tolist() == [
        timeline.energy_until(at_s) for timeline, at_s in zip(alone, t_s.tolist(), strict=True)
    ]
    assert rows.progress_until(t_s).tolist() == [
        timeline.progress_until(at_s) for timeline, at_s in zip(alone, t_s.tolist(), strict=True)
    ]
    assert all(same(row_of(rows, i), timeline) for i, timeline in enumerate(alone))


@pytest.mark.slow
@given(phases, st.floats(0.0, 5.0), st.floats(-0.2, 1.2))
def test_tails_side_by_side_are_those_alone(alone, tail_w, share):
    rows = side_by_side(*alone)
    paid_until_s = rows.start_s + share * (rows.end_s - rows.start_s)
    relieved = beyond_tails(rows, np.full(len(alone), tail_w), paid_until_s)

    for index, timeline in enumerate(alone):
        assert same(
            row_of(relieved, index), beyond_tail(timeline, tail_w, paid_until_s[index].item())
        )


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 5)), min_size=1, max_size=6),
    st.floats(0, 3),
    st.floats(-5, 70),
)
def test_tail_and_transfer_together_cost_the_larger_at_every_moment(watts, tail_w, paid_until_s):
    timeline = phase(0.0, [(width_s, 0.0, power_w) for width_s, power_w in watts])
    overlap_s = min(max(paid_until_s, 0.0), timeline.end_s)

    together_j = tail_w * overlap_s
    together_j += beyond_tail(timeline, tail_w, paid_until_s).energy_until(timeline.end_s)

    expected_j, now_s = 0.0, 0.0
    for width_s, power_w in watts:
        inside_s = min(max(overlap_s - now_s, 0.0), width_s)
        expected_j += max(power_w, tail_w) * inside_s + power_w * (width_s - inside_s)
        now_s += width_s
    assert together_j == pytest.approx(expected_j, rel=1e-9, abs=1e-9)


NAME = "reproduction/jetson-nano-fedgcs"
LABEL = "reproduction:jetson-nano-fedgcs"


def test_it_is_listed_apart_and_says_what_it_is():
    devices = listing("devices")

    assert reproduction_names() == [NAME]
    assert NAME not in device_names()
    assert NAME not in {row[0] for row in devices.rows}
    assert f"Not physical, for comparison with a paper alone: {NAME}" in devices.note
    assert "not physical" in load_device(NAME).title


def test_a_scenario_with_it_warns_and_its_tables_carry_the_label(tmp_path):
    changes = [f"fleet.devices={{{NAME}: 1.0}}", "fleet.usage={trace: null}", "stop.rounds=1"]
    scenario = load("quickstart", changes)
    warning, *_ = scenario_warnings(scenario)
    done = simulate.run(scenario, out=tmp_path / "run", train=False)

    assert warning.startswith(f"fleet.devices: {LABEL} is a reproduction, not physical:")
    assert scenario_warnings(load("quickstart")) == []
    assert set(done.tasks.device) == {LABEL}
    assert [name for name, _ in reproductions(scenario)] == [LABEL]


def test_a_file_of_ones_own_may_say_so_too(tmp_path):
    path = tmp_path / "theirs.yaml"
    path.write_text("extends: pixel-6\ntitle: Theirs\nreproduction: figures of their paper\n")

    assert load_device(str(path)).name == "reproduction:theirs"
    assert load_device("pixel-6").reproduction is None
