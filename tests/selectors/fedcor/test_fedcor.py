from __future__ import annotations

import math

import numpy as np

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.selectors.fedcor import FedCorSettings, covariance
from tests.selectors.rounds import met, outcome_of, probed, report_of, view_of

EVALUATE, TRAIN = WorkKind.EVALUATE, WorkKind.TRAIN


def ready(num_samples=(10,) * 4, *, cohort=2, **settings):
    return met(FedCorSettings(**settings), num_samples, cohort=cohort)


def play(fleet, selector, round_, stages=(), *, aggregated=True):
    """Plays rounds: losses and models by client for each stage of probing; those chosen deliver.

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
        if isinstance(value, float):
            return report._replace(loss=value)
        vector = None if value is None else np.array(value, dtype=np.float32)
        return report._replace(vector=vector, loss=None if value is None else 0.5)

    requests, view = probed(selector, fleet, answer, round_=round_)
    asked = [(stage[0].work.kind, [request.client for request in stage]) for stage in requests]
    chosen = selector.select(view)
    outcome = outcome_of(round_, [report_of(client, loss=1.0) for client in chosen.tolist()])
    if not aggregated:
        outcome = outcome_of(round_, [report_of(c, outcome=Outcome.LATE) for c in chosen.tolist()])
    selector.observe(outcome)
    return asked, chosen.tolist()


def losses(*values: float | None) -> dict[int, float | None]:
    return dict(enumerate(values))


EVERYBODY = (EVALUATE, [0, 1, 2, 3])
ONES = losses(1.0, 1.0, 1.0, 1.0)


def test_who_is_asked_what_in_which_round():
    # Warm-up 2: before rounds 1, 2 and 3 (0, 1, 2 rounds finished). Interval 3: after 3 and 6
    # rounds a shadow round, before rounds 4 and 7. Nothing before 5 and 6.
    fleet, selector = ready(warm_up_rounds=2, interval_rounds=3)
    models = dict.fromkeys(range(4), (1.0, 1.0, 1.0))
    asked = {round_: play(fleet, selector, round_, (ONES, models))[0] for round_ in range(1, 8)}

    for round_ in (1, 2, 3):
        assert asked[round_] == [EVERYBODY]
    for round_ in (4, 7):
        kinds = [kind for kind, _ in asked[round_]]
        assert kinds == [EVALUATE, TRAIN, EVALUATE]
        assert asked[round_][0] == asked[round_][2] == EVERYBODY
        assert len(asked[round_][1][1]) == 2
    assert asked[5] == asked[6] == []


def test_an_observation_is_what_a_round_did_to_the_losses():
    fleet, selector = ready(warm_up_rounds=9)
    play(fleet, selector, 1, [losses(1.0, 2.0, 3.0, 4.0)])
    play(fleet, selector, 2, [losses(0.5, 2.5, None, math.inf)])
    play(fleet, selector, 3, [losses(0.25, None, 2.0, 3.0)])
    state = selector.state()

    nan = math.nan
    np.testing.assert_array_equal(state["changes"], [[-0.5, 0.5, nan, nan], [-0.25, nan, nan, nan]])
    assert state["changed_in"].tolist() == [1, 2]


def test_a_round_that_was_not_aggregated_is_no_observation():
    fleet, selector = ready(warm_up_rounds=9)
    play(fleet, selector, 1, [ONES], aggregated=False)
    play(fleet, selector, 2, [losses(1.0, 1.0, 1.0, 0.9)])
    play(fleet, selector, 3, [losses(0.5, 0.5, 0.5, 0.4)])
    state = selector.state()

    assert state["changes"].tolist() == [[-0.5, -0.5, -0.5, -0.5]]
    assert state["changed_in"].tolist() == [2]


def test_the_shadow_model_is_the_average_by_samples_and_all_clients_download_it():
    # One round finished is the warm-up; the shadow round comes after two.
    fleet, selector = ready((10, 30, 20, 40), cohort=2, warm_up_rounds=1, interval_rounds=2)
    assert selector.probe(view_of(fleet, round_=3))
    heard = [report_of(c, loss=1.0, purpose=Purpose.PROBE) for c in range(3)]
    heard.append(report_of(3, outcome=Outcome.OFFLINE, purpose=Purpose.PROBE))
    training = selector.probe(view_of(fleet, round_=3, reports=heard, stage=1))
    asked = [request.client for request in training]

    assert 3 not in asked  # it did not answer, so its change could not be known
    assert [request.work.epochs for request in training] == [fleet.epochs] * 2
    for client, value in zip(asked, (1.0, 4.0), strict=True):
        num_samples = int(fleet.num_samples[client])
        report = report_of(client, loss=1.0, purpose=Purpose.PROBE, num_samples=num_samples)
        heard.append(report._replace(vector=np.full(3, value, dtype=np.float32)))
    shown = selector.probe(view_of(fleet, round_=3, reports=heard, stage=2))
    n, m = (int(fleet.num_samples[client]) for client in asked)

    assert [request.client for request in shown] == [0, 1, 2]
    for request in shown:
        np.testing.assert_allclose(request.parameters, (n * 1.0 + m * 4.0) / (n + m))
    heard += [report_of(c, loss=0.25 * c, purpose=Purpose.PROBE) for c in range(3)]
    assert list(selector.probe(view_of(fleet, round_=3, reports=heard, stage=3))) == []
    np.testing.assert_array_equal(selector.state()["changes"], [[-1.0, -0.75, -0.5, math.nan]])


def test_a_shadow_round_in_which_all_failed_changes_nothing():
    fleet, selector = ready(warm_up_rounds=1, interval_rounds=2)
    play(fleet, selector, 1, [ONES])
    play(fleet, selector, 2, [losses(0.5, 0.4, 0.3, 0.2)])
    before = selector.state()
    asked, _ = play(fleet, selector, 3, [ONES])

    assert [kind for kind, _ in asked] == [EVALUATE, TRAIN]
    np.testing.assert_array_equal(selector.state()["points"], before["points"])


def test_the_warm_up_is_uniform():
    # One of four: 1/4 each; 4 standard errors of 1000 rounds.
    fleet, selector = ready((1, 1, 1, 997), cohort=1, warm_up_rounds=1000)
    chosen = [int(selector.select(view_of(fleet, round_=r))[0]) for r in range(1, 1001)]

    assert np.all(np.abs(np.bincount(chosen) / 1000 - 0.25) < 4 * math.sqrt(0.1875 / 1000))


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


def test_scores_are_annealed_after_the_warm_up_and_whole_again_after_a_fit():
    fleet, selector = ready(cohort=1, warm_up_rounds=1, interval_rounds=3, annealing=0.5)
    play(fleet, selector, 1, [ONES])
    assert selector.state()["alpha"].tolist() == [1.0] * 4
    expected = np.ones(4)
    for round_ in (2, 3):
        _, chosen = play(fleet, selector, round_, [losses(0.5, 0.4, 0.3, 0.2)])
        expected[chosen] *= 0.5
        assert selector.state()["alpha"].tolist() == expected.tolist()
    # Before round 4 a shadow round: its fit makes all factors 1, then the choice halves one.
    models = dict.fromkeys(range(4), (1.0, 1.0, 1.0))
    _, chosen = play(fleet, selector, 4, (ONES, models, losses(0.5, 0.5, 0.5, 0.5)))
    expected = np.ones(4)
    expected[chosen] *= 0.5

    assert selector.state()["alpha"].tolist() == expected.tolist()


def test_old_observations_are_forgotten():
    fleet, selector = ready(warm_up_rounds=4, history_rounds=2)
    for round_ in range(1, 6):
        play(fleet, selector, round_, [losses(*[1.0 / round_] * 4)])

    # After round 4, at most 2 rounds old.
    assert selector.state()["changed_in"].tolist() == [2, 3, 4]


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
