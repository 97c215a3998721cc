import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.contracts import Outcome, Purpose
from fleetsim.errors import ScenarioError
from fleetsim.selectors.rbcs_f.equations import (
    choose,
    contexts,
    estimated_exchange_s,
    initial_estimate,
    queues_after,
    require_guarantee,
    with_exchanges,
)
from fleetsim.selectors.rbcs_f.selector import RBCSFSettings
from tests.selectors.rounds import met, report_of, resources_of, view_of

HALF_FREE = resources_of(load_fraction=0.5)


def ready(size=4, *, cohort=2, **settings):
    return met(RBCSFSettings(**settings), (10,) * size, cohort=cohort, payload_byte=125_000)


def answer(client, resources=HALF_FREE, outcome=Outcome.DELIVERED):
    report = report_of(client, outcome=outcome, purpose=Purpose.PROBE)
    return report._replace(resources=resources if outcome is Outcome.DELIVERED else None)


def test_who_did_not_answer_has_left_or_cannot_work_is_out():
    fleet, selector = ready(5, cohort=5, guaranteed_fraction=0.1)
    answers = [
        answer(0, outcome=Outcome.LATE),
        answer(1, dataclasses.replace(HALF_FREE, up_bit_per_s=0.0)),
        answer(2, dataclasses.replace(HALF_FREE, load_fraction=1.0)),
        answer(3),
        answer(4),
    ]

    view = view_of(fleet, reports=answers, candidates=[0, 1, 2, 4])
    assert selector.select(view).tolist() == [4]


def test_a_guarantee_that_the_cohort_cannot_keep_is_refused():
    match = r"server\.selector: guaranteed_fraction must be at most 2/20 = 0\.1, got 0\.15"
    with pytest.raises(ScenarioError, match=match):
        ready(20)


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


def test_queues_grow_by_beta_and_shrink_by_one():
    # 0 + .15; 1.2 + .15 - 1; .15 + .15 - 1 < 0.
    after = queues_after(np.array([0.0, 1.2, 0.15]), np.array([False, True, True]), 0.15)

    assert after == pytest.approx([0.15, 0.35, 0.0])


def test_contexts_are_load_participation_and_transfer():
    # Half the processor is free: 1/.5; 8e6 bit at 2e6 bit/s: 4 s.
    context = contexts(np.array([0.5, 1.0]), np.array([True, False]), 8e6, np.array([2e6, 8e6]))

    assert context.tolist() == [[2.0, 1.0, 4.0], [1.0, 0.0, 1.0]]
    assert contexts(np.empty(0), np.empty(0, dtype=bool), 8e6, np.empty(0)).shape == (0, 3)


def test_a_stranger_is_expected_to_take_no_time():
    context = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0]])

    assert estimated_exchange_s(*initial_estimate(2), context).tolist() == [0.0, 0.0]
    assert estimated_exchange_s(*initial_estimate(0), np.empty((0, 3))).tolist() == []


def test_only_who_delivered_learns_and_the_past_is_not_changed():
    gram, moment = initial_estimate(3, 2.0)
    new_gram, new_moment = with_exchanges(
        gram, moment, np.array([2, 0]), np.eye(3)[:2], np.array([5.0, 7.0])
    )

    assert np.diagonal(gram, axis1=1, axis2=2).tolist() == [[2.0] * 3] * 3
    assert moment.tolist() == [[0.0] * 3] * 3
    assert np.diagonal(new_gram, axis1=1, axis2=2).tolist() == [
        [2.0, 3.0, 2.0],
        [2.0, 2.0, 2.0],
        [3.0, 2.0, 2.0],
    ]
    assert new_moment.tolist() == [[0.0, 7.0, 0.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]]


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


def test_a_guarantee_that_cannot_be_kept_is_refused():
    require_guarantee(0.2, 40, 8)
    with pytest.raises(ValueError, match=r"at most 8/40 = 0\.2, got 0\.21"):
        require_guarantee(0.21, 40, 8)
