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


def test_the_mean_may_be_what_was_observed():
    """Everybody's loss falls by 1 in every round: no covariance is left once that is the mean."""
    largest = {}
    for mean in ("zero", "observed"):
        fleet, selector = ready(warm_up_rounds=4, mean=mean, observed_fit_steps=600)
        for round_ in range(1, 6):
            play(fleet, selector, round_, [losses(*[9.0 - round_] * 4)])
        largest[mean] = np.abs(covariance(selector.state()["points"])).max()

    assert largest["zero"] > 0.3
    assert largest["observed"] < 0.01
