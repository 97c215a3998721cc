import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fleetsim import rng
from fleetsim.selectors.fedcor.correlation_fit import (
    initial_points,
    log_likelihood,
    mean_changes,
    patterns,
    remembered,
)
from fleetsim.selectors.fedcor.equations import covariance


def made(seed: int, dimension: int, num: int) -> np.ndarray:
    return initial_points(rng.stream(seed, "points").standard_normal((dimension, num)))


def test_initial_points_have_a_squared_length_of_one_on_average():
    # |x|^2 is chi^2_15 / 15: mean 1, variance 2/15; 2000 points, 4 standard errors.
    squared = (made(1, 15, 2000) ** 2).sum(axis=0)

    assert abs(squared.mean() - 1.0) < 4 * math.sqrt(2 / 15 / 2000)


def test_the_mean_is_discounted_by_age():
    # Client 0: (-2 + .5*-4) / 1.5; client 1 seen once; client 2 never.
    changes = np.array([[-4.0, np.nan, np.nan], [-2.0, -3.0, np.nan]])

    mean = mean_changes(changes, np.array([2, 1]), 0.5)
    # Weights .25 and .5: (-1 - 1) / .75.
    assert mean == pytest.approx([-8 / 3, -3.0, 0.0])


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
