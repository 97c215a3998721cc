"""FedCS: a model of 1 Mbit, clients whose seconds follow from their rates."""

import dataclasses

from fleetsim.contracts import Outcome, Purpose
from fleetsim.selectors.fedcs.selector import FedCSSettings
from tests.selectors.rounds import met, report_of, resources_of, view_of

QUICK = resources_of(samples_per_s=4.0)
"""Of a client that downloads and uploads for 1 s each, and trains on 10 samples for 5 s."""


def ready(size=4, *, cohort=4, **settings):
    more = {"cohort": cohort, "payload_byte": 125_000, "epochs": 2}
    return met(FedCSSettings(**settings), (10,) * size, **more)


def answer(client, resources=QUICK, outcome=Outcome.DELIVERED):
    report = report_of(client, outcome=outcome, purpose=Purpose.PROBE)
    return report._replace(resources=resources if outcome is Outcome.DELIVERED else None)


def test_at_most_those_wanted_or_a_limit_of_its_own():
    fleet, selector = ready(max_clients=3)
    slower = [answer(k, resources_of(samples_per_s=4.0 - k)) for k in range(4)]

    assert selector.select(view_of(fleet, reports=slower)).tolist() == [0, 1, 2]
    assert selector.select(view_of(fleet, reports=slower, wanted=2)).tolist() == [0, 1]


def test_who_did_not_answer_has_left_or_cannot_work_is_out():
    fleet, selector = ready(size=5)
    reports = [
        answer(0, outcome=Outcome.LATE),
        answer(1, dataclasses.replace(QUICK, up_bit_per_s=0.0)),
        *(answer(2), answer(3)),
        answer(4, dataclasses.replace(QUICK, samples_per_s=0.0)),
    ]
    view = view_of(fleet, reports=reports, candidates=[0, 1, 2, 4])

    assert selector.select(view).tolist() == [2]
