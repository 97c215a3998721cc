"""Measures of a selection, besides the examples in their docstrings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.record.measures.selection_measures import (
    accuracy_at,
    at_slot_ends,
    ending,
    regret,
    rounds_to_share,
    share_seen,
    waiting_s,
)

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


@pytest.mark.parametrize(
    ("measure", "arguments", "says"),
    [
        (ending, (ONES, 0), "num_rounds must be at least 1, got 0"),
        (waiting_s, (ONE_ROUND, np.array([math.nan])), "0 or more, got nan"),
        (share_seen, (np.array([0]), ONE_CLIENT, 3, 2), "a round must be 1 to 3, got 0"),
        (share_seen, (ONE_ROUND, np.array([2]), 3, 2), "a client must be 0 to 1, got 2"),
        (share_seen, (ONE_ROUND, ONE_CLIENT, 3, 0), "num_clients must be at least 1, got 0"),
        (regret, (ONES, np.ones(2)), "5 slots but 2 of the best set"),
        (accuracy_at, (ONES, 0.0, 5), "fraction must be above 0 and at most 1, got 0.0"),
        (accuracy_at, (ONES, 0.5, 0), "horizon_rounds must be at least 1, got 0"),
        (at_slot_ends, (ONES, 0), "slot_rounds must be at least 1, got 0"),
    ],
)
def test_what_no_run_has_is_refused(measure, arguments, says):
    with pytest.raises(ValueError, match=says):
        measure(*arguments)
