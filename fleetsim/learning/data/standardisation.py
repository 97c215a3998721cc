"""Standardisation of inputs to mean 0 and standard deviation 1, channel by channel.

A channel is the second axis: the colour of an image [n, C, H, W], one feature of a vector [n, D].
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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
