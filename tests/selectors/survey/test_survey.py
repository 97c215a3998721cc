from __future__ import annotations

import math

import numpy as np
import pytest

from fleetsim.contracts import Outcome
from fleetsim.selectors.survey import SurveySettings
from tests.selectors.rounds import met, outcome_of, report_of, view_of


def ready(num_samples=(10,) * 4, *, cohort=2, **settings):
    return met(SurveySettings(**settings), num_samples, cohort=cohort)


@pytest.mark.parametrize("policy", [1, 2])
def test_who_never_reported_goes_first(policy):
    fleet, selector = ready(policy=policy)
    selector.observe(outcome_of(1, [report_of(0, loss=99.0), report_of(2, loss=1.0)]))
    chosen = selector.select(view_of(fleet, round_=2, wanted=4)).tolist()

    assert list(selector.probe(view_of(fleet, round_=2))) == []
    assert set(chosen[:2]) == {1, 3}
    assert chosen[2:] == [0, 2]


def test_policy_1_takes_the_largest_average_losses_times_data():
    # p = .1 .2 .3 .4. Losses: 4 and 2, mean 3; 2; 2; .5. A = .3 .4 .6 .2.
    fleet, selector = ready((10, 20, 30, 40))
    first = [report_of(client, loss=loss) for client, loss in enumerate([4.0, 2.0, 2.0, 0.5])]
    selector.observe(outcome_of(1, first))
    selector.observe(outcome_of(2, [report_of(0, loss=2.0)]))
    state = selector.state()

    assert state["loss_sum"].tolist() == [6.0, 2.0, 2.0, 0.5]
    assert state["num_losses"].tolist() == [2, 1, 1, 1]
    assert selector.select(view_of(fleet, round_=3, wanted=4)).tolist() == [2, 1, 0, 3]
    assert selector.select(view_of(fleet, round_=3, candidates=[0, 1, 3])).tolist() == [1, 0]


def test_losses_may_be_those_of_the_first_epoch():
    # Client 0 lost 1 in the first epoch and 3 in the last, client 1 the other way round.
    fleet, selector = ready((10, 10), cohort=1, loss="first_epoch")
    told = [(1.0, 3.0), (3.0, 1.0)]
    reports = [report_of(c, loss=e[-1])._replace(epoch_losses=e) for c, e in enumerate(told)]
    selector.observe(outcome_of(1, reports))
    cohort = selector.select(view_of(fleet, round_=2))

    assert selector.state()["loss_sum"].tolist() == [1.0, 3.0]
    assert (cohort.clients.tolist(), cohort.asks_epoch_losses) == ([1], True)
    assert cohort.weights is None


@pytest.mark.parametrize("policy", [1, 2, 3])
def test_printed_weights_are_shares_that_do_not_sum_to_one(policy):
    # p = .1 .2 .3 .4, of whom two are chosen: p / 2.
    fleet, selector = ready((10, 20, 30, 40), policy=policy, weights="printed")
    cohort = selector.select(view_of(fleet))
    expected = (cohort.clients + 1) / 20

    assert cohort.weights.tolist() == pytest.approx(expected.tolist())
    assert cohort.are_shares
    assert not cohort.asks_epoch_losses


def test_policy_2_adds_a_bonus_for_the_rarely_seen():
    # Equal data, mean losses 1.0 (client 0, once) and 1.5 (client 1, four times). In round 6
    # sqrt(2 ln 6 / N) is 1.893 and .947: 2.89 against 2.45. Policy 1 takes client 1.
    taken = {}
    for policy in (1, 2):
        fleet, selector = ready((10, 10), cohort=1, policy=policy)
        selector.observe(outcome_of(1, [report_of(0, loss=1.0)]))
        for round_ in range(2, 6):
            selector.observe(outcome_of(round_, [report_of(1, loss=1.5)]))
        taken[policy] = selector.select(view_of(fleet, round_=6)).tolist()

    assert taken == {1: [1], 2: [0]}


def test_who_fails_keeps_its_losses_and_a_loss_that_is_not_finite_is_none():
    _, selector = ready()
    selector.observe(outcome_of(1, [report_of(0, loss=2.0), report_of(1, loss=math.nan)]))
    selector.observe(outcome_of(2, [report_of(0, loss=7.0, outcome=Outcome.LATE), report_of(3)]))
    state = selector.state()

    assert state["loss_sum"].tolist() == [2.0, 0.0, 0.0, 0.0]
    assert state["num_losses"].tolist() == [1, 0, 0, 0]


def test_policy_3_takes_no_client_twice_running():
    fleet, selector = ready((10,) * 6, cohort=3, policy=3)
    before: set[int] = set()
    for round_ in range(1, 20):
        chosen = set(selector.select(view_of(fleet, round_=round_)).tolist())
        assert len(chosen) == 3
        assert not chosen & before
        # Who was asked has taken part, delivered or not.
        fate = Outcome.LATE if round_ % 2 else Outcome.DELIVERED
        selector.observe(
            outcome_of(round_, [report_of(client, outcome=fate) for client in sorted(chosen)])
        )
        before = chosen


def test_policy_3_takes_those_of_the_last_round_only_where_others_are_too_few():
    fleet, selector = ready((10,) * 6, cohort=3, policy=3)
    selector.observe(outcome_of(1, [report_of(client) for client in (0, 1, 2)]))
    chosen = selector.select(view_of(fleet, round_=2, candidates=[0, 1, 2, 4])).tolist()

    assert chosen[0] == 4
    assert len(chosen) == 3


def test_policy_3_draws_uniformly():
    # 1 of 4, none selected before: 1/4 each; 4 standard errors of 2000 rounds.
    fleet, selector = ready((1, 10, 100, 1000), cohort=1, policy=3)
    chosen = [int(selector.select(view_of(fleet, round_=r))[0]) for r in range(1, 2001)]
    share = np.bincount(chosen, minlength=4) / 2000

    assert np.all(np.abs(share - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 2000))


def test_only_policies_1_and_2_need_losses():
    needs = [SurveySettings(policy=policy).build().needs_losses for policy in (1, 2, 3)]

    assert needs == [True, True, False]
