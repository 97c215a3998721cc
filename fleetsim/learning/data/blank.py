"""Data set without data: only shapes and sizes, for runs that do not train.

Fleets of a hundred thousand clients are simulated for their seconds and joules; no data set is
that large. The clients' sizes have the heavy tail of federated data sets. They are log-normal,
n_k = max(minimum, floor(median * exp(sigma * z_k))) with z_k standard normal.
"""

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.schema.ranges import Samples
from fleetsim.settings import Settings

_MAX_SAMPLE_VALUES = 100_000_000


def _in_memory(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > _MAX_SAMPLE_VALUES:
        raise ValueError(f"one sample must hold at most {_MAX_SAMPLE_VALUES} numbers")
    return shape


_Shape = Annotated[tuple[Samples, ...], Field(min_length=1), AfterValidator(_in_memory)]


class BlankSettings(Settings):
    """No data, only shapes and sizes; for runs without training."""

    kind: Literal["blank"] = "blank"
    input_shape: _Shape = (1, 28, 28)
    """Shape of one sample, as the model sees it."""
    num_classes: Annotated[int, Field(ge=2, le=1_000_000)] = 10
    """Number of classes, as the network sees it."""
    median_samples: Annotated[int, Field(ge=1, le=1_000_000_000)] = 200
    """Training samples of the median client."""
    # Nine deviations above the largest median still fit into 64 bit.
    sigma: Annotated[float, Field(ge=0.0, le=2.5)] = 0.8
    """Standard deviation of the logarithm of the clients' sizes."""
    min_samples: Annotated[int, Field(ge=1, le=1_000_000_000)] = 10
    """Training samples of the smallest client."""


def blank_sizes(settings: BlankSettings, *, seed: int, num_clients: int) -> IntArray:
    """Return the training samples of every client [N]; that of client k does not depend on N."""
    draw = rng.stream(seed, "blank-sizes").standard_normal(num_clients)
    sizes = np.floor(settings.median_samples * np.exp(settings.sigma * draw))
    at_least: IntArray = np.maximum(sizes, settings.min_samples).astype(np.int64)
    return at_least
