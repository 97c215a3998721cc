"""Timelines of made-up runs, read back by Perfetto's own classes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import Outcome, Purpose
from fleetsim.errors import DataError, ScenarioError
from fleetsim.record.measures.ledger import COMPONENTS
from fleetsim.record.saved_run import open_run
from fleetsim.report.timeline.trace import trace_parts
from fleetsim.report.timeline.writing import parse_ranges, write_timeline
from tests.report.made_runs import MadeUp, write_run
from tests.report.rows import round_frame, round_row, task_frame, task_row
from tests.report.timeline import reading

S = 10**9

TASKS = (
    # Idle power of 6 J / 10 s; 1.2 J of waiting are 2 s, as the round ends at 12 s.
    task_row(0, 0, "phone", energy_enlisted_idle_j=1.2, train_loss=0.5, completed_fraction=1.0),
    task_row(
        1, 1, "board", purpose=Purpose.PROBE, download_s=2.0, compute_s=4.0, paused_s=1.5,
        num_pauses=2, upload_s=0.5, finished_at_s=8.0, outcome=Outcome.LATE, energy_idle_j=13.0,
        energy_enlisted_idle_j=0.0,
    ),
    task_row(
        2, 0, "phone", round=2, dispatched_at_s=12.0, download_s=0.5, compute_s=0.0, upload_s=0.0,
        finished_at_s=12.5, outcome=Outcome.REFUSED, refused="a weight is not finite",
        energy_compute_j=0.0, energy_transmit_j=0.0, energy_enlisted_idle_j=0.0,
    ),
)  # fmt: skip
ROUNDS = (
    round_row(1, 0.25, idle_s=1.0, probe_s=3.0, finished_at_s=12.0),
    round_row(2, None, started_at_s=12.0, finished_at_s=12.5, aggregated=False),
)


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", MadeUp(size=2), ROUNDS, TASKS)


def trace_of(run, **selected):
    return reading.read(write_timeline(run, **selected).read_bytes())


def test_tasks_and_rounds_have_slices_with_their_phases_and_what_their_rows_say(run):
    trace = trace_of(run)
    tasks = [one for one in trace.slices["clients/phone/client 0"] if one.details]

    assert trace.spans("clients/phone/client 0") == [
        (0, "train: delivered", 0, 10 * S),
        (1, "download", 0, S),
        (1, "compute", S, 7 * S),
        (1, "upload", 7 * S, 10 * S),
        (0, "waiting", 10 * S, 12 * S),
        (0, "train: refused", 12 * S, 12_500_000_000),
        (1, "download", 12 * S, 12_500_000_000),
    ]
    assert trace.spans("clients/board/client 1") == [
        (0, "probe: late", 0, 8 * S),
        (1, "download", 0, 2 * S),
        (1, "compute", 2 * S, 6 * S),
        (1, "paused", 6 * S, 7_500_000_000),
        (1, "upload", 7_500_000_000, 8 * S),
    ]
    as_time = {"client", "device", *(f"{phase}_s" for phase in ("download", "compute", "upload"))}
    as_time |= {"dispatched_at_s", "finished_at_s"}
    assert tasks[0].details == {
        name: value
        for name, value in TASKS[0]._asdict().items()
        if name not in as_time and value is not None
    }
    assert tasks[1].details["refused"] == "a weight is not finite"
    assert "train_loss" not in tasks[1].details
    assert trace.spans("server/rounds") == [
        (0, "round 1", 0, 12 * S),
        (1, "no eligible clients", 0, S),
        (1, "probing", S, 4 * S),
        (1, "training", 4 * S, 12 * S),
        (0, "round 2 (not aggregated)", 12 * S, 12_500_000_000),
        (1, "training", 12 * S, 12_500_000_000),
    ]
    first = trace.slices["server/rounds"][0].details
    assert (first["num_selected"], first["accuracy"], first["aggregated"]) == (4, 0.25, True)
    assert trace.counters["server/accuracy"] == [(12 * S, 0.25)]


def test_power_is_that_of_each_phase(run):
    """In W: computing 2/6 and 2/4; receiving 3/1, 3/2 and 3/.5; idle 6/10, 13/6.5 and 6/.5."""
    trace = trace_of(run)

    assert trace.units["power/all"] == "W"
    assert trace.counters["power/compute"] == [
        (S, pytest.approx(2 / 6, abs=1e-9)),
        (2 * S, pytest.approx(2 / 6 + 2 / 4, abs=1e-9)),
        (6 * S, pytest.approx(2 / 6, abs=1e-9)),
        (7 * S, 0.0),
    ]
    assert trace.counters["power/receive"] == [
        (0, 4.5),
        (S, 1.5),
        (2 * S, 0.0),
        (12 * S, 6.0),
        (12_500_000_000, 0.0),
    ]
    assert trace.counters["power/idle"] == [
        (0, pytest.approx(2.6)),
        (6 * S, pytest.approx(0.6)),
        (7_500_000_000, pytest.approx(2.6)),
        (8 * S, pytest.approx(0.6)),
        (10 * S, 0.0),
        (12 * S, 12.0),
        (12_500_000_000, 0.0),
    ]
    assert trace.counters["power/enlisted idle"] == [(10 * S, pytest.approx(0.6)), (12 * S, 0.0)]


def test_selected_clients_have_tracks_and_power_is_of_all(run):
    trace = trace_of(run, clients=[(1, 5)])

    assert set(trace.slices) == {"server/rounds", "clients/board/client 1"}
    assert trace.counters == trace_of(run).counters


def test_selected_rounds_are_shown_with_their_tasks_alone(run):
    trace = trace_of(run, rounds=(2, 9))

    assert trace.spans("server/rounds")[0][1] == "round 2 (not aggregated)"
    assert trace.spans("clients/phone/client 0")[0][1] == "train: refused"
    assert trace.integral("power/all") == pytest.approx(14.0)
    assert "server/accuracy" not in trace.units


def test_the_same_run_gives_the_same_bytes(run):
    assert write_timeline(open_run(run.folder)).read_bytes() == write_timeline(run).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "fault", "text"),
    [
        ({"clients": [(7, 9)]}, ScenarioError, r"--clients 7:9: none of them .* between 0 and 1"),
        ({"rounds": (3, 9)}, ScenarioError, r"--rounds 3:9: .* no tasks of these .* are 1 to 2"),
        ({"path": "."}, DataError, "is a folder; name a file"),
        ({"path": "missing/file"}, DataError, "cannot be written: .* --out"),
    ],
)
def test_what_cannot_be_shown_or_written_is_refused(run, tmp_path, arguments, fault, text):
    place = {"path": tmp_path / arguments["path"]} if "path" in arguments else {}
    with pytest.raises(fault, match=text):
        write_timeline(run, **(arguments | place))


def test_two_tasks_of_a_client_at_a_time_are_a_contradiction(tmp_path):
    overlapping = [task_row(0, 0), task_row(1, 0, dispatched_at_s=9.0, finished_at_s=19.0)]
    run = write_run(tmp_path / "run", MadeUp(), [round_row(1)], overlapping)

    with pytest.raises(DataError, match=r"tasks.parquet: task 0 of client 0 ends after the next"):
        write_timeline(run)
    assert not list(run.folder.glob("*timeline*"))


@pytest.mark.parametrize("text", ["", "a", "1:", "-1", "1,,2", "1:2:3", "9" * 30])
def test_what_is_no_number_and_no_range_is_refused(text):
    with pytest.raises(ScenarioError, match=r"--clients '.*is no number and no range"):
        parse_ranges(text, "--clients")


SECONDS = st.one_of(
    st.just(0.0), st.floats(1e-10, 1e-8), st.floats(0.01, 100.0), st.floats(1e5, 1e6)
)
JOULES = st.one_of(st.just(0.0), st.floats(0.001, 100.0))
WATTS = st.floats(0.01, 10.0)


@st.composite
def task_tables(draw):
    """Tasks of up to three clients that follow each other, in any order of the rows."""
    rows = []
    for client in range(draw(st.integers(1, 3))):
        now_s = draw(SECONDS)
        for _ in range(draw(st.integers(1, 4))):
            now_s += draw(SECONDS)
            lengths_s = [draw(SECONDS) for _ in range(4)]
            columns = ("download_s", "compute_s", "upload_s", "paused_s")
            finished_s, idle_w = now_s + sum(lengths_s), draw(WATTS)
            waiting_s = draw(SECONDS) if sum(lengths_s[:3]) > 1e-3 else 0.0
            rows.append(
                {
                    "client": client,
                    "device": "ab"[client % 2],
                    "dispatched_at_s": now_s,
                    "finished_at_s": finished_s,
                    "outcome": draw(st.sampled_from(Outcome)),
                    **dict(zip(columns, lengths_s, strict=True)),
                    **{column: draw(JOULES) for column in COMPONENTS.values()},
                    "energy_idle_j": idle_w * sum(lengths_s[:3]),
                    "energy_enlisted_idle_j": idle_w * waiting_s,
                }
            )
            now_s = finished_s + waiting_s
    rows = draw(st.permutations(rows))
    ordered = sorted(range(len(rows)), key=lambda row: rows[row]["dispatched_at_s"])
    numbers = {row: number for number, row in enumerate(ordered)}
    return task_frame(*(task_row(numbers[row], **values) for row, values in enumerate(rows)))


@pytest.mark.slow
@settings(max_examples=15)  # each of up to twelve tasks; reading them back takes the time
@given(tasks=task_tables(), num_together=st.integers(1, 5))
def test_slices_nest_and_power_integrates_to_joules(tasks, num_together):
    parts = trace_parts(
        round_frame(round_row(1)),
        tasks,
        np.ones(len(tasks), dtype=np.bool_),
        source="tasks",
        num_together=num_together,
    )
    trace = reading.read(b"".join(data for _, data in parts))

    spent_j = {name: float(tasks[column].sum()) for name, column in COMPONENTS.items()}
    for component, joules in spent_j.items():
        track = f"power/{component.replace('_', ' ')}"
        assert trace.integral(track) == pytest.approx(joules, rel=1e-6, abs=0.05), component
    assert trace.integral("power/all") == pytest.approx(sum(spent_j.values()), rel=1e-6, abs=0.1)
    clients = [slices for track, slices in trace.slices.items() if "client " in track]
    tops = [one for slices in clients for one in slices if one.depth == 0 and one.details]
    assert len(tops) == len(tasks)
    for slices in clients:
        for depth in (0, 1):
            level = [one for one in slices if one.depth == depth]
            assert all(one.end_ns <= after.begin_ns for one, after in pairwise(level))
        assert max(one.depth for one in slices) <= 1
