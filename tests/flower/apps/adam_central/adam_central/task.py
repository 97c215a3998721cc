"""Network and data of the app."""

from functools import lru_cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


def make_net() -> nn.Module:
    """Return a perceptron with one hidden layer and dropout."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))


@lru_cache(maxsize=1)
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return all images [1797, 64] and labels [1797], shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(labels))
    return torch.tensor(images[order] / 16.0, dtype=torch.float32), torch.tensor(labels[order])
