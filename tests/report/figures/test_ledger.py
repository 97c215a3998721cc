"""The energy ledger in reports: its table, its figures, energy by client."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from fleetsim.contracts import Outcome, Purpose
from fleetsim.errors import DataError
from fleetsim.record.measures.ledger import ledger
from fleetsim.report.figures import energy_inequality, style
from fleetsim.report.figures import ledger as shown
from fleetsim.report.pages import ledger_tables
from tests.report.drawn import tick_labels, widths, words, x_of, y_of
from tests.report.made_runs import MadeUp, write_run
from tests.report.rows import client_frame, round_frame, round_row, task_frame, task_row

ROUNDS = round_frame(round_row(1), round_row(2, aggregated=False))
TASKS = task_frame(
    task_row(0, 0, "board"),
    task_row(1, 0, "board", energy_compute_j=12.0, outcome=Outcome.LATE),
    task_row(2, 2, round=2, energy_tail_j=0.0, energy_idle_j=0.0),
    task_row(3, 2, round=2, purpose=Purpose.PROBE, energy_compute_j=982.0),
)  # 20 J used, 30 J late, 9 J unused, 1 kJ used by probing
ENTRIES = ledger(ROUNDS, TASKS)
NONE = ledger(round_frame(), task_frame())
CLIENTS = client_frame(["board", "phone", "phone", "phone"], [2, 0, 1, 0])


def test_table_by_hand() -> None:
    table = ledger_tables.table(ENTRIES)

    assert table.columns == ("joules of", "used", "unused", "late", "all", "share of all")
    assert table.rows == [
        ("compute", "984 J", "2.00 J", "12.0 J", "998 J", "94.2 %"),
        ("receive", "6.00 J", "3.00 J", "3.00 J", "12.0 J", "1.1 %"),
        ("transmit", "8.00 J", "4.00 J", "4.00 J", "16.0 J", "1.5 %"),
        ("radio tail", "10.0 J", "-", "5.00 J", "15.0 J", "1.4 %"),
        ("idle, awake", "12.0 J", "-", "6.00 J", "18.0 J", "1.7 %"),
        ("train tasks", "20.0 J", "9.00 J", "30.0 J", "59.0 J", "5.6 %"),
        ("probes", "1.00 kJ", "-", "-", "1.00 kJ", "94.4 %"),
        ("all", "1.02 kJ", "9.00 J", "30.0 J", "1.06 kJ", "100.0 %"),
        ("share of all", "96.3 %", "0.8 %", "2.8 %", "100.0 %", ""),
    ]


def test_a_run_that_spent_nothing_has_a_table_and_figures_that_say_so() -> None:
    figures = (
        shown.by_component_and_outcome(NONE),
        shown.side_by_side({"a": NONE}),
        energy_inequality.energy_by_client(NONE, CLIENTS.iloc[:0]),
        energy_inequality.energy_by_client(NONE, CLIENTS),
    )

    assert ledger_tables.table(NONE).rows == [("all", "0 J", "-"), ("share of all", "-", "")]
    for figure in figures:
        assert "no energy was spent" in words(figure)
        assert style.encode(figure, ["svg"])


def test_each_purpose_has_a_panel_with_every_joule_in_it_once() -> None:
    train, probe = shown.by_component_and_outcome(ENTRIES).axes

    parts = ["compute", "receive", "transmit", "radio tail", "idle, awake"]
    assert tick_labels(train)[::-1] == parts
    assert widths(train, "used")[::-1] == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert widths(train, "unused")[::-1] == [2.0, 3.0, 4.0, 0.0, 0.0]
    assert widths(train, "late")[::-1] == [12.0, 3.0, 4.0, 5.0, 6.0]
    assert sum(sum(widths(probe, outcome)) for outcome in ("used", "unused", "late")) == 1000.0
    assert (train.get_xlabel(), probe.get_xlabel()) == ("energy (J)", "energy (J)")


@pytest.mark.slow
@given(
    np_st.arrays(
        np.float64, st.integers(1, 30), elements=st.just(0.0) | st.floats(1e-3, 1e6)
    ).filter(np.any)
)
def test_gini_is_half_the_mean_difference_of_all_pairs_over_the_mean(energy_j) -> None:
    differences = np.abs(energy_j[:, np.newaxis] - energy_j)
    defined = float(differences.mean() / (2.0 * energy_j.mean()))

    assert energy_inequality.gini(energy_j) == pytest.approx(defined, abs=1e-9)


def test_energy_by_client_counts_clients_that_paid_nothing() -> None:
    figure = energy_inequality.energy_by_client(ENTRIES, CLIENTS)
    curve = figure.axes[0].get_lines()[0]

    # 0, 0, 50 and 1009 J.
    assert x_of(curve) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert y_of(curve) == pytest.approx([0.0, 0.0, 0.0, 50 / 1059, 1.0])
    assert "Gini index 0.73" in figure.axes[0].get_title(loc="left")
    assert "1 of 4 clients spent 95.3 % of 1.06 kJ" in figure.get_suptitle()
    assert tick_labels(figure.axes[1]) == ["board  #0", "phone  #2"]
    assert widths(figure.axes[1], "used") == pytest.approx([0.02, 1.0])
    assert widths(figure.axes[1], "unused") == pytest.approx([0.0, 0.009])


def test_a_run_without_meters_is_held_to_its_rounds(tmp_path: Path) -> None:
    tasks = [task_row(0, 0), task_row(1, 1, round=2)]
    made = MadeUp(status="interrupted")
    whole = write_run(tmp_path / "a", made, [round_row(1, energy_total_j=20.0)], tasks)
    broken = write_run(tmp_path / "b", made, [round_row(1, energy_total_j=40.0)], tasks)

    assert whole.ledger()["energy_j"].sum() == 20.0
    with pytest.raises(
        DataError, match=r"b: joules do not add up: its tasks spent 20\.0 J, its ro"
    ):
        broken.ledger()
