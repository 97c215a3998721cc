from __future__ import annotations

import math

import numpy as np
import pytest

from fleetsim.contracts import Cohort, Outcome, Purpose, WorkKind
from fleetsim.selectors.power_of_choice import PowerOfChoiceSettings, num_asked
from tests.selectors.rounds import met, outcome_of, report_of, view_of

LOSSES = {0: 0.3, 1: 2.5, 2: 0.9, 3: 1.7, 4: 2.1, 5: 0.1}


def ready(num_samples=(10,) * 6, *, cohort=2, seed=7, **settings):
    return met(PowerOfChoiceSettings(**settings), num_samples, cohort=cohort, seed=seed)


def answer(client, loss, outcome=Outcome.DELIVERED):
    return report_of(client, loss=loss, outcome=outcome, purpose=Purpose.PROBE)


def test_takes_the_largest_losses_among_all_when_d_is_n():
    # Losses .3 2.5 .9 1.7 2.1 .1: the three largest are 2.5 (1), 2.1 (4), 1.7 (3).
    fleet, selector = ready(cohort=3, d=6)
    requests = selector.probe(view_of(fleet))
    reports = [answer(request.client, LOSSES[request.client]) for request in requests]

    assert sorted(request.client for request in requests) == [0, 1, 2, 3, 4, 5]
    assert selector.select(view_of(fleet, reports=reports)).tolist() == [1, 4, 3]


@pytest.mark.parametrize(("d", "asked"), [(None, 4), (3, 3), (1, 2), (50, 6)])
def test_asks_d_candidates_twice_the_wanted_by_default_and_never_fewer(d, asked):
    fleet, selector = ready(cohort=2, d=d)
    requests = selector.probe(view_of(fleet))

    assert len({request.client for request in requests}) == len(requests) == asked
    assert list(selector.probe(view_of(fleet, stage=1))) == []


def test_a_given_d_below_the_wanted_is_raised():
    assert num_asked(3, 13) == 13


def test_a_full_probe_runs_over_all_samples_and_costs_the_model_and_a_scalar():
    fleet, selector = ready()
    request = selector.probe(view_of(fleet))[0]

    assert request.work.kind is WorkKind.EVALUATE
    assert request.work.num_samples is None
    assert request.needs_model
    assert request.upload_byte == 8
    assert request.parameters is None


def test_a_cheap_probe_runs_over_one_batch_or_what_there_is():
    fleet, selector = ready((10, 64, 65, 1000), cohort=4, variant="cpow-d")
    requests = selector.probe(view_of(fleet, candidates=[0, 2, 3]))
    samples = {request.client: request.work.num_samples for request in requests}

    assert samples == {0: 10, 2: 64, 3: 64}


def test_candidates_are_drawn_in_proportion_to_their_samples():
    # d = wanted = 1 of n = 10, 30, 60: P = .1, .3, .6; 4 standard errors of 3000 rounds.
    fleet, selector = ready((10, 30, 60), cohort=1, d=1)
    exact = np.array([0.1, 0.3, 0.6])
    drawn = [selector.probe(view_of(fleet, round_=round_))[0].client for round_ in range(3000)]
    share = np.bincount(drawn, minlength=3) / 3000

    assert np.all(np.abs(share - exact) < 4 * np.sqrt(exact * (1 - exact) / 3000))


def test_who_did_not_answer_is_out_even_if_too_few_remain():
    fleet, selector = ready(cohort=3, d=6)
    selector.probe(view_of(fleet))
    reports = [
        answer(client, LOSSES[client], Outcome.LATE if client in (1, 4) else Outcome.DELIVERED)
        for client in LOSSES
    ]
    few = [answer(0, 0.3), answer(3, 1.7), answer(1, None, Outcome.OFFLINE)]

    assert selector.select(view_of(fleet, reports=reports)).tolist() == [3, 2, 0]
    assert selector.select(view_of(fleet, reports=few)).tolist() == [3, 0]


def test_who_left_after_answering_is_out():
    fleet, selector = ready(cohort=2, d=6)
    selector.probe(view_of(fleet))
    reports = [answer(client, loss) for client, loss in LOSSES.items()]
    chosen = selector.select(view_of(fleet, reports=reports, candidates=[0, 2, 4, 5]))

    assert chosen.tolist() == [4, 2]


