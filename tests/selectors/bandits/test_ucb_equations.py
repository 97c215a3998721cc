import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.selectors.bandits.equations import (
    arms,
    index,
    initial_means,
    rewarded,
)
from fleetsim.selectors.tie_breaking import best


@pytest.mark.parametrize(("num_clients", "size"), [(1, 1), (5, 1), (5, 5), (6, 3), (8, 2)])
def test_arms_are_all_sets(num_clients, size):
    sets = arms(num_clients, size)

    assert sets.tolist() == [list(s) for s in itertools.combinations(range(num_clients), size)]


@pytest.mark.parametrize("size", [0, 6])
def test_a_set_has_at_least_one_client_and_at_most_all(size):
    with pytest.raises(ValueError, match=f"1 to 5 clients, got {size}"):
        arms(5, size)


def test_the_index_by_hand():
    # t = 10, mu = 1, ln 10 = 2.302585: .6 + sqrt(2.302585/4) = 1.358714, .9 + sqrt(2.302585)
    # = 2.417427, and the arm never played first of all.
    values = index(np.array([0.6, 0.9, 0.0]), np.array([4, 1, 0]), 10, 1.0)

    assert values == pytest.approx([1.358714, 2.417427, math.inf], abs=1e-6)
    assert index(np.array([0.6]), np.array([4]), 10, 0.01)[0] == pytest.approx(0.607587, abs=1e-6)
    assert index(np.array([0.6]), np.array([4]), 1, 1.0)[0] == 0.6


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 1.0)), max_size=30))
def test_means_are_those_of_the_rewards(history):
    means, plays = np.zeros(4), np.zeros(4, dtype=np.int64)
    for arm, reward in history:
        means, plays = rewarded(means, plays, np.array([arm]), np.array([reward]))
    of_arm = [[reward for a, reward in history if a == arm] for arm in range(4)]

    assert plays.tolist() == [len(rewards) for rewards in of_arm]
    assert means == pytest.approx([np.mean(r) if r else 0.0 for r in of_arm])


@pytest.mark.slow
def test_the_regret_stays_below_the_bound_of_theorem_1():
    # Coins of chance .8, .3, .3 and mu^2 = 3/2, for which the theorem holds: after T = 5000 slots
    # the expected regret is at most 8 |A| ln T / R_min + (pi^2/3 + 1) |A| R_max = 8*3*8.517/.5 +
    # 4.29*3*.5 = 415; uniform play loses 2/3 * .5 * 5000 = 1667.
    chances, horizon = np.array([0.8, 0.3, 0.3]), 5000
    stream = rng.stream(11, "coins")
    is_head = stream.random((horizon, 3)) < chances
    means, plays = np.zeros(3), np.zeros(3, dtype=np.int64)
    for slot in range(1, horizon + 1):
        arm = best(index(means, plays, slot, math.sqrt(1.5)), 1, stream.random(3))
        means, plays = rewarded(means, plays, arm, is_head[slot - 1, arm].astype(np.float64))
    regret = float(((0.8 - chances) * plays).sum())

    assert plays.sum() == horizon
    assert 0.0 < regret < 415.0


def test_first_estimates_by_hand():
    # Arms in order 01 02 03 04 12 13 14 23 24 34.
    of_clients = np.array([0.5, 0.7, 0.9, 0.5, 0.7])
    means = initial_means(arms(5, 2), of_clients)

    assert means == pytest.approx([0.6, 0.7, 0.5, 0.6, 0.8, 0.6, 0.7, 0.7, 0.8, 0.6])
    assert initial_means(arms(5, 2), of_clients, "sum") == pytest.approx(2 * means)
