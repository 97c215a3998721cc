import numpy as np
import pytest

from fleetsim.learning.data import dataset
from fleetsim.learning.data.dataset import from_pixels, moments_in, scaled, standardise


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
