"""Softmax regression on digits that scikit-learn brings, with numpy alone."""

from functools import lru_cache

import numpy as np
from sklearn.datasets import load_digits


@lru_cache(maxsize=1)
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all images [1797, 64] and labels [1797], shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(labels))
    return images[order] / 16.0, labels[order]


def scores_of(weights: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the probability of each digit."""
    scores = images @ weights
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def gradient(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the gradient of the mean cross entropy."""
    errors = scores_of(weights, images)
    errors[np.arange(len(labels)), labels] -= 1.0
    return images.T @ errors / len(labels)


def loss_and_accuracy(
    weights: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
    """Return mean cross entropy and accuracy."""
    scores = scores_of(weights, images)
    loss = -np.log(scores[np.arange(len(labels)), labels] + 1e-12).mean()
    return float(loss), float((scores.argmax(axis=1) == labels).mean())
