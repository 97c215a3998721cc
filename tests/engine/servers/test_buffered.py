"""The buffered server on three clients whose durations are known.

Jetson Nano (CPU) as in test_synchronous: a client with n samples computes for
c(n) = ceil(n / 50) * 0.0305 + 3 n / 4.958 s, and each transfer of the model takes 1 s. A client
that still holds the version it is sent does not download it again. Client k adds k + 1 to every
weight.
"""

import cProfile
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleetsim.contracts import Outcome, ProbeRequest, Work, WorkKind
from fleetsim.engine.servers.buffered import BufferedSettings, window_end_s
from fleetsim.errors import ScenarioError, SimulationError
from fleetsim.learning.aggregation.asynchronous import ConstantStaleness, FedBuffSettings
from tests.engine.memory_recorder import MemoryRecorder
from tests.engine.tiny import FirstCome, RateTrainer, goes_on, task_energies


def compute_s(samples: int) -> float:
    return math.ceil(samples / 50) * 0.0305 + 3 * samples / 4.958


C0, C1, C2 = compute_s(100), compute_s(200), compute_s(300)


def three(tiny, **server):
    tiny.size, tiny.samples = 3, [100, 200, 300]
    tiny.server = {"concurrency": 3, **server}
    return tiny


def test_fedbuff_follows_the_timeline_worked_out_by_hand(tiny):
    # 0: all three start from w0 = 0. C0 + 2: client 0 answers, starts again from w0 (held: no
    # download). C1 + 2: client 1 answers; two in the buffer, w1 = 0 + (1 + 2) / 2 = 1.5.
    # 2 C0 + 3: client 0 answers, base w0, staleness 1. C2 + 2: client 2 answers, staleness 1;
    # w2 = 1.5 + (1 / sqrt 2) (1 + 3) / 2.
    reason = three(tiny, buffer_size=2).run(stop={"rounds": 2})
    first, second, rest = tiny.recorder.rounds
    delivered = [row for row in tiny.recorder.tasks if row.outcome is Outcome.DELIVERED]
    ended = sorted(delivered, key=lambda row: row.finished_at_s)

    assert reason.rule == "rounds"
    assert first.finished_at_s == pytest.approx(C1 + 2)
    assert second.finished_at_s == pytest.approx(C2 + 2)
    assert (first.loss, second.loss) == pytest.approx((1.5, 1.5 + math.sqrt(2)))
    facts = [(row.client, row.staleness, row.round) for row in ended]
    assert facts == [(0, 0, 1), (1, 0, 1), (0, 1, 2), (2, 1, 2)]
    ends_s = [C0 + 2, C1 + 2, 2 * C0 + 3, C2 + 2]
    assert [row.finished_at_s for row in ended] == pytest.approx(ends_s)
    assert (rest.num_delivered, rest.num_cancelled, rest.aggregated) == (0, 2, False)
    assert rest.finished_at_s == second.finished_at_s


def test_a_window_closes_rounds_by_the_clock(tiny):
    three(tiny, window_s=100.0)
    tiny.aggregator = FedBuffSettings(staleness=ConstantStaleness()).build()
    tiny.stop = {"time_s": 250.0}
    tiny.run()
    ends = [row.finished_at_s for row in tiny.recorder.rounds]

    # 100: client 0. 200: client 0 again (base w0, at 2 C0 + 3) and again (base w1, at 3 C0 + 5),
    # clients 1 and 2 (base w0): w2 = w1 + (1 + 1 + 2 + 3) / 4.
    assert ends == [100.0, 200.0, 250.0]
    assert [row.num_delivered for row in tiny.recorder.rounds] == [1, 4, 0]
    assert [row.loss for row in tiny.recorder.rounds[:2]] == pytest.approx([1.0, 1.0 + 7 / 4])


