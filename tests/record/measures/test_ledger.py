"""Every joule of a run is in its ledger once, by component and energy outcome."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import Outcome, Purpose
from fleetsim.errors import DataError
from fleetsim.record.measures import ledger
from tests.report.rows import round_frame, round_row, task_frame, task_row

NOTHING_J: dict[str, Any] = dict.fromkeys(ledger.COMPONENTS.values(), 0.0)
ROUNDS = round_frame(
    round_row(1, energy_total_j=60.0),
    round_row(2, energy_total_j=120.0, aggregated=False),
    round_row(3, energy_total_j=140.0, aggregated=False, num_selected=0),
)
TASKS = task_frame(
    task_row(0, 7, purpose=Purpose.PROBE),
    task_row(1, 7),
    task_row(2, 3, "board", outcome=Outcome.LATE),
    task_row(3, 3, "board", round=2),
    task_row(4, 7, round=2, outcome=Outcome.CANCELLED),
    task_row(5, 7, round=2, purpose=Purpose.PROBE, outcome=Outcome.OFFLINE),
    task_row(6, 0, round=3, purpose=Purpose.PROBE),
)


def outcome_of(purpose: Purpose, outcome: Outcome, **round_changes: Any) -> str:
    rounds = round_frame(round_row(1, **round_changes))
    tasks = task_frame(task_row(0, 0, purpose=purpose, outcome=outcome))
    return str(ledger.with_energy_outcomes(rounds, tasks)["energy_outcome"].item())


NO_MODEL: dict[str, Any] = {"aggregated": False}
NO_CHOICE: dict[str, Any] = {"aggregated": False, "num_selected": 0}


@pytest.mark.parametrize(("purpose", "round_", "outcome"), [
    (Purpose.TRAIN, {}, "used"),
    (Purpose.TRAIN, NO_MODEL, "unused"),
    (Purpose.PROBE, NO_MODEL, "used"),
    (Purpose.PROBE, NO_CHOICE, "unused"),
    (Purpose.EVALUATE, NO_CHOICE, "used"),
])  # fmt: skip
def test_energy_is_used_if_something_came_of_it_or_has_the_outcome(purpose, round_, outcome):
    lost = [outcome for outcome in Outcome if outcome is not Outcome.DELIVERED]

    assert outcome_of(purpose, Outcome.DELIVERED, **round_) == outcome
    assert [outcome_of(purpose, outcome, **round_) for outcome in lost] == lost


def test_ledger_by_hand():
    rounds = round_frame(round_row(1), round_row(2, aggregated=False))
    tasks = task_frame(
        task_row(0, 5, "phone", **NOTHING_J | {"energy_compute_j": 2.0, "energy_tail_j": 0.5}),
        task_row(1, 5, "phone", **NOTHING_J | {"energy_compute_j": 3.0}),
        task_row(2, 5, "phone", round=2, **NOTHING_J | {"energy_enlisted_idle_j": 7.0}),
        task_row(3, 5, purpose=Purpose.PROBE, **NOTHING_J | {"energy_transmit_j": 0.25}),
        task_row(4, 1, "board", outcome=Outcome.LATE, **NOTHING_J | {"energy_idle_j": 4.0}),
    )

    assert ledger.ledger(rounds, tasks).to_numpy().tolist() == [
        [1, "board", "train", "late", "idle", 4.0],
        [5, "phone", "train", "used", "compute", 5.0],
        [5, "phone", "train", "used", "tail", 0.5],
        [5, "phone", "train", "unused", "enlisted_idle", 7.0],
        [5, "phone", "probe", "used", "transmit", 0.25],
    ]
    none = ledger.ledger(round_frame(), task_frame())
    ledger.check_balance(none, round_frame(), None, run="run")
    assert (list(none.columns), len(none)) == (list(ledger.COLUMNS), 0)


def test_sums_come_in_the_order_of_tables_and_of_fates():
    entries = ledger.ledger(ROUNDS, TASKS)

    by_outcome = {"used": 40.0, "unused": 40.0, "late": 20.0, "offline": 20.0, "cancelled": 20.0}
    assert list(ledger.energy_by(entries, "energy_outcome").items()) == list(by_outcome.items())
    present = ["compute", "receive", "transmit", "tail", "idle"]
    assert list(ledger.energy_by(entries, "component").index) == present
    assert list(ledger.energy_by(entries, "purpose").index) == ["train", "probe"]
    assert ledger.energy_by(entries, "client", "purpose").to_dict() == {
        (0, "probe"): 20.0,
        (3, "train"): 40.0,
        (7, "train"): 40.0,
        (7, "probe"): 40.0,
    }


@pytest.mark.parametrize(
    "keys", [(), ("energy_j",), ("energy_outcome", "energy_outcome"), ("round",)]
)
def test_other_keys_are_refused(keys):
    with pytest.raises(ValueError, match="keys must be one or more of client, device, purpose"):
        ledger.energy_by(ledger.ledger(ROUNDS, TASKS), *keys)


joules = st.floats(0.0, 1e6) | st.just(0.0)
keys_of_tasks = st.fixed_dictionaries(
    {
        "round": st.integers(1, 4),
        "purpose": st.sampled_from(Purpose),
        "outcome": st.sampled_from(Outcome),
    }
)
some_tasks = st.lists(
    st.tuples(st.integers(0, 5), st.tuples(*[joules] * 6), keys_of_tasks), max_size=30
)


# Twenty examples: pandas takes 30 ms for one.
@pytest.mark.slow
@settings(max_examples=20)
@given(some_tasks, st.tuples(*[st.booleans()] * 4), st.sets(st.sampled_from(ledger.KEYS)))
def test_sums_by_any_keys_are_all_the_joules(tasks, aggregated, keys):
    made = enumerate(aggregated, 1)
    rounds = [round_row(n, aggregated=is_so, num_selected=int(is_so)) for n, is_so in made]
    rows = []
    for number, (client, spent, keys_of_task) in enumerate(tasks):
        joules_of = dict(zip(ledger.COMPONENTS.values(), spent, strict=True))
        rows.append(task_row(number, client, f"device-{client % 2}", **keys_of_task, **joules_of))
    entries = ledger.ledger(round_frame(*rounds), task_frame(*rows))
    by = ledger.energy_by(entries, *(sorted(keys) or ["energy_outcome"]))
    wasted_j = math.fsum(r.energy_j for r in rows if r.outcome is not Outcome.DELIVERED)

    assert math.fsum(by) == pytest.approx(math.fsum(row.energy_j for row in rows), rel=1e-12)
    assert math.fsum(
        entries.energy_j[~entries.energy_outcome.isin(["used", "unused"])]
    ) == pytest.approx(wasted_j, rel=1e-12)
    assert not entries.duplicated(list(ledger.KEYS)).any()
    assert (entries["energy_j"] > 0.0).all()


def meters(tasks: pd.DataFrame, size: int = 8) -> pd.DataFrame:
    columns = list(ledger.COMPONENTS.values())
    sums = tasks.groupby("client")[columns].sum().reindex(range(size), fill_value=0.0)
    return sums.reset_index()


OTHER_CLIENT = TASKS.assign(client=np.where(TASKS.task == 2, 4, TASKS.client))
SWAPPED = TASKS.assign(energy_tail_j=TASKS.energy_idle_j, energy_idle_j=TASKS.energy_tail_j)
WAITING = TASKS.assign(energy_enlisted_idle_j=TASKS.energy_idle_j, energy_idle_j=0.0)
UNMETERED = meters(WAITING).drop(columns="energy_enlisted_idle_j")


@pytest.mark.parametrize(("tasks", "clients", "message"), [
    (TASKS.iloc[1:], meters(TASKS), r"joules do not add up: its tasks spent 120\.0 J"),
    (SWAPPED, meters(TASKS), r"client 0 spent 6\.0 J on tail, .* 5\.0 J; run the"),
    (OTHER_CLIENT, meters(TASKS), r"client 3 spent 2\.0 J on compute, its meter says 4\.0 J"),
    (WAITING, UNMETERED, r"client 0 spent 6\.0 J on enlisted_idle, its meter says 0\.0 J"),
    (TASKS, meters(TASKS, size=5), "has a task of client 7, but 5 clients; run"),
])  # fmt: skip
def test_a_ledger_that_does_not_agree_is_refused_by_name(tasks, clients, message):
    with pytest.raises(DataError, match=rf"^runs/a: .*{message}"):
        ledger.check_balance(ledger.ledger(ROUNDS, tasks), ROUNDS, clients, run="runs/a")
    ledger.check_balance(ledger.ledger(ROUNDS, WAITING), ROUNDS, meters(WAITING), run="runs/a")
