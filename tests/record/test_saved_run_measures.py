"""The measures of a run, worked out by hand from its rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose, TaskRow
from fleetsim.record.manifest import write_manifest
from fleetsim.record.saved_run import Run, open_run
from tests.report.made_runs import MadeUp, reworded, write_run
from tests.report.rows import round_row, task_row

# Round, client, device, seconds of computing, outcome: of 5 clients, 4 is never selected.
TRAINED = [
    (1, 0, "phone", 5.0, Outcome.DELIVERED),
    (1, 1, "board", 11.0, Outcome.DELIVERED),
    (1, 2, "phone", 99.0, Outcome.LATE),
    (2, 0, "phone", 4.0, Outcome.DELIVERED),
    (3, 3, "board", 9.0, Outcome.DELIVERED),
    (3, 0, "phone", 7.0, Outcome.DELIVERED),
]
# 10 s a round, 100 J each.
ROUNDS = [
    round_row(1, 0.2, num_selected=3, waiting_s=20.0),
    round_row(2, None, num_selected=1),
    round_row(3, 0.6, num_selected=2, waiting_s=7.0, idle_s=2.0),
    round_row(4, 0.5, num_selected=0),
]


BUDGETS = {"budget_s": 1.0, "budget_j": 1.0}


def tasks() -> list[TaskRow]:
    trained = [
        task_row(
            n, client, device, round=round_, compute_s=compute_s, outcome=outcome, **spent(100.0)
        )
        for n, (round_, client, device, compute_s, outcome) in enumerate(TRAINED)
    ]
    # A probe is no selection.
    return [*trained, task_row(9, 4, round=4, purpose=Purpose.PROBE, **spent(0.0))]


def spent(energy_j: float) -> dict[str, Any]:
    names = ("compute", "receive", "transmit", "tail", "idle")
    return {f"energy_{name}_j": 0.0 for name in names} | {"energy_compute_j": energy_j}


def made(folder: Path, rows: list[TaskRow] | None = None, **changes: Any) -> Run:
    return write_run(folder, MadeUp(size=5, **changes), ROUNDS, tasks() if rows is None else rows)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made(tmp_path / "run", num_rounds=4)


def test_accuracy_at_shares_of_the_planned_rounds(tmp_path: Path):
    # 4 of 8 planned rounds: 15 % are 2 rounds (1.2 up), 37.5 % are 3, all were never played.
    run = made(tmp_path / "run", num_rounds=8)

    assert run.horizon_rounds == 8
    assert (run.accuracy_at(0.15), run.accuracy_at(0.375)) == (0.2, 0.6)
    assert run.accuracy_at(0.5) == 0.5
    assert run.accuracy_at(1.0) is None
    # A run that was accurate enough to stop keeps its last model.
    write_manifest(run.folder, run.manifest.model_copy(update={"stop_rule": "accuracy"}))
    assert open_run(run.folder).accuracy_at(1.0) == 0.5


def test_without_a_plan_the_horizon_is_what_a_complete_run_took(tmp_path):
    for status, horizon in (("done", 4), ("interrupted", None)):
        run = reworded(made(tmp_path / status, status=status), "rounds: 12", "rounds: null")

        assert run.horizon_rounds == horizon
        assert run.accuracy_at(1.0) == (None if horizon is None else 0.5)
    blank = write_run(tmp_path / "run", MadeUp(size=5), [round_row(1)])
    values = (blank.accuracy_at(1.0), blank.ending(), blank.comprehensive_score(**BUDGETS))
    assert values == (None, None, None)


def test_waiting_of_whole_tasks_and_of_the_computing_alone(run: Run):
    # Whole tasks: the rounds table, 20 and 7. Computing: 11 - 5 and 9 - 7; the late one is not in.
    assert run.average_waiting_s() == 13.5
    assert run.average_waiting_s(computing_alone=True) == 4.0


def test_who_was_seen_when_and_how_often(tmp_path: Path):
    # 0, 1, 2 in round 1, 3 in round 3, 4 in a round that was cut off.
    run = made(tmp_path / "run", [*tasks(), task_row(99, 4, round=5)], status="interrupted")
    assert run.share_seen().tolist() == [0.6, 0.6, 0.8, 0.8]
    assert (run.rounds_to_seen(0.6), run.rounds_to_seen(0.8)) == (1, 3)
    assert run.rounds_to_seen() is None
    assert run.selection_counts().tolist() == [3, 1, 1, 1, 0]
    with pytest.raises(ValueError, match="share must be above 0 and at most 1, got 90"):
        run.rounds_to_seen(90)


def test_the_ratio_and_the_devices_of_every_round(run):
    devices = run.selected_devices()

    assert run.selection_ratio() == pytest.approx([0.6, 0.2, 0.4, 0.0])
    assert devices is not None
    assert devices.index.tolist() == [1, 2, 3]
    assert devices["phone"].tolist() == pytest.approx([2 / 3, 1.0, 0.5])
    assert devices["board"].tolist() == pytest.approx([1 / 3, 0.0, 0.5])


def test_rounds_of_a_buffered_server_are_no_choices(tmp_path):
    run = reworded(made(tmp_path / "buffered"), "server:\n", "server:\n  mode: buffered\n")

    assert run.selection_ratio() is None
    assert run.selected_devices() is None
    assert run.selection_scores(**BUDGETS) is None
    assert run.share_seen().tolist() == [0.6, 0.6, 0.8, 0.8]
    assert run.average_waiting_s() is None
    assert run.average_waiting_s(computing_alone=True) is None
    with pytest.raises(ValueError, match="buffered: a buffered server has no slots"):
        run.regret(run)


def test_the_score_of_a_run_and_of_every_selection_by_hand(run: Run):
    # .5 after 40 s and 400 J: in both budgets; twice the time and four times the energy.
    assert run.comprehensive_score(budget_s=40.0, budget_j=400.0) == 0.5
    assert run.comprehensive_score(budget_s=20.0, budget_j=100.0) == 0.125 / 16
    assert run.comprehensive_score(
        budget_s=20.0, budget_j=100.0, latency_penalty=1.0, energy_penalty=0.5
    ) == pytest.approx(0.125)
    # 10 s a round, 8 of the third without idling; 100 J each. Budgets 8 s and 50 J: the energy
    # costs a factor of 4 everywhere, the time (8/10)^2 but in the third.
    scores = run.selection_scores(budget_s=8.0, budget_j=50.0)
    assert scores == pytest.approx([0.032, np.nan, 0.15, 0.08], nan_ok=True)


def test_regret_by_hand(tmp_path):
    def with_accuracy(name: str, *accuracy: float | None, **changes: Any) -> Run:
        rows = [round_row(n, value) for n, value in enumerate(accuracy, 1)]
        return write_run(tmp_path / name, MadeUp(**changes), rows)

    run = with_accuracy("run", 0.1, 0.3, 0.4, None, 0.9, 0.7)
    best = with_accuracy("best", 0.5, 0.6, 0.6, 0.7, 0.8)

    # .4, .3, .2, nothing, -.1; the best set has no sixth round.
    assert run.regret(best) == pytest.approx([0.4, 0.7, 0.9, 0.9, 0.8])
    # Slots of two rounds end with rounds 2 and 4.
    assert run.regret(best, slot_rounds=2) == pytest.approx([0.3, 0.3])
    assert best.regret(best).tolist() == [0.0] * 5
    with pytest.raises(ValueError, match=r"other: has another world than .*run$"):
        run.regret(with_accuracy("other", 0.5, seed=2))


def test_opinions_stand_with_the_round_that_was_judged(tmp_path):
    ask = {"purpose": Purpose.PROBE, **spent(0.0)}
    rows = [
        task_row(0, 0, round=2, **spent(600.0)),
        task_row(1, 3, round=2, opinion=0.25, **ask),
        task_row(2, 1, round=2, opinion=0.75, **ask),
        task_row(3, 4, round=2, outcome=Outcome.LINK, **ask),
        task_row(4, 1, round=2, belief=0.875, **ask),
        task_row(5, 1, round=4, opinion=0.5, **ask),
    ]
    opinions = made(tmp_path / "run", rows).opinions()

    assert (opinions["round"].tolist(), opinions["client"].tolist()) == ([1, 1, 3], [1, 3, 1])
    assert opinions["opinion"].tolist() == [0.75, 0.25, 0.5]
    assert opinions["belief"].tolist() == pytest.approx([0.875, np.nan, np.nan], nan_ok=True)