def test_an_answer_at_the_end_of_a_window_counts_and_one_given_up_there_does_not(tiny):
    # Client 0 answers at C0 + 2, clients 1 and 2 are given up there, after the window is over.
    three(tiny, buffer_size=1).run()
    end_s = tiny.recorder.rounds[0].finished_at_s
    three(tiny, window_s=end_s / 2, deadline_s=end_s)
    tiny.run(recorder=MemoryRecorder(), stop={"rounds": 2})
    first = tiny.recorder.rounds[0]
    late = [row for row in tiny.recorder.tasks if row.outcome is Outcome.LATE]

    assert first.finished_at_s == end_s == late[0].finished_at_s
    assert (first.num_delivered, first.num_late) == (1, 0)
    assert {row.round for row in late if row.finished_at_s == end_s} == {2}


def num_calls(run) -> int:
    """Calls of Python functions and steps of generators."""
    profile = cProfile.Profile(builtins=False)
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize("closes", [{"buffer_size": 2}, {"window_s": 1e7}], ids=str)
def test_a_server_to_which_nobody_delivers_works_in_proportion_to_its_tasks(tiny, closes):
    counts = {}
    for tasks in (45, 90, 180):
        three(tiny, deadline_s=1.0, **closes)
        tiny.recorder, tiny.stop = MemoryRecorder(), {"time_s": tasks / 3.0}
        counts[tasks] = num_calls(tiny.build_buffered().run)
        assert {row.outcome for row in tiny.recorder.tasks[:-3]} == {Outcome.LATE}
    first, second = counts[90] - counts[45], counts[180] - counts[90]

    assert second == pytest.approx(2 * first, rel=0.02)


def test_answers_that_are_too_old_are_refused_and_wasted(tiny):
    three(tiny, buffer_size=1, max_staleness=0).run(stop={"time_s": C1 + 2.5})
    rows = {(row.client, row.outcome) for row in tiny.recorder.tasks}

    assert (0, Outcome.DELIVERED) in rows
    assert (1, Outcome.STALE) in rows
    last = tiny.recorder.rounds[-1]
    assert last.energy_wasted_j == pytest.approx(last.energy_j)


def test_a_task_is_given_up_at_its_own_deadline(tiny):
    three(tiny, buffer_size=2, deadline_s=100.0).run(stop={"time_s": 150.0})
    late = [row for row in tiny.recorder.tasks if row.outcome is Outcome.LATE]

    assert [(row.client, row.finished_at_s) for row in late] == [(1, 100.0), (2, 100.0)]


def test_work_that_no_aggregation_uses_is_never_computed(tiny):
    three(tiny, buffer_size=2).run(stop={"rounds": 2})
    server = tiny.server_ran
    trainer = server._parts.learning.trainer

    assert sorted(trainer.computed) == [0, 0, 1, 2]
    assert trainer.jobs == {}


def test_a_selector_that_probes_though_it_says_it_does_not_is_refused(tiny):
    probing = FirstCome({1: [ProbeRequest(0, Work(WorkKind.NONE))]})
    with pytest.raises(ScenarioError, match=r"let it say True, and set server.mode: synchronous"):
        three(tiny, buffer_size=2).run(selector=probing)


@pytest.mark.parametrize("both", [{}, {"buffer_size": 2, "window_s": 5.0}])
def test_exactly_one_thing_closes_rounds(both):
    with pytest.raises(ValueError, match=r"buffer_size (and|or) window_s"):
        BufferedSettings.model_validate({"concurrency": 3, **both})


def busy_world(tiny, *, crash_per_hour=4.0, **server):
    tiny.varied()
    tiny.crash_per_hour = crash_per_hour
    tiny.server = {"concurrency": 5, "max_staleness": 6, "deadline_s": 400.0, **server}
    tiny.stop = {"rounds": 12}


