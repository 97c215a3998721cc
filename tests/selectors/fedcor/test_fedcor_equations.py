import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.selectors.fedcor.correlation_fit import initial_points, log_likelihood, patterns
from fleetsim.selectors.fedcor.equations import (
    choose,
    conditioned,
    covariance,
    scores,
)

SIGMA = np.array([[4.0, 2.0, 0.0], [2.0, 4.0, 1.0], [0.0, 1.0, 1.0]])
SHARES = np.array([0.5, 0.25, 0.25])
EVERYBODY = np.array([0, 1, 2])


def made(seed: int, dimension: int, num: int) -> np.ndarray:
    return initial_points(rng.stream(seed, "points").standard_normal((dimension, num)))


def conditional(sigma: np.ndarray, known: list[int]) -> np.ndarray:
    """Covariance of all given some, by the formula of the conditional Gaussian."""
    if not known:
        return sigma
    cross = sigma[:, known]
    posterior: np.ndarray = sigma - cross @ np.linalg.inv(sigma[np.ix_(known, known)]) @ cross.T
    return posterior


def test_covariance_is_the_kernel_and_the_noise():
    # x_0 = (1, 0), x_1 = (2, 1): products 1, 2, 5; sigma_n^2 = 0.25 on the diagonal.
    points = np.array([[1.0, 2.0], [0.0, 1.0]])

    assert covariance(points, 0.5).tolist() == [[1.25, 2.0], [2.0, 5.25]]


def test_scores_by_hand():
    # s_0 = (4*.5 + 2*.25 + 0*.25) / 2 = 1.25, s_1 = (2*.5 + 4*.25 + 1*.25) / 2 = 1.125,
    # s_2 = (0*.5 + 1*.25 + 1*.25) / 1 = .5; alpha halves the first.
    values = scores(SIGMA, np.array([0.5, 1.0, 1.0]), SHARES, np.ones(3, dtype=np.bool_))

    assert values.tolist() == [0.625, 1.125, 0.5]


def test_a_choice_by_hand():
    # First 0 (1.25 of 1.25, 1.125, .5). Given 0, Sigma - (4, 2, 0)^T (4, 2, 0) / 4 leaves
    # var 3 and 1 and cov 1 for 1 and 2: s_1 = (3*.25 + 1*.25) / sqrt(3) = .57735,
    # s_2 = (1*.25 + 1*.25) / 1 = .5. With alpha_1 = .8 it is .46188 against .5, and first
    # 1.25 against .9.
    keys = np.zeros(3)

    assert choose(SIGMA, np.ones(3), SHARES, EVERYBODY, 2, keys).tolist() == [0, 1]
    tired = np.array([1.0, 0.8, 1.0])
    assert choose(SIGMA, tired, SHARES, EVERYBODY, 2, keys).tolist() == [0, 2]


def test_a_known_client_varies_no_more():
    posterior = conditioned(SIGMA, 0)

    assert posterior.tolist() == [[0.0, 0.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 1.0]]
    assert SIGMA[0, 0] == 4.0


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.integers(2, 9), st.data())
def test_conditioning_one_by_one_is_the_conditional_gaussian(seed, num, data):
    known = data.draw(st.lists(st.integers(0, num - 1), unique=True, min_size=1, max_size=num))
    sigma = covariance(made(seed, 3, num), 0.1)
    posterior = sigma
    for client in known:
        posterior = conditioned(posterior, client)

    assert posterior == pytest.approx(conditional(sigma, known), abs=1e-8)


def test_who_is_not_there_counts_only_if_all_are_summed_over():
    # Without client 2 (of half the samples) s_0 = 4*.3 / 2 = .6 and s_1 = 1*.2 / 1 = .2; with it
    # s_0 is the same and s_1 = .2 + 9*.5 = 4.7.
    sigma = np.array([[4.0, 0.0, 0.0], [0.0, 1.0, 9.0], [0.0, 9.0, 100.0]])
    weights, there = np.array([0.3, 0.2, 0.5]), np.array([0, 1])

    assert choose(sigma, np.ones(3), weights, there, 1, np.zeros(3)).tolist() == [0]
    assert choose(sigma, np.ones(3), weights, there, 1, np.zeros(3), "all").tolist() == [1]


def test_equal_scores_go_by_the_keys_and_all_are_taken_if_too_few():
    keys = np.array([0.3, 0.1, 0.2])

    assert choose(np.eye(3), np.ones(3), np.ones(3), EVERYBODY, 9, keys).tolist() == [1, 2, 0]
    assert choose(np.eye(3), np.ones(3), np.ones(3), EVERYBODY[:0], 2, keys).tolist() == []
    assert choose(np.eye(1), np.ones(1), np.ones(1), np.array([0]), 1, keys[:1]).tolist() == [0]


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
