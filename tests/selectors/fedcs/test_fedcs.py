"""FedCS: a model of 1 Mbit, clients whose seconds follow from their rates."""

import dataclasses

from fleetsim.contracts import Outcome, Purpose
from fleetsim.selectors.fedcs.selector import FedCSSettings
from tests.selectors.rounds import met, report_of, resources_of, view_of


def able(*, download_s, update_s, upload_s, num_samples=10, epochs=2):
    """Return the resources that a client reports whose round takes so long."""
    return resources_of(
        samples_per_s=num_samples * epochs / update_s,
        down_bit_per_s=1e6 / download_s,
        up_bit_per_s=1e6 / upload_s,
    )


TIMES = {
    0: able(download_s=1.0, update_s=10.0, upload_s=2.0),
    1: able(download_s=2.0, update_s=4.0, upload_s=3.0),
    2: able(download_s=1.0, update_s=20.0, upload_s=1.0),
    3: able(download_s=9.0, update_s=5.0, upload_s=1.0),
}


def ready(size=4, *, cohort=4, **settings):
    more = {"cohort": cohort, "payload_byte": 125_000, "epochs": 2}
    return met(FedCSSettings(**settings), (10,) * size, **more)


def answer(client, resources, outcome=Outcome.DELIVERED):
    report = report_of(client, outcome=outcome, purpose=Purpose.PROBE)
    return report._replace(resources=resources if outcome is Outcome.DELIVERED else None)


ANSWERS = [answer(client, resources) for client, resources in TIMES.items()]


def test_at_most_those_wanted_or_a_limit_of_its_own():
    fleet, selector = ready(max_clients=3)

    assert selector.select(view_of(fleet, reports=ANSWERS)).tolist() == [1, 0, 3]
    assert selector.select(view_of(fleet, reports=ANSWERS, wanted=2)).tolist() == [1, 0]


def test_who_did_not_answer_has_left_or_cannot_work_is_out():
    fleet, selector = ready(size=5)
    reports = [
        answer(0, TIMES[0], Outcome.LATE),
        answer(1, dataclasses.replace(TIMES[1], up_bit_per_s=0.0)),
        answer(2, TIMES[2]),
        answer(3, TIMES[3]),
        answer(4, dataclasses.replace(TIMES[3], samples_per_s=0.0)),
    ]
    view = view_of(fleet, reports=reports, candidates=[0, 1, 2, 4])

    assert selector.select(view).tolist() == [2]
