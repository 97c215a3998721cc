"""Synthetic(alpha, beta) against its equations: labels by loops, moments within 5 sigma."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.learning.data.built_in import SyntheticSettings, SyntheticUser, generate_user

NUM_USERS = 400
DIMENSION = 20
NUM_CLASSES = 10


def users(**settings: float | bool) -> list[SyntheticUser]:
    chosen = SyntheticSettings(dimension=DIMENSION, num_classes=NUM_CLASSES, **settings)
    return [generate_user(chosen, seed=5, user=user) for user in range(NUM_USERS)]


@pytest.fixture(scope="module")
def half() -> list[SyntheticUser]:
    """Users of Synthetic(0.5, 0.5), where standard deviation and variance differ."""
    return users(alpha=0.5, beta=0.5)


def within(value: float, expected: float, standard_error: float) -> bool:
    return abs(value - expected) < 5 * standard_error


def test_the_label_is_the_class_of_the_largest_probability() -> None:
    user = generate_user(SyntheticSettings(), seed=1, user=3)

    for inputs, label in zip(user.inputs[:50].tolist(), user.labels[:50], strict=True):
        logits = [
            sum(x * float(user.weights[row, column]) for row, x in enumerate(inputs))
            + float(user.bias[column])
            for column in range(10)
        ]
        total = sum(math.exp(logit - max(logits)) for logit in logits)
        probabilities = [math.exp(logit - max(logits)) / total for logit in logits]

        assert label == probabilities.index(max(probabilities))


def test_alpha_spreads_the_mean_that_weights_and_bias_of_unit_variance_share(half) -> None:
    means = np.array([user.weights.mean() for user in half])
    spread = np.array([user.weights.var(ddof=1) for user in half])
    shift = np.array([user.bias.mean() - user.weights.mean() for user in half])
    cells = DIMENSION * NUM_CLASSES

    assert within(means.mean(), 0.0, math.sqrt((0.5**2 + 1 / cells) / NUM_USERS))
    assert within(spread.mean(), 1.0, math.sqrt(2 / (cells - 1) / NUM_USERS))
    for values, variance in ((means, 0.5**2 + 1 / cells), (shift, 1 / NUM_CLASSES + 1 / cells)):
        assert within(values.var(ddof=1), variance, variance * math.sqrt(2 / (NUM_USERS - 1)))


def test_the_variance_of_feature_j_is_j_to_the_minus_1_2(half: list[SyntheticUser]) -> None:
    degrees = sum(len(user.labels) - 1 for user in half)
    squares = sum(user.inputs.astype(np.float64).var(axis=0) * len(user.labels) for user in half)

    for j in (1, 2, 7, DIMENSION):
        expected = j**-1.2
        assert within(squares[j - 1] / degrees, expected, expected * math.sqrt(2 / degrees))


def test_users_hold_fifty_samples_more_than_a_lognormal(half) -> None:
    sizes = np.array([len(user.labels) for user in half])
    for threshold in (8, 55, 404):
        # P(floor(LogNormal(4, 2)) >= m) = 1 - Phi((ln m - 4) / 2)
        tail = 0.5 * math.erfc((math.log(threshold) - 4) / 2 / math.sqrt(2))
        share = float(np.mean(sizes - 50 >= threshold))
        assert within(share, tail, math.sqrt(0.25 / NUM_USERS))
    assert sizes.min() >= 50


def test_the_input_means_spread_by_beta(half) -> None:
    means = np.array([user.inputs.mean(axis=0, dtype=np.float64).mean() for user in half])
    decay = np.arange(1, DIMENSION + 1) ** -1.2
    sampling = np.mean([decay.sum() / DIMENSION**2 / len(user.labels) for user in half])
    variance = 0.5**2 + 1 / DIMENSION + sampling

    assert within(means.var(ddof=1), variance, variance * math.sqrt(2 / (NUM_USERS - 1)))


def test_iid_users_share_one_model_and_one_distribution() -> None:
    same = users(alpha=0.0, beta=0.0, iid=True)[:50]
    total = sum(len(user.labels) for user in same)
    mean = sum(user.inputs.sum(axis=0, dtype=np.float64) for user in same) / total

    assert all(np.array_equal(user.weights, same[0].weights) for user in same)
    assert all(np.array_equal(user.bias, same[0].bias) for user in same)
    assert not np.array_equal(same[0].inputs[:50], same[1].inputs[:50])
    assert np.all(np.abs(mean) < 5 / math.sqrt(total))


def test_users_and_seeds_have_streams_of_their_own() -> None:
    settings = SyntheticSettings()
    first = generate_user(settings, seed=1, user=0)

    assert np.array_equal(first.inputs, generate_user(settings, seed=1, user=0).inputs)
    assert not np.array_equal(first.weights, generate_user(settings, seed=1, user=1).weights)
    assert not np.array_equal(first.weights, generate_user(settings, seed=2, user=0).weights)


def test_iid_users_that_differ_are_refused() -> None:
    with pytest.raises(ValidationError, match="write alpha: 0 and beta: 0"):
        SyntheticSettings(iid=True)
