"""The tables of measures, of a report and of a comparison."""

from pathlib import Path
from typing import Any

import pytest

from fleetsim.contracts import Purpose, TaskRow
from fleetsim.errors import ScenarioError
from fleetsim.record.saved_run import Run
from fleetsim.report.pages import measures
from fleetsim.report.pages.measures import ScoreBudgets
from tests.report.made_runs import MadeUp, reworded, write_run
from tests.report.rows import round_row, task_row

# Of 4 clients 0 and 1 in rounds 1 and 2, 2 and 3 in round 4. Every round costs 100 J.
ROUNDS = [
    round_row(1, 0.2, num_selected=2, waiting_s=3.0),
    round_row(2, 0.5, num_selected=2, waiting_s=5.0),
    round_row(3, 0.3, num_selected=0),
    round_row(4, 0.4, num_selected=2),
]


def spending(task: int, client: int, round_: int, energy_j: float, **changes: Any) -> TaskRow:
    names = ("compute", "receive", "transmit", "tail", "idle")
    joules = {f"energy_{name}_j": 0.0 for name in names} | {"energy_compute_j": energy_j}
    return task_row(task, client, round=round_, **(joules | changes))


TASKS = [
    spending(0, 0, 1, 50.0),
    spending(1, 1, 1, 50.0, compute_s=10.0),
    spending(2, 0, 2, 200.0),
    spending(3, 1, 2, 0.0, compute_s=8.0),
    spending(4, 2, 4, 100.0),
    spending(5, 3, 4, 0.0),
]


def made(folder: Path, rows: list[TaskRow] = TASKS, **changes: Any) -> Run:
    return write_run(folder, MadeUp(**({"size": 4, "num_rounds": 4} | changes)), ROUNDS, rows)


def test_the_report_says_every_measure_with_its_paper(tmp_path: Path) -> None:
    # Computing: 10 - 6, 8 - 6 and 6 - 6 s. Accuracy: mean .35, .5 is .15 off.
    assert measures.table(made(tmp_path / "run")).rows == [
        ("accuracy at 15 % of 4 rounds", "20.0 %", "GPFL, Table II"),
        ("accuracy at 50 % of 4 rounds", "50.0 %", "GPFL, Table II"),
        ("accuracy at 100 % of 4 rounds", "40.0 %", "GPFL, Table II"),
        ("accuracy, mean of the last 10 rounds", "35.0 %, within 15.0 points", "GPFL, Table II"),
        ("average waiting, whole task", "4.00 s", "FedGRA, VI-D"),
        ("average waiting, computing alone", "2.00 s", "FedGRA, VI-D"),
        ("fleet selected in a round", "37.5 %, 0.0 % to 50.0 %", "FedGCS, Fig. 6"),
        ("fleet ever selected", "100.0 %", "GPFL, Fig. 4"),
        ("rounds to select 90 %", "4", "GPFL, VI-C"),
        ("rounds to select all", "4", "GPFL, VI-C"),
    ]


def test_what_means_nothing_has_no_row(tmp_path: Path) -> None:
    run = reworded(made(tmp_path / "run", size=5), "server:\n", "server:\n  mode: buffered\n")
    blind = write_run(tmp_path / "blind", MadeUp(size=4), [round_row(1)])
    nothing = write_run(tmp_path / "nothing", MadeUp(), [])

    # Nobody waits for a buffered server, and its rounds are no choices.
    assert [row[:2] for row in measures.table(run).rows[4:]] == [
        ("fleet ever selected", "80.0 %"),
        ("rounds to select 90 %", "never"),
        ("rounds to select all", "never"),
    ]
    # One round, never evaluated: no accuracy, no deviation, nobody to wait for.
    assert [row[0] for row in measures.table(blind).rows] == [
        "fleet selected in a round",
        "fleet ever selected",
        "rounds to select 90 %",
        "rounds to select all",
    ]
    assert measures.table(nothing).rows == []


def test_the_last_mean_opinion_is_told(tmp_path: Path) -> None:
    probe = {"purpose": Purpose.PROBE, "energy_compute_j": 0.0}
    rows = [
        *TASKS,
        *(
            spending(10 + n, n, round_, 0.0, opinion=opinion, **probe)
            for n, (round_, opinion) in enumerate([(2, 0.9), (4, 0.25), (4, 0.75)])
        ),
    ]

    assert measures.table(made(tmp_path / "run", rows)).rows[-1] == (
        "mean opinion after round 3",
        "50.0 %",
        "Tong et al., equation 8",
    )


def test_budgets_belong_together() -> None:
    assert measures.budgets(None, None) is None
    assert measures.budgets(60.0, 5.0) == ScoreBudgets(60.0, 5.0)
    with pytest.raises(ScenarioError, match="--budget-s and --budget-j belong together"):
        measures.budgets(60.0, None)
    with pytest.raises(ScenarioError, match="--budget-j 0: must be above 0"):
        measures.budgets(60.0, 0.0)
    with pytest.raises(ScenarioError, match="--budget-s nan: must be above 0"):
        measures.budgets(float("nan"), 1.0)
