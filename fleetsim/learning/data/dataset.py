"""What every data set becomes: arrays of inputs and labels, whoever the clients are.

Images become float32 [n, C, H, W], or stay bytes that stand for such; feature vectors float32
[n, D], tokens of a text int64 [n, t]; labels int64 [n], or [n, t] for sequences. The test part
stays with the server; only the training part is split over clients
(`fleetsim.learning.partition.split`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.learning.data.byte_images import ByteImages

Inputs = NDArray[np.float32] | IntArray
"""Images and feature vectors are float32, tokens int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Samples to train on and to test on; arrays are never changed in place."""

    name: str
    train_inputs: Inputs | ByteImages
    """Images [n, C, H, W], feature vectors [n, D] or tokens [n, t]."""
    train_labels: IntArray
    """Labels [n], or [n, t] for sequences, in 0..num_classes-1."""
    test_inputs: Inputs
    """Of the same shape but for the first axis."""
    test_labels: IntArray
    num_classes: int
    owner: IntArray | None = None
    """Natural client of each training sample [n], 0 .. number of natural clients - 1; None if the
    set has none."""
    vocabulary_size: int | None = None
    """Of text: tokens are 0 .. vocabulary_size - 1; None if samples are no text."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one input: (C, H, W), (D,) or (t,)."""
        return self.train_inputs.shape[1:]
