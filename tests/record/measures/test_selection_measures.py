from __future__ import annotations

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


def test_the_ending_is_the_mean_and_the_largest_deviation_of_the_last_rounds():
    # The last three: .6, .7, .2, mean .5, deviations +.1, +.2, -.3; before them .9 counts nothing.
    result = ending(np.array([0.9, 0.6, 0.7, 0.2]), 3)

    assert result is not None
    assert result.mean == pytest.approx(0.5)
    assert result.largest_deviation == pytest.approx(0.3)


def test_ten_rounds_end_a_run_and_those_not_evaluated_are_left_out():
    # Rounds 2 to 11; only 2, 6 and 11 were evaluated: .4, .5, .9, mean .6; 1 is too old.
    accuracy = np.full(11, math.nan)
    accuracy[[0, 1, 5, 10]] = [0.0, 0.4, 0.5, 0.9]
    result = ending(accuracy)

    assert result == pytest.approx((0.6, 0.3))
    assert ending(np.full(3, math.nan)) is None
    assert ending(np.empty(0)) is None
    with pytest.raises(ValueError, match="num_rounds must be at least 1, got 0"):
        ending(accuracy, 0)


def test_each_round_waits_for_its_slowest():
    # Round 1: 9 - 2; round 4: 5 - 5; round 3 has one client and says nothing.
    rounds = np.array([1, 3, 4, 1, 4, 1])
    waited = waiting_s(rounds, np.array([4.0, 7.0, 5.0, 9.0, 5.0, 2.0]))

    assert waited.tolist() == [7.0, 0.0]
    assert waiting_s(np.empty(0, dtype=np.int64), np.empty(0)).size == 0
    with pytest.raises(ValueError, match="0 or more, got nan"):
        waiting_s(np.array([1]), np.array([math.nan]))


def test_the_share_seen_by_hand():
    # Of four clients: 0 and 3 in round 1, 3 again in round 2, 1 in round 4.
    shares = share_seen(np.array([1, 1, 2, 4]), np.array([0, 3, 3, 1]), 5, 4)

    assert shares.tolist() == [0.5, 0.5, 0.5, 0.75, 0.75]
    assert rounds_to_share(shares, 0.5) == 1
    assert rounds_to_share(shares, 0.75) == 4
    assert rounds_to_share(shares) is None


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

    assert share_seen(rounds, clients, 8, num_clients).tolist() == slow


@pytest.mark.parametrize(
    ("round_", "client", "num_clients", "message"),
    [
        (0, 0, 2, "a round must be 1 to 3, got 0"),
        (4, 0, 2, "a round must be 1 to 3, got 4"),
        (1, 2, 2, "a client must be 0 to 1, got 2"),
        (1, 0, 0, "num_clients must be at least 1, got 0"),
    ],
)
def test_who_is_in_no_round_or_fleet_is_refused(round_, client, num_clients, message):
    with pytest.raises(ValueError, match=message):
        share_seen(np.array([round_]), np.array([client]), 3, num_clients)


def test_regret_adds_up_what_the_best_set_would_have_brought():
    # .9 - .5, .9 - .9, .9 - .7 against one number; against its own course .6, .8, .9: -.1 counts.
    rewards = np.array([0.5, 0.9, 0.7])

    assert regret(rewards, 0.9) == pytest.approx([0.4, 0.4, 0.6])
    assert regret(rewards, np.array([0.6, 0.8, 0.9])) == pytest.approx([0.1, 0.0, 0.2])
    assert regret(np.array([0.5, math.nan, 0.5]), 1.0).tolist() == [0.5, 0.5, 1.0]
    with pytest.raises(ValueError, match="3 slots but 2 of the best set"):
        regret(rewards, np.array([0.6, 0.8]))


def test_accuracy_at_a_share_of_the_horizon_is_that_of_the_last_evaluated_model():
    # Of 20 planned rounds 15 % are 3, 50 % are 10, 51 % begin an eleventh; 12 were played.
    accuracy = np.array([0.1, 0.2, 0.3, 0.4] + [math.nan] * 6 + [0.8, 0.9])

    assert accuracy_at(accuracy, 0.15, 20) == 0.3
    assert accuracy_at(accuracy, 0.5, 20) == 0.4
    assert accuracy_at(accuracy, 0.51, 20) == 0.8
    assert accuracy_at(accuracy, 1.0, 20) is None
    assert accuracy_at(accuracy, 1.0, 12) == 0.9
    assert accuracy_at(np.full(3, math.nan), 1.0, 3) is None


@pytest.mark.parametrize("percent", range(1, 101))
def test_of_a_hundred_rounds_so_many_percent_are_so_many_rounds(percent):
    assert accuracy_at(np.arange(1.0, 101.0), percent / 100, 100) == percent


@pytest.mark.parametrize(
    ("fraction", "horizon", "message"),
    [
        (0.0, 5, "fraction must be above 0 and at most 1, got 0.0"),
        (15.0, 5, "at most 1, got 15.0"),
        (0.5, 0, "horizon_rounds must be at least 1, got 0"),
    ],
)
def test_a_share_of_nothing_is_refused(fraction, horizon, message):
    with pytest.raises(ValueError, match=message):
        accuracy_at(np.ones(5), fraction, horizon)


def test_a_slot_that_is_not_over_does_not_count():
    values = np.arange(1.0, 8.0)

    assert at_slot_ends(values, 3).tolist() == [3.0, 6.0]
    assert at_slot_ends(values, 1).tolist() == values.tolist()
    assert at_slot_ends(values, 8).tolist() == []
    with pytest.raises(ValueError, match="slot_rounds must be at least 1, got 0"):
        at_slot_ends(values, 0)
