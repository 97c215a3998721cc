"""TiFL on six clients of 1 to 6 seconds: with three tiers they are {0, 1}, {2, 3}, {4, 5}."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.tifl import DROPPED, TiFLSettings
from tests.selectors.rounds import met, outcome_of, probed, report_of, view_of


def ready(size=6, *, cohort=2, planned=30, **settings):
    more = {"cohort": cohort, "planned_rounds": planned, "epochs": 3}
    return met(TiFLSettings(**({"num_tiers": 3} | settings)), (10,) * size, **more)


def answer(request, stage=0, *, late=(), accuracy=None):
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
    stages = [
        (requests[0].work.kind, [request.client for request in requests]) for requests in asked
    ]
    assert all(len({request.work.kind for request in requests}) == 1 for requests in asked)
    chosen = selector.select(view).tolist()
    selector.observe(outcome_of(round_, [report_of(client) for client in chosen]))
    return stages, chosen


def tier_after(fleet, selector, round_, **more):
    play(fleet, selector, round_, **more)
    return int(selector.state()["tier"])


def test_clients_are_profiled_with_whole_training_tasks_before_round_1():
    fleet, selector = ready(profile_rounds=2)
    requests = selector.probe(view_of(fleet, candidates=[1, 4]))

    assert [request.client for request in requests] == [1, 4]
    for request in requests:
        assert (request.work.kind, request.work.epochs) == (WorkKind.TRAIN, 3)
        assert request.needs_model
        assert request.uploads_vector
        assert request.upload_byte == 0


def test_profiling_goes_stage_by_stage_and_happens_once():
    fleet, selector = ready(profile_rounds=2)
    all_clients = (WorkKind.TRAIN, [0, 1, 2, 3, 4, 5])

    stages, chosen = play(fleet, selector, 1)
    assert stages == [all_clients, all_clients]
    assert sorted(chosen) in ([0, 1], [2, 3], [4, 5])
    assert selector.state()["observed_s"][:, 1].tolist() == [1, 2, 3, 4, 5, 6]
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, 1, 2, 2]
    assert play(fleet, selector, 2)[0] == []


def test_newcomers_are_profiled_when_they_come_and_the_tiers_cut_anew():
    fleet, selector = ready(num_tiers=2)
    play(fleet, selector, 1, candidates=[0, 1, 4, 5])
    assert selector.state()["tier_of"].tolist() == [0, 0, DROPPED, DROPPED, 1, 1]

    assert play(fleet, selector, 2)[0] == [(WorkKind.TRAIN, [2, 3])]
    assert selector.state()["tier_of"].tolist() == [0, 0, 0, 1, 1, 1]


def test_who_left_in_the_middle_goes_on_when_it_is_back():
    fleet, selector = ready(profile_rounds=2)
    asked = selector.probe(view_of(fleet))
    reports = [answer(request) for request in asked]
    second = selector.probe(view_of(fleet, candidates=[0, 1, 2, 3], reports=reports, stage=1))
    reports += [answer(request) for request in second]
    view = view_of(fleet, candidates=[0, 1, 2, 3], reports=reports, stage=2)
    assert list(selector.probe(view)) == []
    selector.select(view)
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, 2, DROPPED, DROPPED]

    selector.observe(outcome_of(1, [report_of(0)]))
    assert play(fleet, selector, 2)[0] == [(WorkKind.TRAIN, [4, 5])]
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, 1, 2, 2]


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


def test_a_late_answer_counts_as_the_limit_if_another_one_was_in_time():
    # Two stages, client 0 late in the first: 50 s, the longest wait, and 1 s: it is the slowest.
    fleet, selector = ready(profile_rounds=2)
    reports = [answer(request, late=[0]) for request in selector.probe(view_of(fleet))]
    reports += [
        answer(request) for request in selector.probe(view_of(fleet, reports=reports, stage=1))
    ]
    assert list(selector.probe(view_of(fleet, reports=reports, stage=2))) == []

    assert selector.state()["tier_of"].tolist() == [2, 0, 0, 1, 1, 2]


def test_tiers_may_be_stretches_of_latency():
    # 1 to 6 s in three stretches: edges at 2.67 and 4.33 s.
    fleet, selector = ready(split="width", num_tiers=3)
    play(fleet, selector, 1)
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, 1, 2, 2]

    # 1, 2, 3 and 6 s in two: the edge is at 3.5 s.
    fleet, selector = ready(split="width", num_tiers=2)
    play(fleet, selector, 1, candidates=[0, 1, 2, 5])
    assert selector.state()["tier_of"].tolist() == [0, 0, 0, DROPPED, DROPPED, 1]


def test_a_cohort_is_of_one_tier_and_slower_ones_fill_up():
    fleet, selector = ready(cohort=3, credits="unlimited", rule="none")
    tiers_seen = set()
    for round_ in range(1, 40):
        chosen = play(fleet, selector, round_)[1]
        tier = int(selector.state()["tier"])
        tiers_seen.add(tier)
        assert set(chosen[:2]) == {2 * tier, 2 * tier + 1}
        assert len(chosen) == (2 if tier == 2 else 3)
        assert all(client // 2 == tier + 1 for client in chosen[2:])

    assert tiers_seen == {0, 1, 2}


def test_no_client_need_fill_up():
    fleet, selector = ready(cohort=3, credits="unlimited", rule="none", fill="none")
    cohorts = [sorted(play(fleet, selector, round_)[1]) for round_ in range(1, 20)]

    assert all(cohort in ([0, 1], [2, 3], [4, 5]) for cohort in cohorts)


def test_who_arrives_while_tiers_are_measured_is_profiled_next_time():
    fleet, selector = ready(profile_rounds=3, interval_rounds=2)
    play(fleet, selector, 1, candidates=[0, 1, 2])
    asked = selector.probe(view_of(fleet, round_=2, candidates=[0, 1, 2]))
    reports = [answer(request) for request in asked]

    assert {request.work.kind for request in asked} == {WorkKind.EVALUATE}
    assert list(selector.probe(view_of(fleet, round_=2, reports=reports, stage=1))) == []


def test_credits_are_the_planned_rounds_shared_out():
    # ceil(7 / 3) = 3 each: after 9 rounds all are spent, and any tier may be drawn again.
    fleet, selector = ready(planned=7, rule="none")
    drawn = [tier_after(fleet, selector, round_) for round_ in range(1, 10)]

    assert sorted(drawn) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert selector.state()["credit"].tolist() == [0.0, 0.0, 0.0]
    assert len(play(fleet, selector, 10)[1]) == 2


def test_a_tier_of_which_no_client_is_there_is_not_drawn():
    fleet, selector = ready(rule="none", credits="unlimited")
    play(fleet, selector, 1)
    drawn = {tier_after(fleet, selector, round_, candidates=[2, 3, 5]) for round_ in range(2, 30)}

    assert drawn == {1, 2}


def test_unlimited_credits_draw_by_the_probabilities():
    # 1/3 each; 4 standard errors of 600 rounds.
    fleet, selector = ready(rule="none", credits="unlimited", planned=None)
    drawn = [tier_after(fleet, selector, round_) for round_ in range(1, 601)]
    share = np.bincount(drawn, minlength=3) / 600

    assert np.all(np.abs(share - 1 / 3) < 4 * math.sqrt(2 / 9 / 600))


ACCURACY = {0: 0.9, 1: 0.7, 2: 0.2, 3: 0.4, 4: 0.5, 5: 0.5}
"""Tiers: 0.8, 0.3, 0.5."""


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # From the worst, tier 1, to the best, tier 0: 3, 2, 1 over 6; 2, 1, 0 over 3; and
        # .7, .5, .2 over 1.4.
        ("rank", [1 / 6, 3 / 6, 2 / 6]),
        ("rank_to_zero", [0.0, 2 / 3, 1 / 3]),
        ("error", [0.2 / 1.4, 0.7 / 1.4, 0.5 / 1.4]),
    ],
)
def test_probabilities_follow_the_tiers_accuracies(rule, expected):
    fleet, selector = ready(rule=rule, interval_rounds=2, trigger="every")
    evaluated = (WorkKind.EVALUATE, [0, 1, 2, 3, 4, 5])

    assert [stage[0] for stage in play(fleet, selector, 1)[0]] == [WorkKind.TRAIN]
    assert selector.state()["probability"] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert play(fleet, selector, 2, accuracy=ACCURACY)[0] == [evaluated]
    assert selector.state()["probability"] == pytest.approx(expected, rel=1e-12)
    assert selector.state()["accuracy"] == pytest.approx([0.8, 0.3, 0.5], rel=1e-12)
    assert play(fleet, selector, 3)[0] == []
    assert play(fleet, selector, 4)[0] == [evaluated]


def test_tiers_without_clients_have_no_part_in_the_probabilities():
    # Two clients, so two tiers, of accuracies .9 and .7: 1 / 3 and 2 / 3.
    fleet, selector = ready(2, interval_rounds=1, trigger="every")
    play(fleet, selector, 1, accuracy=ACCURACY)

    assert selector.state()["probability"] == pytest.approx([1 / 3, 2 / 3, 0.0])


def test_newcomers_are_profiled_before_the_tiers_are_measured():
    fleet, selector = ready(interval_rounds=1)
    play(fleet, selector, 1, candidates=[0, 1, 2])
    stages, _ = play(fleet, selector, 2)

    assert stages == [
        (WorkKind.TRAIN, [3, 4, 5]),
        (WorkKind.EVALUATE, [0, 1, 2, 3, 4, 5]),
    ]


def test_probabilities_stay_as_long_as_the_current_tier_gets_better():
    # Measured before each choice. All rise by .1 but not in the last round, in which the accuracy
    # of the tier drawn last stays: only then do they change.
    fleet, selector = ready(interval_rounds=1, credits="unlimited")
    even = [1 / 3, 1 / 3, 1 / 3]
    for round_ in range(1, 4):
        risen = {client: value * 0.7 + 0.1 * round_ for client, value in ACCURACY.items()}
        play(fleet, selector, round_, accuracy=risen)
        assert selector.state()["probability"] == pytest.approx(even)
    play(fleet, selector, 4, accuracy=risen)

    assert selector.state()["probability"] == pytest.approx([1 / 6, 3 / 6, 2 / 6])


def test_a_tier_that_does_not_answer_keeps_its_accuracy_and_is_no_stall():
    fleet, selector = ready(interval_rounds=1, credits="unlimited")
    tier = tier_after(fleet, selector, 1, accuracy=ACCURACY)
    play(fleet, selector, 2, accuracy=ACCURACY, late=[2 * tier, 2 * tier + 1])

    assert selector.state()["accuracy"] == pytest.approx([0.8, 0.3, 0.5])
    assert selector.state()["probability"] == pytest.approx([1 / 3, 1 / 3, 1 / 3])


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
