"""TiFL on six clients of 1 to 6 seconds: with three tiers they are {0, 1}, {2, 3}, {4, 5}."""

from functools import partial

import pytest

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.tifl.equations import DROPPED
from fleetsim.selectors.tifl.selector import TiFLSettings
from tests.selectors.rounds import met, outcome_of, probed, report_of, view_of


def ready(size=6, *, cohort=2, planned=30, **settings):
    more = {"cohort": cohort, "planned_rounds": planned, "epochs": 3}
    return met(TiFLSettings(**({"num_tiers": 3} | settings)), (10,) * size, **more)


def answer(request, stage, *, late=(), accuracy=None):
    """Clients train in 1 to 6 s, or are late after 50 s, and evaluate with given accuracies."""
    is_late = request.client in late
    report = report_of(
        request.client,
        duration_s=50.0 if is_late else 1.0 + request.client,
        outcome=Outcome.LATE if is_late else Outcome.DELIVERED,
        purpose=Purpose.PROBE,
    )
    if request.work.kind is WorkKind.EVALUATE and not is_late:
        return report._replace(accuracy=(accuracy or {}).get(request.client, 0.5))
    return report


def play(fleet, selector, round_, *, candidates=None, **answers):
    """One round: what was asked of whom, stage by stage, and who was chosen."""
    asked, view = probed(
        selector, fleet, partial(answer, **answers), round_=round_, candidates=candidates
    )
    stages = [(stage[0].work.kind, [request.client for request in stage]) for stage in asked]
    chosen = selector.select(view).tolist()
    selector.observe(outcome_of(round_, [report_of(client) for client in chosen]))
    return stages, chosen


def test_who_never_answers_in_time_is_dropped():
    # Clients 3 and 5 are late after 50 s; with T_max = 4.5 s client 4 is late too.
    fleet, selector = ready(num_tiers=2)
    play(fleet, selector, 1, late=[3, 5])
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, DROPPED, 1, DROPPED]

    fleet, selector = ready(num_tiers=2, max_s=4.5)
    play(fleet, selector, 1, late=[3, 5])
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, DROPPED, DROPPED, DROPPED]
    chosen = {client for r in range(2, 30) for client in play(fleet, selector, r)[1]}
    assert chosen == {0, 1, 2}


ACCURACY = {0: 0.9, 1: 0.7, 2: 0.2, 3: 0.4, 4: 0.5, 5: 0.5}
"""Tiers: 0.8, 0.3, 0.5."""


def test_tiers_without_clients_have_no_part_in_the_probabilities():
    # Two clients, so two tiers, of accuracies .9 and .7: 1 / 3 and 2 / 3.
    fleet, selector = ready(2, interval_rounds=1, trigger="every")
    play(fleet, selector, 1, accuracy=ACCURACY)

    assert selector.state()["probability"] == pytest.approx([1 / 3, 2 / 3, 0.0])


def test_static_tiers_ask_for_no_accuracy_and_need_no_losses():
    fleet, selector = ready(rule="none", interval_rounds=1)
    stages = [play(fleet, selector, round_)[0] for round_ in range(1, 4)]

    assert stages == [[(WorkKind.TRAIN, [0, 1, 2, 3, 4, 5])], [], []]
    assert not selector.needs_losses
    assert TiFLSettings().build().needs_losses


def test_a_fleet_of_which_no_client_answers_is_refused():
    fleet, selector = ready()

    with pytest.raises(
        ScenarioError, match=r"none answered in time; raise server\.selector\.max_s"
    ):
        play(fleet, selector, 1, late=range(6))


def test_credits_by_an_open_number_of_rounds_are_refused():
    with pytest.raises(ScenarioError, match=r"set stop\.rounds, or credits: unlimited"):
        ready(planned=None)


def test_who_arrives_while_tiers_are_measured_is_profiled_next_time():
    fleet, selector = ready(profile_rounds=3, interval_rounds=2)
    play(fleet, selector, 1, candidates=[0, 1, 2])
    asked = selector.probe(view_of(fleet, round_=2, candidates=[0, 1, 2]))
    reports = [answer(request, 0) for request in asked]

    assert {request.work.kind for request in asked} == {WorkKind.EVALUATE}
    assert list(selector.probe(view_of(fleet, round_=2, reports=reports, stage=1))) == []
