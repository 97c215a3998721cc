"""Measures of a selection, besides the examples in their docstrings."""

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
from fleetsim.record.measures.cost_to_target import (
    energy_to_accuracy,
    rounds_to_accuracy,
    time_to_accuracy,
)
from fleetsim.record.measures.selection_measures import (
    accuracy_at,
    at_slot_ends,
    comprehensive_score,
    diagnostics,
    ending,
    regret,
    rounds_to_share,
    share_seen,
    waiting_s,
)
from tests.report.rows import round_frame, round_row, task_frame, task_row

ONES = np.ones(5)
ONE_ROUND, ONE_CLIENT = np.array([1]), np.array([0])


def test_ten_rounds_end_a_run_and_those_not_evaluated_are_left_out():
    # Rounds 2 to 11; only 2, 6 and 11 were evaluated: .4, .5, .9, mean .6; 1 is too old.
    accuracy = np.full(11, math.nan)
    accuracy[[0, 1, 5, 10]] = [0.0, 0.4, 0.5, 0.9]

    assert ending(accuracy) == pytest.approx((0.6, 0.3))
    assert ending(np.full(3, math.nan)) is None
    assert ending(np.empty(0)) is None


@pytest.mark.slow
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.tuples(st.integers(1, 8), st.integers(0, n - 1)), max_size=20).map(
            lambda tasks: (n, tasks)
        )
    )
)
def test_the_share_seen_counts_sets(made):
    num_clients, tasks = made
    rounds = np.array([r for r, _ in tasks], dtype=np.int64)
    clients = np.array([c for _, c in tasks], dtype=np.int64)
    slow = [len({c for r, c in tasks if r <= round_}) / num_clients for round_ in range(1, 9)]
    shares = share_seen(rounds, clients, 8, num_clients)

    assert shares.tolist() == slow
    for target in (0.5, 1.0):
        reached = [number for number, share in enumerate(slow, 1) if share >= target]
        assert rounds_to_share(shares, target) == min(reached, default=None)


def test_accuracy_at_a_share_of_the_horizon_is_that_of_the_last_evaluated_model():
    # Of 20 planned rounds 15 % are 3, 50 % are 10, 51 % begin an eleventh; 12 were played.
    accuracy = np.array([0.1, 0.2, 0.3, 0.4] + [math.nan] * 6 + [0.8, 0.9])

    assert (accuracy_at(accuracy, 0.15, 20), accuracy_at(accuracy, 0.5, 20)) == (0.3, 0.4)
    assert accuracy_at(accuracy, 0.51, 20) == 0.8
    assert accuracy_at(accuracy, 1.0, 20) is None
    assert accuracy_at(accuracy, 1.0, 12) == 0.9
    assert accuracy_at(np.full(3, math.nan), 1.0, 3) is None
    hundred = [accuracy_at(np.arange(1.0, 101.0), n / 100, 100) for n in range(1, 101)]
    assert hundred == list(range(1, 101))


@pytest.mark.parametrize(("measure", "arguments", "message"), [
    (ending, (ONES, 0), "num_rounds must be at least 1, got 0"),
    (waiting_s, (ONE_ROUND, np.array([math.nan])), "0 or more, got nan"),
    (share_seen, (np.array([0]), ONE_CLIENT, 3, 2), "a round must be 1 to 3, got 0"),
    (share_seen, (ONE_ROUND, np.array([2]), 3, 2), "a client must be 0 to 1, got 2"),
    (share_seen, (ONE_ROUND, ONE_CLIENT, 3, 0), "num_clients must be at least 1, got 0"),
    (regret, (ONES, np.ones(2)), "5 slots but 2 of the best set"),
    (accuracy_at, (ONES, 0.0, 5), "fraction must be above 0 and at most 1, got 0.0"),
    (accuracy_at, (ONES, 0.5, 0), "horizon_rounds must be at least 1, got 0"),
    (at_slot_ends, (ONES, 0), "slot_rounds must be at least 1, got 0"),
    (rounds_to_accuracy, (round_frame(), 85.0), r"fraction in \(0, 1\], got 85.0"),
    (rounds_to_accuracy, (round_frame(), math.nan), r"fraction in \(0, 1\], got nan"),
])  # fmt: skip
def test_what_no_run_has_is_refused(measure, arguments, message):
    with pytest.raises(ValueError, match=message):
        measure(*arguments)


