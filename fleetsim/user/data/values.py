"""Values of the user's samples as arrays: numbers, arrays, tensors, lists and pictures.

Bytes (uint8) are images, with the colours first or last; floats are used as they are; other whole
numbers are tokens.
"""

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import scaled
from fleetsim.learning.data.own_data import Array, finite, tokens, with_channel
from fleetsim.quoting import quoted, type_name

COLOURS = (1, 3)
"""Numbers of channels of an image of bytes."""
_PICTURE_MODES = ("L", "RGB")


def is_of(value: Any, module: str, name: str) -> bool:
    """Return whether a value is of a class of a library, which is not imported for it."""
    cls: type[Any] | None = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(value, cls)


def as_array(value: Any, place: str) -> NDArray[Any]:
    """Return one value, or a whole array of them, as a NumPy array; it may share its memory."""
    if is_of(value, "PIL.Image", "Image"):
        if value.mode not in _PICTURE_MODES:
            raise DataError(
                f"{place} is a picture of mode {quoted(value.mode)}; expected L or RGB; convert it,"
                " such as by picture.convert('RGB')"
            )
        picture: NDArray[Any] = np.asarray(value)
        return picture
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        # NumPy has no bfloat16.
        is_short = tensor.is_floating_point() and tensor.element_size() < _FLOAT32_BYTE
        array: NDArray[Any] = (tensor.float() if is_short else tensor).numpy()
        return array
    try:
        return np.asarray(value)
    except ValueError:
        raise DataError(
            f"{place} is a list of unequal lengths; cut or pad it to one length"
        ) from None


def as_sample(value: Any, place: str) -> NDArray[Any]:
    """Return one sample: images of bytes as [C, H, W], all else as it is, but with an axis."""
    array = as_array(value, place)
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{place} is {_described(value, array)}; expected numbers, an array, a tensor or a"
            " picture; convert it in a transform"
        )
    if array.dtype == np.uint8 and array.ndim in (2, 3):
        array = colours_first(with_channel(array[None]))[0]
    return array[None] if array.ndim == 0 else array


def colours_first(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images [n, C, H, W] of images with the colours first or last.

    >>> colours_first(np.zeros((2, 8, 9, 3), np.uint8)).shape
    (2, 3, 8, 9)
    """
    if images.ndim == 4 and images.shape[3] in COLOURS and images.shape[1] not in COLOURS:
        return images.transpose(0, 3, 1, 2)
    return images


def as_inputs(array: NDArray[Any], place: str) -> Array:
    """Return inputs: float32, images of bytes [n, C, H, W] uint8, or tokens [n, t] int64."""
    if array.ndim < 2 or 0 in array.shape:
        raise DataError(
            f"{place} has shape {array.shape}; expected one sample per row, such as [n, features],"
            " and none of them 0"
        )
    kind = array.dtype.kind
    if kind == "f":
        return finite(array, place)
    if kind == "b":
        return array.astype(np.float32)
    if array.dtype == np.uint8 and array.ndim in (2, 3, 4):
        if array.ndim == 2:
            return scaled(array)
        return np.ascontiguousarray(colours_first(with_channel(array)))
    if kind in "iu" and array.ndim == 2:
        return tokens(array, place)
    raise DataError(
        f"{place} holds {array.dtype} of shape {array.shape}; images are uint8 (divided by 255),"
        " all else is floats (used as they are) or tokens, other whole numbers [n, t]; convert it"
    )


def as_labels(values: Any, place: str) -> NDArray[Any]:
    """Return labels as an array that is not checked yet; true and false are 1 and 0."""
    array = as_array(values, place)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def as_clients(values: Any, place: str) -> NDArray[Any]:
    """Return the clients of samples [n]: whole numbers or names."""
    array = as_array(values, place)
    if array.dtype.kind == "O":
        missing = [row for row, value in enumerate(array) if _is_missing(value)]
        if missing:
            raise DataError(f"{place}: sample {missing[0]} has no client; fill it or remove it")
        array = array.astype(str)
    return array


def all_alike(values: Iterable[Any], num: int, place: str) -> NDArray[Any]:
    """Return n >= 1 samples as one array [n, ...]; `place` names them in errors."""
    samples: NDArray[Any] | None = None
    for row, value in enumerate(values):
        sample = as_sample(value, f"{place}: sample {row}")
        if samples is None:
            samples = np.empty((num, *sample.shape), dtype=sample.dtype)
        require_alike(sample, samples, f"{place}: sample {row}", "sample 0")
        if np.can_cast(samples.dtype, sample.dtype) and samples.dtype != sample.dtype:
            samples = samples.astype(sample.dtype)
        samples[row] = sample
    assert samples is not None  # there is at least one
    return samples


def require_alike(sample: NDArray[Any], samples: NDArray[Any], place: str, first: str) -> None:
    """Check that a sample has the shape and the sort of numbers of others [n, ...]."""
    if sample.shape != samples.shape[1:]:
        raise DataError(
            f"{place} has shape {sample.shape}, {first} has {samples.shape[1:]}; make all alike,"
            " such as by resizing, cutting or padding"
        )
    if _sort(sample.dtype) != _sort(samples.dtype):
        raise DataError(
            f"{place} holds {sample.dtype}, {first} holds {samples.dtype}; make all alike"
        )


_FLOAT32_BYTE = 4


def _sort(dtype: np.dtype[Any]) -> str:
    """Return the sort of numbers: bytes, whole numbers, floats or booleans."""
    if dtype == np.uint8:
        return "bytes"
    return "i" if dtype.kind == "u" else dtype.kind


def _is_missing(value: Any) -> bool:
    # NaN alone differs from itself.
    return value is None or bool(value != value)


def _described(value: Any, array: NDArray[Any]) -> str:
    return f"of type {type_name(value)}" if array.ndim == 0 else f"an array of {array.dtype}"
