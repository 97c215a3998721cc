"""Loaded data set: arrays of inputs and labels.

The server keeps the test part; the training part is assigned to clients
(`fleetsim.learning.partition.split`).
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.learning.data.accessed_inputs import AccessedInputs
from fleetsim.learning.data.standardisation import Moments, from_pixels

Inputs = NDArray[np.float32] | IntArray
"""Images [n, C, H, W] and feature vectors [n, D] are float32, tokens of a text int64 [n, t]."""


@dataclass(frozen=True, slots=True, eq=False)
class ByteImages:
    """Images [n, C, H, W] that give `from_pixels` of their bytes when indexed.

    As an array they are these numbers too, float32, which take four times the memory; only those of
    the clients that train are needed at a time.
    """

    pixels: NDArray[np.uint8]
    """[n, C, H, W]"""
    mean: tuple[float, ...]
    """Mean of each channel; see `from_pixels`."""
    std: tuple[float, ...]
    """Standard deviation of each channel."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the numbers, [n, C, H, W]."""
        return self.pixels.shape

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[np.float32]:
        """Return the numbers of some images [m, C, H, W]."""
        return from_pixels(self.pixels[rows], mean=self.mean, std=self.std)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("bytes have to be brought to numbers")
        return self[:].astype(dtype or np.float32, copy=False)


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


def content_sha256(dataset: Dataset) -> str:
    """Return the SHA-256 of everything in a data set that training depends on, not of its name."""
    digest = hashlib.sha256()
    train, accessed = dataset.train_inputs, dataset.accessed
    parts: list[Any] = [dataset.num_classes, dataset.vocabulary_size]
    if accessed is not None:
        parts += ["made at each access", accessed.sha256, accessed.items]
    elif isinstance(train, ByteImages):
        parts += [train.mean, train.std, train.pixels]
    else:
        parts.append(train)
    parts += [dataset.train_labels, dataset.test_inputs, dataset.test_labels, dataset.owner]
    parts.append(dataset.owner_names)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            digest.update(f"{part!r};".encode())
    return digest.hexdigest()