budgets = st.floats(0.1, 1e3)
spent = st.floats(0.0, 1e4)
exponents = st.floats(0.0, 4.0)


@given(spent, spent, budgets, budgets, exponents, exponents)
def test_the_score_is_the_printed_formula(latency_s, energy_j, budget_s, budget_j, a, b):
    printed = 0.5
    if budget_s < latency_s:
        printed *= (budget_s / latency_s) ** a
    if budget_j < energy_j:
        printed *= (budget_j / energy_j) ** b
    score = comprehensive_score(
        np.array([0.5]),
        np.array([latency_s]),
        np.array([energy_j]),
        budget_s=budget_s,
        budget_j=budget_j,
        latency_penalty=a,
        energy_penalty=b,
    )

    assert score[0] == pytest.approx(printed)


# Evaluated in rounds 2, 4 and 5; better in 4 than in 5. A round takes 10 s and 100 J.
ACCURACIES = (None, 0.5, None, 0.8, 0.7)
ROUNDS = round_frame(*(round_row(n, accuracy) for n, accuracy in enumerate(ACCURACIES, 1)))


@pytest.mark.parametrize(
    ("target", "round_"), [(0.3, 2), (0.5, 2), (0.6, 4), (0.8, 4), (0.81, None)]
)
def test_first_evaluated_round_at_or_above_the_target_decides(target, round_):
    assert rounds_to_accuracy(ROUNDS, target) == round_
    assert time_to_accuracy(ROUNDS, target) == (round_ and 10.0 * round_)
    assert energy_to_accuracy(ROUNDS, target) == (round_ and 100.0 * round_)
    # Without training, and without rounds.
    assert time_to_accuracy(round_frame(round_row(1)), target) is None
    assert energy_to_accuracy(round_frame(), target) is None


def frame_of(*texts):
    rows = [round_row(n, selector_diagnostics=text) for n, text in enumerate(texts, start=1)]
    return round_frame(*rows)


def test_numbers_are_rows_by_round_name_and_step():
    numbers = diagnostics(
        frame_of('{"loss": 0.1, "ascent": [1.0, 2]}', None, '{"loss": -3e-5}'), run="r"
    )

    assert list(numbers.columns) == ["round", "name", "step", "value"]
    assert [tuple(row) for row in numbers.itertuples(index=False)] == [
        (1, "ascent", 0, 1.0),
        (1, "ascent", 1, 2.0),
        (1, "loss", 0, 0.1),
        (3, "loss", 0, -3e-5),
    ]


OTHER = ["{", "[1.0]", '{"loss": "1"}', '{"loss": true}', '{"loss": [[1.0]]}', '{"loss": NaN}']


@pytest.mark.parametrize("text", [*OTHER, '{"loss": 1e999}', 100_000 * "["])
def test_a_text_of_anything_else_is_refused_with_its_place_and_the_way_out(text):
    message = (
        r"^runs/a: rounds table, selector_diagnostics of round 2: .*; restore the file, or run"
    )
    with pytest.raises(DataError, match=message):
        diagnostics(frame_of(None, text), run="runs/a")


NOTHING_J: dict[str, Any] = dict.fromkeys(ledger.COMPONENTS.values(), 0.0)
ENERGY = round_frame(
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
    entries = ledger.ledger(ENERGY, TASKS)

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
        ledger.energy_by(ledger.ledger(ENERGY, TASKS), *keys)


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
        ledger.check_balance(ledger.ledger(ENERGY, tasks), ENERGY, clients, run="runs/a")
    ledger.check_balance(ledger.ledger(ENERGY, WAITING), ENERGY, meters(WAITING), run="runs/a")
