import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fleetsim import rng
from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.selectors.fedcor.correlation_fit import (
    initial_points,
    log_likelihood,
    patterns,
    remembered,
)
from fleetsim.selectors.fedcor.equations import choose, conditioned, covariance
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


def made(seed: int, dimension: int, num: int) -> np.ndarray:
    return initial_points(rng.stream(seed, "points").standard_normal((dimension, num)))


def test_initial_points_have_a_squared_length_of_one_on_average():
    # |x|^2 is chi^2_15 / 15: mean 1, variance 2/15; 2000 points, 4 standard errors.
    assert abs((made(1, 15, 2000) ** 2).sum(axis=0).mean() - 1.0) < 4 * math.sqrt(2 / 15 / 2000)


@pytest.mark.parametrize("seed", range(4))
def test_log_likelihood_is_that_of_the_gaussian(seed):
    points, stream = made(seed, 3, 5), rng.stream(seed, "changes")
    changes, mean = stream.normal(size=(4, 5)), stream.normal(size=5)
    weights = np.array([1.0, 0.9, 0.5, 0.25])
    changes[1, 2] = changes[3, 0] = changes[3, 4] = np.nan
    sigma = covariance(points, 0.2)
    slow = 0.0
    for row, weight in zip(changes, weights, strict=True):
        seen = np.flatnonzero(~np.isnan(row))
        slow += weight * multivariate_normal(mean[seen], sigma[np.ix_(seen, seen)]).logpdf(
            row[seen]
        )

    observed = patterns(points, changes, weights, mean)
    value, gradient = log_likelihood(points, observed, 0.2)

    assert value == pytest.approx(slow, rel=1e-10)
    step = 1e-6
    for place in np.ndindex(*points.shape):
        moved = np.zeros(points.shape)
        moved[place] = step
        above, _ = log_likelihood(points + moved, observed, 0.2)
        below, _ = log_likelihood(points - moved, observed, 0.2)
        assert gradient[place] == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-4)


def test_old_observations_are_forgotten():
    assert remembered(np.array([3, 4, 5, 14]), 14, 10).tolist() == [False, True, True, True]


def test_no_client_observed_says_nothing_about_the_points():
    points = made(1, 2, 3)
    nothing = patterns(points, np.full((2, 3), np.nan), np.ones(2), np.zeros(3))
    value, gradient = log_likelihood(points, nothing, 0.01)

    assert value == 0.0
    assert gradient.tolist() == np.zeros((2, 3)).tolist()


SIGMA = np.array([[4.0, 2.0, 0.0], [2.0, 4.0, 1.0], [0.0, 1.0, 1.0]])
SHARES = np.array([0.5, 0.25, 0.25])
EVERYBODY = np.array([0, 1, 2])


def conditional(sigma: np.ndarray, known: list[int]) -> np.ndarray:
    """Covariance of all given some, by the formula of the conditional Gaussian."""
    if not known:
        return sigma
    cross = sigma[:, known]
    posterior: np.ndarray = sigma - cross @ np.linalg.inv(sigma[np.ix_(known, known)]) @ cross.T
    return posterior


def test_a_choice_by_hand():
    # First 0 (1.25 of 1.25, 1.125, .5). Given 0, Sigma - (4, 2, 0)^T (4, 2, 0) / 4 leaves
    # var 3 and 1 and cov 1 for 1 and 2: s_1 = (3*.25 + 1*.25) / sqrt(3) = .57735,
    # s_2 = (1*.25 + 1*.25) / 1 = .5. With alpha_1 = .8 it is .46188 against .5, and first
    # 1.25 against .9.
    keys = np.zeros(3)

    assert choose(SIGMA, np.ones(3), SHARES, EVERYBODY, 2, keys).tolist() == [0, 1]
    tired = np.array([1.0, 0.8, 1.0])
    assert choose(SIGMA, tired, SHARES, EVERYBODY, 2, keys).tolist() == [0, 2]


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.integers(2, 9), st.data())
def test_conditioning_one_by_one_is_the_conditional_gaussian(seed, num, data):
    known = data.draw(st.lists(st.integers(0, num - 1), unique=True, min_size=1, max_size=num))
    sigma = covariance(made(seed, 3, num), 0.1)
    posterior = sigma
    for client in known:
        posterior = conditioned(posterior, client)

    assert posterior == pytest.approx(conditional(sigma, known), abs=1e-8)


def test_a_tiny_noise_leaves_the_covariance_regular() -> None:
    """Two clients at one point have Sigma = [[25 + v, 25], [25, 25 + v]], whose determinant is
    50 v + v^2; with v = 1e-12 of 25 it is above 0, and 0 by rounding with v = 1e-24."""
    points = np.array([[3.0, 3.0], [4.0, 4.0]])

    sigma = covariance(points, 1e-12)

    assert sigma[0, 0] - 25.0 == pytest.approx(25e-12, rel=1e-3)
    assert np.linalg.det(sigma) == pytest.approx(50 * 25e-12, rel=1e-3)
    observed = patterns(points, np.array([[1.0, -1.0]]), np.ones(1), np.zeros(2))
    value, gradient = log_likelihood(points, observed, 1e-12)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
