"""RBCS-F: half of each processor is free, and a model takes a second on its way: c = (2, s, 1)."""

import dataclasses

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose
from fleetsim.errors import ScenarioError
from fleetsim.selectors.rbcs_f.selector import RBCSFSettings
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


def test_a_guarantee_that_the_cohort_cannot_keep_is_refused():
    match = r"server\.selector: guaranteed_fraction must be at most 2/20 = 0\.1, got 0\.15"
    with pytest.raises(ScenarioError, match=match):
        ready(20)
