"""Synthetic(alpha, beta) against its equations: labels by loops, moments within 5 sigma."""

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.contracts import FloatArray
from fleetsim.learning.data import dataset
from fleetsim.learning.data.built_in import SyntheticSettings, SyntheticUser, generate_user
from fleetsim.learning.data.dataset import from_pixels, moments_in, scaled, standardise

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


def test_users_hold_some_samples_more_than_a_lognormal_and_leafs_at_most_a_thousand(half, leaf):
    for of, least, mean, thresholds in (
        (half, 50, 4, (8, 55, 404)),
        (leaf, 5, 3, (3, 20, 150, 995)),
    ):
        sizes = np.array([len(user.labels) for user in of])
        for threshold in thresholds:
            # P(floor(LogNormal(mean, 2)) >= m) = 1 - Phi((ln m - mean) / 2)
            tail = 0.5 * math.erfc((math.log(threshold) - mean) / 2 / math.sqrt(2))
            share = float(np.mean(sizes - least >= threshold))
            assert within(share, tail, math.sqrt(0.25 / NUM_USERS))
        assert sizes.min() >= least
    assert sizes.max() == 1000


def test_the_input_means_spread_by_beta_and_in_leafs_process_by_one(half, leaf) -> None:
    for of, beta in ((half, 0.5), (leaf, 1.0)):
        means = np.array([user.inputs.mean(axis=0, dtype=np.float64).mean() for user in of])
        decay = np.arange(1, DIMENSION + 1) ** -1.2
        sampling = np.mean([decay.sum() / DIMENSION**2 / len(user.labels) for user in of])
        variance = beta**2 + 1 / DIMENSION + sampling

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


@pytest.fixture(scope="module")
def leaf() -> list[SyntheticUser]:
    """Users of LEAF's process with two classes, of which noise decides by the gap alone."""
    settings = SyntheticSettings(process="leaf", dimension=DIMENSION, num_classes=2)
    return [generate_user(settings, seed=5, user=user) for user in range(NUM_USERS)]


def leaf_model(user: SyntheticUser) -> FloatArray:
    return np.vstack([user.bias, user.weights])


@pytest.mark.slow
def test_leaf_models_are_multiples_of_one_that_spread_by_a_tenth() -> None:
    settings = SyntheticSettings(process="leaf", dimension=100, num_classes=50)
    models = [leaf_model(generate_user(settings, seed=5, user=user)) for user in range(NUM_USERS)]
    direction = models[0] / np.sqrt(np.mean(models[0] ** 2))
    multiples = np.array([np.mean(model * direction) for model in models])

    for model, multiple in zip(models, multiples, strict=True):
        np.testing.assert_allclose(model, multiple * direction, rtol=1e-9, atol=1e-12)
    # The direction is Q but for a factor of sqrt(mean Q^2), which is 1 +- sqrt(1 / 2 / 5050).
    error = math.sqrt(2 / (NUM_USERS - 1) + 2 / 5050)
    assert within(multiples.var(ddof=1), 0.1**2, 0.1**2 * error)


def test_leaf_multiples_have_a_mean_of_variance_two_from_seed_to_seed() -> None:
    # u of variance 1, m of 1 around it, s of 0.01 around that; the entries of Q are N(0, 1).
    settings = SyntheticSettings(process="leaf", dimension=40, num_classes=25)
    squares = [
        float(np.mean(leaf_model(generate_user(settings, seed=seed, user=0)) ** 2))
        for seed in range(300)
    ]

    # s^2 of s ~ N(0, v) has the variance 2 v^2; that of Q's mean square is 2 / 1025.
    assert within(float(np.mean(squares)), 2.01, 2.01 * math.sqrt((2 + 3 * 2 / 1025) / 300))


def test_leaf_noise_turns_labels_as_often_as_a_tenth_on_each_logit_does(leaf):
    # Of two logits that differ by g, each with noise of 0.1: P(turned) = Phi(-|g| / (0.1 sqrt 2)).
    turned, chances = 0, []
    for user in leaf:
        logits = user.inputs.astype(np.float64) @ user.weights + user.bias
        turned += int(np.sum(logits.argmax(axis=1) != user.labels))
        chances += [0.5 * math.erfc(abs(gap) / 0.2) for gap in (logits[:, 0] - logits[:, 1])]
    chance = np.array(chances)

    assert chance.sum() > 100
    assert within(turned, float(chance.sum()), math.sqrt(float((chance * (1 - chance)).sum())))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"iid": True}, "write alpha: 0 and beta: 0"),
        ({"process": "leaf", "alpha": 0.5}, "process: leaf has no alpha"),
        ({"process": "leaf", "beta": 0.0}, "process: leaf has no alpha"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SyntheticSettings(**settings)


def test_moments_of_bytes_are_those_of_their_numbers() -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (300, 2, 3, 5), dtype=np.uint8)
    images[:, 1] = 51
    train, expected = scaled(images), scaled(images[:7])
    standardise(train, expected)

    mean, std = moments_in(images)

    assert mean[1] == pytest.approx(0.2)
    assert std[1] == 1.0
    assert np.array_equal(from_pixels(images, mean=mean, std=std), train)
    assert np.array_equal(from_pixels(images[:7], mean=mean, std=std), expected)


def test_vectors_are_standardised_by_feature_and_images_by_channel() -> None:
    # Means 2 and 20, deviations 1 and 10.
    vectors, others = np.array([[1, 10], [3, 30]], np.float32), np.array([[4, 0]], np.float32)
    standardise(vectors, others)
    # Mean 3, variance (9 + 1 + 1 + 9) / 4.
    images = np.array([[[[0, 2]]], [[[4, 6]]]], np.float32)
    standardise(images, np.zeros((0, 1, 1, 2), np.float32))

    assert (vectors.tolist(), others.tolist()) == ([[-1, -1], [1, 1]], [[2, -2]])
    assert images.ravel() == pytest.approx(np.array([-3, -1, 1, 3]) / 5**0.5)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_channel_that_never_varies_is_only_centred(value: float) -> None:
    train = np.full((1000, 1), value, np.float32)
    test = np.full((1, 1), value, np.float32) + np.float32(2)

    standardise(train, test)

    assert np.abs(train).max() <= 1e-6 * value
    assert test[0, 0] == pytest.approx(2)


def test_many_samples_are_taken_in_parts_that_change_nothing(monkeypatch):
    monkeypatch.setattr(dataset, "_CHUNK", 3)
    train = np.arange(20, dtype=np.float32).reshape(10, 2)
    expected = (train - train.mean(axis=0)) / train.std(axis=0)

    standardise(train, train[:1].copy())

    assert train == pytest.approx(expected, abs=1e-6)
