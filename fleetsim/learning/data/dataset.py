"""Loaded data set: arrays of inputs and labels.

The server keeps the test part; the training part is assigned to clients
(`fleetsim.learning.partition.split`).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.learning.data.accessed_inputs import AccessedInputs
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.standardisation import Moments, from_pixels

Inputs = NDArray[np.float32] | IntArray
"""Images [n, C, H, W] and feature vectors [n, D] are float32, tokens of a text int64 [n, t]."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImages:
    """Images as bytes, and their labels."""

    images: NDArray[np.uint8]
    """[n, C, H, W]; three channels are red, green, blue."""
    labels: IntArray
    """[n] in 0..num_classes-1."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Samples to train on and to test on; arrays are never changed in place."""

    name: str
    train_inputs: Inputs | ByteImages
    """Inputs to train on; images may stay bytes until they are used. Empty [n, 0] where `accessed`
    is given."""
    train_labels: IntArray
    """Labels [n], or [n, t] for sequences, in 0..num_classes-1."""
    test_inputs: Inputs
    """Inputs of the same shape but for the first axis."""
    test_labels: IntArray
    num_classes: int
    owner: IntArray | None = None
    """Natural client of each training sample [n], 0 .. number of natural clients - 1; None if the
    set has none."""
    owner_names: tuple[str, ...] | None = None
    """Name of each natural client, by its number; None: the number itself."""
    vocabulary_size: int | None = None
    """Number of tokens of a text, 0 .. vocabulary_size - 1; None if samples are no text."""
    accessed: AccessedInputs | None = None
    """Inputs to train on that are made at each access; None: they are in `train_inputs`."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one input: (C, H, W), (D,) or (t,)."""
        inputs = self.train_inputs if self.accessed is None else self.accessed
        return inputs.shape[1:]

    @property
    def size_byte(self) -> int:
        """Bytes of the inputs as they are used."""
        num = len(self.train_labels) + len(self.test_labels)
        return num * math.prod(self.sample_shape) * self.test_inputs.itemsize


def image_dataset(
    name: str,
    train: LabelledImages,
    test: LabelledImages,
    *,
    moments: Moments,
    num_classes: int,
    owner: IntArray | None = None,
) -> Dataset:
    """Return a data set of images, of which those to train on stay bytes; see `from_pixels`."""
    mean, std = moments
    return Dataset(
        name=name,
        train_inputs=ByteImages(train.images, mean, std),
        train_labels=train.labels,
        test_inputs=from_pixels(test.images, mean=mean, std=std),
        test_labels=test.labels,
        num_classes=num_classes,
        owner=owner,
    )
