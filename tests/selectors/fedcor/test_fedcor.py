import math

import numpy as np

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.selectors.fedcor.equations import covariance
from fleetsim.selectors.fedcor.selector import FedCorSettings
from tests.selectors.rounds import met, outcome_of, probed, report_of

EVALUATE, TRAIN = WorkKind.EVALUATE, WorkKind.TRAIN


def ready(num_samples=(10,) * 4, *, cohort=2, **settings):
    return met(FedCorSettings(**settings), num_samples, cohort=cohort)


def play(fleet, selector, round_, stages):
    """Plays rounds: losses by client for each stage of probing; those chosen deliver.

    Returns the kind of work and the clients of every stage, and the choice.
    """

    def answer(request, stage):
        client = request.client
        value = stages[stage].get(client) if stage < len(stages) else None
        report = report_of(
            client,
            outcome=Outcome.LATE if value is None else Outcome.DELIVERED,
            purpose=Purpose.PROBE,
            num_samples=int(fleet.num_samples[client]),
        )
        return report._replace(loss=value)

    requests, view = probed(selector, fleet, answer, round_=round_)
    asked = [(stage[0].work.kind, [request.client for request in stage]) for stage in requests]
    chosen = selector.select(view)
    selector.observe(outcome_of(round_, [report_of(c, loss=1.0) for c in chosen.tolist()]))
    return asked, chosen.tolist()


def losses(*values: float | None) -> dict[int, float | None]:
    return dict(enumerate(values))


ONES = losses(1.0, 1.0, 1.0, 1.0)


def test_a_shadow_round_in_which_all_failed_changes_nothing():
    fleet, selector = ready(warm_up_rounds=1, interval_rounds=2)
    play(fleet, selector, 1, [ONES])
    play(fleet, selector, 2, [losses(0.5, 0.4, 0.3, 0.2)])
    before = selector.state()
    asked, _ = play(fleet, selector, 3, [ONES])

    assert [kind for kind, _ in asked] == [EVALUATE, TRAIN]
    np.testing.assert_array_equal(selector.state()["points"], before["points"])


def test_of_clients_that_move_together_one_is_enough():
    """0, 1 and 2 gain and lose together, 3 on its own, all as much: s is about three for each of
    the first and one for the last; given one of them the other two have little left to tell."""
    fleet, selector = ready(warm_up_rounds=8, ties="lowest_id", annealing=1.0)
    together = [0.9, -0.8, 0.7, -0.9, 0.8, 0.8, -0.7, 0.9]
    alone = [0.8, 0.9, -0.8, -0.7, -0.9, 0.8, 0.9, -0.7]
    now = np.full(4, 9.0)
    play(fleet, selector, 1, [losses(*now.tolist())])
    for round_, (change, own) in enumerate(zip(together, alone, strict=True), start=2):
        now = now + np.array([change, change, change, own])
        _, chosen = play(fleet, selector, round_, [losses(*now.tolist())])

    assert chosen[0] in (0, 1, 2)
    assert chosen[1] == 3
    sigma = covariance(selector.state()["points"])
    assert sigma[0, 1] / math.sqrt(sigma[0, 0] * sigma[1, 1]) > 0.95
    assert abs(sigma[0, 3]) / math.sqrt(sigma[0, 0] * sigma[3, 3]) < 0.5


def test_the_mean_may_be_what_was_observed():
    """Everybody's loss falls by 1 in every round: no covariance is left once that is the mean."""
    found = {}
    for mean in ("zero", "observed"):
        fleet, selector = ready(warm_up_rounds=4, mean=mean, observed_fit_steps=600)
        for round_ in range(1, 6):
            play(fleet, selector, round_, [losses(*[9.0 - round_] * 4)])
        found[mean] = np.abs(covariance(selector.state()["points"])).max()

    assert found["zero"] > 0.3
    assert found["observed"] < 0.01
