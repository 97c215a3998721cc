"""Measures of a selection, besides the examples in their docstrings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import DataError
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
from tests.report.rows import round_frame, round_row

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

    assert accuracy_at(accuracy, 0.15, 20) == 0.3
    assert accuracy_at(accuracy, 0.5, 20) == 0.4
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