def test_without_any_answer_the_order_of_the_draw_decides():
    fleet, selector = ready(cohort=2, d=4)
    drawn = [request.client for request in selector.probe(view_of(fleet))]
    silent = [answer(client, None, Outcome.LATE) for client in drawn]

    assert selector.select(view_of(fleet, reports=silent)).tolist() == drawn[:2]


def test_when_all_asked_have_left_those_there_are_drawn_anew():
    fleet, selector = ready(cohort=2, d=2)
    drawn = {request.client for request in selector.probe(view_of(fleet))}
    others = sorted(set(range(6)) - drawn)
    chosen = selector.select(view_of(fleet, candidates=others)).tolist()

    assert len(chosen) == 2
    assert set(chosen) <= set(others)


def test_an_answer_without_a_loss_ranks_below_all_losses():
    fleet, selector = ready(cohort=3, d=6)
    selector.probe(view_of(fleet))
    reports = [answer(0, None), answer(1, 0.001), answer(2, math.nan), answer(3, 0.5)]

    assert selector.select(view_of(fleet, reports=reports)).tolist()[:2] == [3, 1]


def test_the_variants_draw_the_same_candidates():
    drawn = []
    for variant in ("pow-d", "cpow-d"):
        fleet, selector = ready((5, 9, 2, 14, 8, 3), variant=variant)
        drawn.append([request.client for request in selector.probe(view_of(fleet))])

    assert drawn[0] == drawn[1]


def test_rpow_d_takes_the_never_seen_first_then_the_largest_last_losses():
    fleet, selector = ready(cohort=2, variant="rpow-d", d=6)
    assert list(selector.probe(view_of(fleet))) == []
    reports = [report_of(client, loss=LOSSES[client]) for client in (0, 1, 2, 4)]
    selector.observe(outcome_of(1, reports))

    # 3 and 5 were never seen; then 2.5 (1), 2.1 (4), 0.9 (2), 0.3 (0).
    chosen = selector.select(view_of(fleet, round_=2, wanted=6)).tolist()

    assert set(chosen[:2]) == {3, 5}
    assert chosen[2:] == [1, 4, 2, 0]


@pytest.mark.parametrize(
    ("loss", "order"),
    [("last_epoch", [2, 0, 1]), ("first_epoch", [1, 0, 2]), ("all_epochs", [0, 1, 2])],
)
def test_rpow_d_goes_by_the_epochs_it_is_told_to(loss, order):
    # Last 2, 1, 3; first 5, 6, 4; means 11/3, 10/3, 9.5/3.
    fleet, selector = ready((10,) * 3, cohort=3, variant="rpow-d", d=3, loss=loss)
    told = {0: (5.0, 4.0, 2.0), 1: (6.0, 3.0, 1.0), 2: (4.0, 2.5, 3.0)}
    reports = [report_of(c, loss=each[-1])._replace(epoch_losses=each) for c, each in told.items()]
    selector.observe(outcome_of(1, reports))
    answer = selector.select(view_of(fleet, round_=2))

    assert isinstance(answer, Cohort) == (loss != "last_epoch")
    if isinstance(answer, Cohort):
        assert answer.asks_epoch_losses
        answer = answer.clients
    assert answer.tolist() == order


def test_rpow_d_keeps_the_loss_of_who_failed_and_replaces_that_of_who_delivered():
    fleet, selector = ready((10,) * 3, cohort=3, variant="rpow-d", d=3)
    selector.observe(outcome_of(1, [report_of(client, loss=LOSSES[client]) for client in range(3)]))
    second = [
        report_of(0, loss=1.0),
        report_of(1, loss=0.0, outcome=Outcome.OFFLINE),
        report_of(2, loss=math.inf),
    ]
    selector.observe(outcome_of(2, second))

    # 2.5 (1, as it was), 1.0 (0, new), 0.9 (2: a loss that is not finite is none).
    assert selector.select(view_of(fleet, round_=3)).tolist() == [1, 0, 2]
