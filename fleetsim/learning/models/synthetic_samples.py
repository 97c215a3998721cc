"""Samples and labels of a data set's form, drawn at random, to try a network with."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetsim import rng
from fleetsim.contracts import SampleForm


def drawn_samples(samples: SampleForm, num: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return samples [num, ...] and labels [num] or [num, t]; the same for equal arguments.

    Numbers are standard normal, as standardised data are; tokens and labels are uniform.
    """
    draw = rng.stream(0, "synthetic samples")
    shape = (num, *samples.input_shape)
    inputs: NDArray[Any]
    if samples.vocabulary_size is not None:
        inputs = draw.integers(samples.vocabulary_size, size=shape)
    else:
        inputs = draw.normal(size=shape).astype(np.float32)
    label_shape = shape[:2] if samples.is_sequence else shape[:1]
    return inputs, draw.integers(samples.num_classes, size=label_shape)


def zero_batch(samples: SampleForm, num: int) -> Tensor:
    """Return samples that are 0 everywhere [num, ...]: float32, or tokens int64."""
    is_text = samples.vocabulary_size is not None
    return torch.zeros(num, *samples.input_shape, dtype=torch.int64 if is_text else torch.float32)
