import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.selectors.rbcs_f.equations import (
    choose,
    estimated_exchange_s,
    initial_estimate,
    queues_after,
    with_exchanges,
)


def slow_choice(queues, exchange_s, num, keys, penalty):
    """Every subset: least cost, then the fastest slowest client, then the smaller keys."""
    num = min(num, len(queues))
    if num == 0:
        return []

    def rank(group):
        slowest = max(exchange_s[k] for k in group)
        longest_first = sorted((-queues[k], keys[k]) for k in group)
        return (penalty * slowest - sum(queues[k] for k in group), slowest, longest_first)

    best_group = min(itertools.combinations(range(len(queues)), num), key=rank)
    return sorted(best_group, key=lambda k: (-queues[k], keys[k]))


def test_a_stranger_is_expected_to_take_no_time():
    context = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])

    assert estimated_exchange_s(*initial_estimate(2), context).tolist() == [0.0, 0.0]
    assert estimated_exchange_s(*initial_estimate(0), np.empty((0, 3))).tolist() == []


def test_the_mean_is_that_of_a_ridge_regression():
    # Least squares with rows sqrt(lambda) I and zeros below the data has the same solution.
    generator = rng.stream(3, "ridge")
    history = generator.uniform(0.5, 4.0, (12, 3))
    times_s = history @ np.array([2.0, 1.0, 0.5]) + generator.uniform(0.0, 0.3, 12)
    estimate = initial_estimate(1, 0.7)
    for context, time_s in zip(history, times_s, strict=True):
        estimate = with_exchanges(*estimate, np.array([0]), context[np.newaxis], np.array([time_s]))
    rows = np.vstack([history, np.sqrt(0.7) * np.eye(3)])
    theta = np.linalg.lstsq(rows, np.concatenate([times_s, np.zeros(3)]), rcond=None)[0]
    query = np.array([[1.0, 1.0, 2.0]])

    assert estimated_exchange_s(*estimate, query, 0.0) == pytest.approx(query @ theta)
    width = np.sqrt(query[0] @ np.linalg.inv(rows.T @ rows) @ query[0])
    assert estimated_exchange_s(*estimate, query, 0.4) == pytest.approx(query @ theta - 0.4 * width)


@settings(max_examples=40)
@given(
    clients=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8),
    num=st.integers(0, 9),
    penalty=st.sampled_from([0.0, 0.5, 1.0, 2.0, 100.0]),
    data=st.data(),
)
def test_the_choice_is_the_best_of_all_subsets(clients, num, penalty, data):
    keys = np.array(data.draw(st.permutations(range(len(clients)))), dtype=np.float64)
    queues = np.array([c[0] for c in clients], dtype=np.float64)
    exchange_s = np.array([c[1] for c in clients], dtype=np.float64)

    chosen = choose(queues, exchange_s, num, keys, penalty).tolist()

    assert chosen == slow_choice(queues.tolist(), exchange_s.tolist(), num, keys, penalty)


def test_all_clients_get_the_guaranteed_share_of_rounds():
    # 8 clients of 1 to 8 s, 2 a round, beta = .2. As z(t+1) >= z + beta - x, a client that
    # was selected s times in T rounds has s >= beta T - z(T), and z stays bounded, V times a few
    # seconds.
    exchange_s, keys, rounds = np.arange(1.0, 9.0), np.arange(8.0), 1500
    queues, counts = np.zeros(8), np.zeros(8)
    for _ in range(rounds):
        is_selected = np.isin(np.arange(8), choose(queues, exchange_s, 2, keys, 5.0))
        counts += is_selected
        queues = queues_after(queues, is_selected, 0.2)

    assert np.all(counts >= 0.2 * rounds - queues - 1e-9)
    assert np.all(counts / rounds > 0.17)
    # Speed has the rest: the fastest are selected most.
    assert counts[:2].min() > counts[2:].max()
