"""RBCS-F: half of each processor is free, and a model takes a second on its way: c = (2, s, 1)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.rbcs_f import RBCSFSettings
from tests.selectors.rounds import met, outcome_of, report_of, resources_of, view_of

HALF_FREE = resources_of(load_fraction=0.5)


def ready(size=4, *, cohort=2, **settings):
    return met(RBCSFSettings(**settings), (10,) * size, cohort=cohort, payload_byte=125_000)


def answer(client, resources=HALF_FREE, outcome=Outcome.DELIVERED):
    report = report_of(client, outcome=outcome, purpose=Purpose.PROBE)
    return report._replace(resources=resources if outcome is Outcome.DELIVERED else None)


def choose(fleet, selector, round_, answers=None, **view):
    answers = [answer(c) for c in range(fleet.num_samples.size)] if answers is None else answers
    return selector.select(view_of(fleet, round_=round_, reports=answers, **view)).tolist()


def test_every_candidate_says_how_it_stands_without_the_model():
    fleet, selector = ready()
    requests = selector.probe(view_of(fleet, candidates=[0, 3]))

    assert [request.client for request in requests] == [0, 3]
    assert all(request.work.kind is WorkKind.NONE for request in requests)
    assert not any(request.needs_model or request.uploads_vector for request in requests)
    assert {request.upload_byte for request in requests} == {16}
    assert all(request.asks_resources for request in requests)
    assert list(selector.probe(view_of(fleet, stage=1))) == []


def test_queues_grow_by_beta_and_shrink_by_a_selection_whatever_came_of_it():
    fleet, selector = ready(guaranteed_fraction=0.4)
    choose(fleet, selector, 1)
    selector.observe(outcome_of(1, [report_of(0), report_of(2, outcome=Outcome.LATE)]))
    assert selector.state()["queue"] == pytest.approx([0.0, 0.4, 0.0, 0.4])

    choose(fleet, selector, 2)
    selector.observe(outcome_of(2, [report_of(1), report_of(0)]))
    assert selector.state()["queue"] == pytest.approx([0.0, 0.0, 0.4, 0.8])
    assert selector.state()["took_part"].tolist() == [True, True, False, False]


def test_exchange_times_are_learned_with_the_figures_of_the_same_round():
    # c = (2, 0, 1), tau = 30: H = I + c c^T = [[5, 0, 2], [0, 1, 0], [2, 0, 2]], b = (60, 0, 30).
    # In round 2 client 0 has c = (2, 1, 1), as it took part in round 1.
    fleet, selector = ready()
    choose(fleet, selector, 1)
    late = report_of(1, outcome=Outcome.LATE, duration_s=99.0)
    selector.observe(outcome_of(1, [report_of(0, duration_s=30.0), late]))
    state = selector.state()

    assert state["gram"][0].tolist() == [[5, 0, 2], [0, 1, 0], [2, 0, 2]]
    assert state["moment"][0].tolist() == [60, 0, 30]
    assert state["gram"][1].tolist() == np.eye(3).tolist()

    choose(fleet, selector, 2)
    selector.observe(outcome_of(2, [report_of(0, duration_s=7.0)]))
    assert selector.state()["gram"][0].tolist() == [[9, 2, 4], [2, 2, 1], [4, 1, 3]]
    assert selector.state()["moment"][0].tolist() == [74, 7, 37]


@pytest.mark.parametrize(
    ("penalty", "confidence", "slow"),
    [
        # Client 0 is known to take 30 s: tau = c H^-1 b - alpha sqrt(c H^-1 c) = 25 - .0913 with
        # c = (2, 0, 1), since H^-1 c = c / 6. 1 and 2 are not known: 0 (-.22 cut off). The queues
        # are .8, .4, 0: with 0 and 1 the cost is 24.9 V - 1.2, with 1 and 2 it is -.4.
        (0.01, 0.1, True),
        (1.0, 0.1, False),
        # 24.9 V against .8: V = .0321 decides; with alpha = 20 the optimism is 18.26, tau 6.74,
        # and V = .119.
        (0.031, 0.1, True),
        (0.033, 0.1, False),
        (0.1, 20.0, True),
    ],
)
def test_speed_is_weighed_against_queues(penalty, confidence, slow):
    fleet, selector = ready(3, guaranteed_fraction=0.4, penalty=penalty, confidence=confidence)
    choose(fleet, selector, 1)
    selector.observe(outcome_of(1, [report_of(0, duration_s=30.0), report_of(2)]))
    state = selector.state()
    state["queue"] = np.array([0.8, 0.4, 0.0])
    state["took_part"] = np.zeros(3, dtype=np.bool_)
    state["gram"][2], state["moment"][2] = np.eye(3), 0.0
    selector.restore(state)

    assert set(choose(fleet, selector, 2)) == ({0, 1} if slow else {1, 2})


@pytest.mark.parametrize("penalty", [0.0, 0.01])
def test_all_clients_get_their_share_of_rounds_however_slow(penalty):
    # beta = .25 and 1 of 4. A queue is at least .25 rounds - selections; 100 s at .01 are worth one
    # selection, so client 3's queue stays within a few of the others'.
    fleet, selector = ready(cohort=1, guaranteed_fraction=0.25, penalty=penalty)
    counts = np.zeros(4)
    for round_ in range(1, 201):
        (client,) = choose(fleet, selector, round_)
        counts[client] += 1
        took = report_of(client, duration_s=100.0 if client == 3 else 1.0)
        selector.observe(outcome_of(round_, [took]))

    assert np.all(np.abs(counts - 50.0) <= (0.0 if penalty == 0.0 else 4.0))


def test_a_high_price_of_seconds_leaves_the_slow_one_out():
    # At V = 10 client 3 is worth 830 selections once its 100 s are known; that takes 3300 rounds.
    fleet, selector = ready(cohort=1, guaranteed_fraction=0.25)
    chosen = []
    for round_ in range(1, 101):
        chosen += choose(fleet, selector, round_)
        took = report_of(chosen[-1], duration_s=100.0 if chosen[-1] == 3 else 1.0)
        selector.observe(outcome_of(round_, [took]))

    assert chosen.count(3) == 1


def test_who_did_not_answer_has_left_or_cannot_work_is_out():
    fleet, selector = ready(5, cohort=5, guaranteed_fraction=0.1)
    answers = [
        answer(0, outcome=Outcome.LATE),
        answer(1, dataclasses.replace(HALF_FREE, up_bit_per_s=0.0)),
        answer(2, dataclasses.replace(HALF_FREE, load_fraction=1.0)),
        answer(3),
        answer(4),
    ]

    assert choose(fleet, selector, 1, answers, candidates=[0, 1, 2, 4]) == [4]


def test_without_any_answer_the_longest_queues_are_taken_and_nothing_is_learned():
    fleet, selector = ready(guaranteed_fraction=0.4)
    choose(fleet, selector, 1)
    selector.observe(outcome_of(1, [report_of(0), report_of(2)]))

    assert set(choose(fleet, selector, 2, [])) == {1, 3}

    gram = selector.state()["gram"]
    selector.observe(outcome_of(2, [report_of(1), report_of(3)]))
    np.testing.assert_array_equal(selector.state()["gram"], gram)


def test_a_guarantee_that_the_cohort_cannot_keep_is_refused():
    match = r"server\.selector: guaranteed_fraction must be at most 2/20 = 0\.1, got 0\.15"
    with pytest.raises(ScenarioError, match=match):
        ready(20)
