import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fleetsim import rng
from fleetsim.selectors.fedcor.correlation_fit import initial_points, log_likelihood, patterns
from fleetsim.selectors.fedcor.equations import (
    conditioned,
    covariance,
)


def made(seed: int, dimension: int, num: int) -> np.ndarray:
    return initial_points(rng.stream(seed, "points").standard_normal((dimension, num)))


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.integers(2, 9), st.data())
def test_conditioning_one_by_one_is_the_conditional_gaussian(seed, num, data):
    known = data.draw(st.lists(st.integers(0, num - 1), unique=True, min_size=1, max_size=num))
    sigma = covariance(made(seed, 3, num), 0.1)
    posterior, cross = sigma, sigma[:, known]
    for client in known:
        posterior = conditioned(posterior, client)
    exact = sigma - cross @ np.linalg.inv(sigma[np.ix_(known, known)]) @ cross.T

    assert posterior == pytest.approx(exact, abs=1e-8)


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


def test_no_client_observed_says_nothing_about_the_points():
    points = made(1, 2, 3)
    nothing = patterns(points, np.full((2, 3), np.nan), np.ones(2), np.zeros(3))
    value, gradient = log_likelihood(points, nothing, 0.01)

    assert value == 0.0
    assert gradient.tolist() == np.zeros((2, 3)).tolist()
