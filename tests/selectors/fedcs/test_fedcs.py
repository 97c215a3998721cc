"""FedCS: a model of 1 Mbit, clients whose seconds follow from their rates."""

from __future__ import annotations

import dataclasses

import pytest

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.selectors.fedcs import FedCSSettings
from tests.selectors.rounds import met, report_of, resources_of, view_of


def able(*, download_s, update_s, upload_s, num_samples=10, epochs=2):
    """What a client says whose round takes so long."""
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


@pytest.fixture
def answers():
    return [answer(client, resources) for client, resources in TIMES.items()]


def test_a_share_of_the_fleet_is_asked_without_sending_the_model():
    fleet, selector = ready(35, asked_fraction=0.2)
    requests = selector.probe(view_of(fleet))

    assert len({request.client for request in requests}) == len(requests) == 7
    assert all(request.work.kind is WorkKind.NONE for request in requests)
    assert not any(request.needs_model or request.uploads_vector for request in requests)
    assert {request.upload_byte for request in requests} == {24}
    assert all(request.asks_resources for request in requests)
    assert list(selector.probe(view_of(fleet, stage=1))) == []


def test_no_more_than_are_there_are_asked_and_others_every_round():
    fleet, selector = ready(30, asked_fraction=0.5)
    few = selector.probe(view_of(fleet, candidates=[3, 5]))
    drawn = [
        frozenset(r.client for r in selector.probe(view_of(fleet, round_=round_)))
        for round_ in range(1, 6)
    ]

    assert {request.client for request in few} == {3, 5}
    assert len(set(drawn)) == 5


@pytest.mark.parametrize(
    ("round_s", "packed"),
    [
        # Alone they take 13, 9, 22 and 15 s: 1 first, Theta = 7. Then max(d) + max(Theta, u) + v is
        # 2+10+2 = 14, 2+20+1 = 23, 9+7+1 = 17: 0, Theta = 12. Then 23 and 9+12+1 = 22: 3, Theta =
        # 13, and 9+20+1 = 30: 2. A round must end before the deadline.
        (100.0, [1, 0, 3, 2]),
        (30.0, [1, 0, 3]),
        (22.5, [1, 0, 3]),
        (22.0, [1, 0]),
        (14.0, [1]),
    ],
)
def test_the_round_is_packed_greedily_up_to_its_deadline(round_s, packed, answers):
    fleet, selector = ready(round_s=round_s)

    assert selector.select(view_of(fleet, reports=answers)).tolist() == packed


def test_selection_and_aggregation_take_their_part_of_the_round(answers):
    # 14 s of two clients and 4 s + 4 s are the whole deadline of 22 s.
    fleet, selector = ready(round_s=22.0, selection_s=4.0, aggregation_s=4.0)
    assert selector.select(view_of(fleet, reports=answers)).tolist() == [1]

    fleet, selector = ready(round_s=22.0, selection_s=4.0, aggregation_s=3.9)
    assert selector.select(view_of(fleet, reports=answers)).tolist() == [1, 0]


def test_at_most_those_wanted_or_a_limit_of_its_own(answers):
    fleet, selector = ready(max_clients=3)

    assert selector.select(view_of(fleet, reports=answers)).tolist() == [1, 0, 3]
    assert selector.select(view_of(fleet, reports=answers, wanted=2)).tolist() == [1, 0]


def test_if_no_client_has_time_the_shortest_round_is_held(answers):
    fleet, selector = ready(round_s=1.0)

    assert selector.select(view_of(fleet, reports=answers)).tolist() == [1]


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


def test_without_any_answer_random_ones_of_those_there_are_taken():
    fleet, selector = ready(30, cohort=3)
    chosen = [
        tuple(selector.select(view_of(fleet, round_=r, candidates=range(9))).tolist())
        for r in range(1, 6)
    ]

    assert len(set(chosen)) == 5
    assert all(len(set(cohort)) == 3 and max(cohort) < 9 for cohort in chosen)