@pytest.mark.slow
@pytest.mark.parametrize(
    "interruption",
    [
        {"kind": "lose"},
        {"kind": "pause", "max_pause_s": 200.0, "resume_s": 3.0},
        {"kind": "partial", "weight": "processed", "upload_when": "eligible"},
    ],
    ids=str,
)
@pytest.mark.parametrize("closes", [{"buffer_size": 3}, {"window_s": 29.7}], ids=str)
def test_a_run_resumed_in_mid_flight_gives_the_same_rows(tiny, closes, interruption):
    """Tasks in flight keep the learning rate of the round they were sent in, which is added."""
    busy_world(tiny, **closes, interruption=interruption)
    tiny.learning_rate_at, tiny.trainer = (lambda round_: 1.0 / round_), RateTrainer()
    if interruption["kind"] != "lose":  # short absences
        text = "0,1,0,1,0 60,0,0,1,0 75,1,1,1,0.3 130,1,0,1,0 150,0,0,0,0 165,1,0,1,0.1"
        tiny.trace(text, span_s=210)
    whole = goes_on(tiny, tiny.build_buffered, after=(1, 6, 12))

    assert 0.0 < (whole.rounds[-1].loss or 0.0) < len(whole.rounds)
    assert {row.outcome for row in whole.tasks} > {Outcome.DELIVERED, Outcome.CANCELLED}
    if interruption["kind"] == "pause":
        assert {row.num_pauses for row in whole.tasks} >= {0, 1, 2}
    if interruption["kind"] == "partial":
        assert any(0.0 < (row.completed_fraction or 0.0) < 1.0 for row in whole.tasks)


# Ten examples: each is a run of six rounds.
@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    concurrency=st.integers(1, 8),
    buffer_size=st.integers(1, 6),
    crash_per_hour=st.sampled_from([0.0, 5.0, 60.0]),
)
def test_in_any_world_staleness_concurrency_and_joules_hold(
    tiny, seed, concurrency, buffer_size, crash_per_hour
):
    tiny.recorder, tiny.seed = MemoryRecorder(), seed
    given = {"concurrency": concurrency, "buffer_size": buffer_size}
    busy_world(tiny, crash_per_hour=crash_per_hour, **given)
    rows = tiny.rows(stop={"rounds": 6, "time_s": 20_000.0}, idle="charged")

    assert all(row.staleness >= 0 for row in rows)
    changes = [(row.dispatched_at_s, 1) for row in rows] + [(row.finished_at_s, -1) for row in rows]
    assert np.cumsum([change for _, change in sorted(changes)]).max(initial=0) <= concurrency
    for client in range(tiny.size):
        spans = sorted((r.dispatched_at_s, r.finished_at_s) for r in rows if r.client == client)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    metered_j = math.fsum(map(np.sum, task_energies(next(tiny.server_ran.clients()))))
    assert metered_j == pytest.approx(sum(row.energy_j for row in rows))
    assert {row.energy_enlisted_idle_j for row in rows} <= {0.0}  # nobody waits for the server


lengths_s = st.floats(1e-6, 1e6)


@given(lengths_s, st.integers(0, 300))
@example(3.3, 0)  # floor(3 * 3.3 / 3.3) + 1 is 3
@example(0.1, 0)
def test_window_after_window_ends_at_the_next_multiple(length_s, first):
    at_s = first * length_s
    for number in range(first + 1, first + 101):
        ends_s = window_end_s(at_s, length_s, is_after=True)

        assert ends_s == number * length_s
        assert ends_s > at_s
        assert window_end_s(ends_s, length_s, is_after=False) == ends_s
        at_s = ends_s


@given(lengths_s, st.floats(0.0, 1e8), st.booleans())
def test_a_moment_lies_in_the_window_that_exact_arithmetic_gives(length_s, at_s, is_after):
    ends_s = window_end_s(at_s, length_s, is_after=is_after)
    before = round(Fraction(ends_s) / Fraction(length_s)) - 1

    assert ends_s >= at_s
    assert ends_s > at_s or not is_after
    assert (before + 1) * length_s == ends_s
    # The window before is over, or is none at all.
    assert before == 0 or before * length_s < at_s or (is_after and before * length_s == at_s)


@pytest.mark.parametrize("length_s", [1e-12, 5e-324])
def test_windows_that_no_clock_can_tell_apart_are_refused(length_s):
    with pytest.raises(SimulationError, match=r"make server\.window_s longer"):
        window_end_s(1e6, length_s, is_after=True)
