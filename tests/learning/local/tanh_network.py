"""A small float64 network with weights and samples of its own, and batches of one client."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.learning.local import local_sgd
from fleetsim.learning.models.flat_vector import flatten, load_flat
from tests.learning.side_by_side import Array

NUM_SAMPLES, NUM_FEATURES, NUM_CLASSES = 23, 6, 4


def data() -> tuple[Tensor, Tensor]:
    draw = rng.stream(3, "test/data")
    inputs = torch.from_numpy(draw.normal(size=(NUM_SAMPLES, NUM_FEATURES)))
    return inputs, torch.from_numpy(draw.integers(NUM_CLASSES, size=NUM_SAMPLES))


def network() -> tuple[nn.Sequential, Array]:
    module = nn.Sequential(nn.Linear(NUM_FEATURES, 8), nn.Tanh(), nn.Linear(8, NUM_CLASSES))
    module.double()
    weights: Array = 0.3 * rng.stream(3, "test/weights").normal(size=flatten(module).size)
    load_flat(module, weights)
    return module, weights


def stream() -> np.random.Generator:
    return rng.stream(3, "test/local")


def passes(epochs: int = 1, **more: Any) -> local_sgd.Passes:
    return local_sgd.Passes(epochs=epochs, stream=stream(), **more)
