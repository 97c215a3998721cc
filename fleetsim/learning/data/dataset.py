"""Loaded data set: arrays of inputs and labels, or inputs that are made whenever a client trains.

The server keeps the test part; the training part is assigned to clients (`learning.partition`).
Inputs are standardised channel by channel. A channel is the second axis: the colour of an image
[n, C, H, W], one feature of a vector [n, D].
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray

Pixels = Literal["standardised", "symmetric", "unit", "raw"]
"""Form of the numbers of images: mean 0 and standard deviation 1 by the set's published figures;
-1 .. 1; 0 .. 1; the bytes themselves, 0 .. 255."""

Moments = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of each channel, in pixels of 0..1."""

PIXEL_MAX = np.float32(255.0)
_CHUNK = 4096
"""Samples at a time: temporary arrays of a whole set would take its memory again."""
CACHED = 128
"""Images at a time that fit into a processor's cache."""


def scaled(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return bytes as float32 in 0..1, of the same shape."""
    inputs = images.astype(np.float32)
    inputs /= PIXEL_MAX
    return inputs


def moments_of(pixels: Pixels, published: Moments) -> Moments:
    """Return the moments for `from_pixels`, from those published of the set's training pixels."""
    if pixels == "standardised":
        return published
    alike = {"symmetric": (0.5, 0.5), "unit": (0.0, 1.0), "raw": (0.0, 1.0 / float(PIXEL_MAX))}
    shift, scale = alike[pixels]
    num_channels = len(published[0])
    return (shift,) * num_channels, (scale,) * num_channels


def from_pixels(
    images: NDArray[np.uint8], *, mean: tuple[float, ...], std: tuple[float, ...]
) -> NDArray[np.float32]:
    """Return (pixel / 255 - mean) / std of each channel: [n, C, H, W] uint8 to float32."""
    inputs = np.empty(images.shape, dtype=np.float32)
    by_channel = (-1, *[1] * (images.ndim - 2))
    subtracted = np.array(mean, np.float32).reshape(by_channel)
    divided = np.array(std, np.float32).reshape(by_channel)
    # Few at a time, so that all operations on a part find it in the cache.
    for start in range(0, len(images), CACHED):
        part = inputs[start : start + CACHED]
        part[...] = images[start : start + CACHED]
        part /= PIXEL_MAX
        part -= subtracted
        part /= divided
    return inputs


def moments_in(images: NDArray[np.uint8]) -> Moments:
    """Return the moments of images [n, C, H, W], n >= 1, for `from_pixels`.

    A channel that never varies has the deviation 1.

    >>> moments_in(np.array([0, 255, 255, 0], np.uint8).reshape(2, 1, 1, 2))
    ((0.5,), (0.5,))
    """
    num_channels = images.shape[1]
    counts = np.zeros((num_channels, 256), np.int64)
    # Few at a time: counting takes eight bytes a pixel.
    for start in range(0, len(images), CACHED):
        for channel in range(num_channels):
            part = images[start : start + CACHED, channel].ravel()
            counts[channel] += np.bincount(part, minlength=256)
    values = scaled(np.arange(256, dtype=np.uint8)).astype(np.float64)
    weights = counts / counts.sum(axis=1, keepdims=True)
    mean = weights @ values
    std = np.sqrt((weights * np.square(values - mean[:, None])).sum(axis=1))
    return tuple(mean.tolist()), tuple(np.where(std > 0.0, std, 1.0).tolist())


def standardise(train: NDArray[Any], test: NDArray[Any]) -> None:
    """Standardise both parts in place with mean and standard deviation of the training part.

    They are float32, [n, C, ...] with n >= 1 and [m, C, ...]. A channel that never varies in the
    training part is only centred.
    """
    other_axes = (0, *range(2, train.ndim))
    mean = train.mean(axis=other_axes, dtype=np.float64, keepdims=True)
    square = np.zeros_like(mean)
    for start in range(0, len(train), _CHUNK):
        deviation = train[start : start + _CHUNK] - mean
        square += np.square(deviation, out=deviation).sum(axis=other_axes, keepdims=True)
    std = np.sqrt(square / (train.size / train.shape[1]))
    std[std == 0.0] = 1.0
    for part in (train, test):
        np.subtract(part, mean.astype(np.float32), out=part)
        np.divide(part, std.astype(np.float32), out=part)


class AccessedInputs(ABC):
    """Samples [n, ...] that the user's own transform makes at each access."""

    items: IntArray
    """Item of the source of each sample [n]."""
    largest: float
    """Largest number of all samples as they were read first."""
    sha256: str
    """Digest of all samples of the source, each as one access with a fixed address made it."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the samples, [n, ...]."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers: float32 or, of tokens, int64."""

    def __len__(self) -> int:
        return len(self.items)

    @abstractmethod
    def __getitem__(self, kept: NDArray[Any]) -> AccessedInputs:
        """Return some of the samples, still to be made."""

    @abstractmethod
    def taken(
        self, rows: IntArray, visits: Sequence[int], *, seed: int, address: tuple[int, ...]
    ) -> NDArray[Any]:
        """Return some samples as numbers [m, ...].

        `visits` are the numbers of earlier accesses to each in this task [m]; the address is of the
        client and its task.
        """

    @abstractmethod
    def fixed(self, *, hint: str) -> NDArray[Any]:
        """Return all samples as an array [n, ...], read once.

        The hint says what to do about samples that are drawn, which are refused.
        """


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
