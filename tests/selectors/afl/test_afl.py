from __future__ import annotations

import math

import numpy as np

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.selectors.afl import AflSettings
from tests.selectors.rounds import met, outcome_of, report_of, view_of

SIZES = (4, 100, 25, 9)


def ready(num_samples=SIZES, *, cohort=1, **settings):
    return met(AflSettings(**settings), num_samples, cohort=cohort)


def answer(client, loss, outcome=Outcome.DELIVERED):
    return report_of(client, loss=loss, outcome=outcome, purpose=Purpose.PROBE)


def asked(requests) -> list[int]:
    return [request.client for request in requests]


def first(cohort) -> int:
    """Whom it wants most, whose first epoch it asks for."""
    assert cohort.asks_epoch_losses
    return int(cohort.clients[0])


def test_all_clients_there_evaluate_once_then_only_those_not_heard_of():
    fleet, selector = ready()
    requests = selector.probe(view_of(fleet, candidates=[0, 1, 2]))
    first = [answer(0, 1.5), answer(1, 0.5), answer(2, None, Outcome.LATE)]

    assert asked(requests) == [0, 1, 2]
    for request in requests:
        assert (request.work.kind, request.needs_model) == (WorkKind.EVALUATE, True)
        assert (request.work.num_samples, request.upload_byte) == (None, 8)
    # Who failed is not asked again for the same choice, but for the next one, with the newcomer.
    assert asked(selector.probe(view_of(fleet, candidates=[0, 1, 2], reports=first, stage=1))) == []
    assert asked(selector.probe(view_of(fleet, round_=2))) == [2, 3]


def test_valuations_are_refreshed_by_those_who_deliver_and_stale_otherwise():
    # sqrt(4) * 1.5 = 3, sqrt(100) * 0.5 = 5, sqrt(25) * 2 = 10; 3 did not answer.
    fleet, selector = ready()
    probed = [answer(0, 1.5), answer(1, 0.5), answer(2, 2.0), answer(3, None, Outcome.OFFLINE)]
    selector.select(view_of(fleet, reports=probed))
    assert selector.state()["valuation"].tolist() == [3.0, 5.0, 10.0, -math.inf]

    # First epochs: sqrt(4) * 2 = 4; the others failed or diverged; sqrt(9) * 1 = 3.
    trained = [
        report_of(0, loss=0.5)._replace(epoch_losses=(2.0, 1.0, 0.5)),
        report_of(1, outcome=Outcome.LATE)._replace(epoch_losses=(9.0,)),
        report_of(2, loss=1.0)._replace(epoch_losses=(math.nan, 1.0)),
        report_of(3, loss=1.0)._replace(epoch_losses=(1.0,)),
    ]
    selector.observe(outcome_of(1, trained))
    assert selector.state()["valuation"].tolist() == [4.0, 5.0, 10.0, 3.0]


def test_the_active_part_goes_to_the_largest_valuations():
    # v = 3, 5, 10, 9: floor(.5 * 4) = 2 are left out, 0 and 1. At alpha_2 = 100 client 2 is
    # exp(100) times as likely as 3; if 2 is not there, floor(.5 * 3) = 1 is left out and 3 leads.
    fleet, selector = ready(alpha_1=0.5, alpha_2=100.0, alpha_3=0.0)
    losses = {0: 1.5, 1: 0.5, 2: 2.0, 3: 3.0}
    selector.select(view_of(fleet, reports=[answer(c, loss) for c, loss in losses.items()]))

    assert {first(selector.select(view_of(fleet, round_=r))) for r in range(2, 30)} == {2}
    without = [view_of(fleet, round_=r, candidates=[0, 1, 3]) for r in range(2, 30)]
    assert {first(selector.select(view)) for view in without} == {3}


def test_the_random_part_reaches_those_left_out():
    # One active (2, as above) and one of the three others uniformly: 1/3 each, 900 rounds.
    fleet, selector = ready(cohort=2, alpha_1=0.5, alpha_2=100.0, alpha_3=0.5)
    losses = {0: 1.5, 1: 0.5, 2: 2.0, 3: 3.0}
    selector.select(view_of(fleet, reports=[answer(c, loss) for c, loss in losses.items()]))
    chosen = [selector.select(view_of(fleet, round_=r)).clients.tolist() for r in range(2, 902)]
    share = np.bincount([second for _, second in chosen], minlength=4) / 900

    assert {first for first, _ in chosen} == {2}
    assert np.all(np.abs(share[[0, 1, 3]] - 1 / 3) < 4 * math.sqrt(2 / 9 / 900))


def test_without_a_cold_start_no_client_is_asked_and_the_known_ones_are_active():
    # floor(.75 * 4) = 3 are left out: those without a valuation.
    fleet, selector = ready(cold_start="none", alpha_3=0.0)
    assert list(selector.probe(view_of(fleet))) == []
    assert selector.select(view_of(fleet)).clients.size == 1
    selector.observe(outcome_of(1, [report_of(3)._replace(epoch_losses=(0.1, 0.0))]))

    assert list(selector.probe(view_of(fleet, round_=2))) == []
    assert {first(selector.select(view_of(fleet, round_=r))) for r in range(2, 20)} == {3}
