import dataclasses

import pytest

from fleetsim.contracts import Outcome, Purpose
from fleetsim.errors import ScenarioError
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
