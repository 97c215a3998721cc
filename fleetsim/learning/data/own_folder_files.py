"""Files of the user's own data set: their names, and their arrays, read and checked.

Errors name the file, the array and the first bad sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.learning.data.formats.idx import read_idx
from fleetsim.learning.data.formats.npz import read_npz
from fleetsim.learning.data.standardisation import scaled

ARRAYS = ("images", "inputs", "labels", "client")
TRAIN_STEM, TEST_STEMS = "train", ("test", "t10k")
"""Beginnings of the files' names, for either part."""
MAX_CLASSES = 1_000_000
_MAX_TOKENS = 10_000_000
_COLOURS = (1, 3)

Array = NDArray[Any]
"""Float32, int64 or, for images, uint8."""


@dataclass(frozen=True, slots=True, eq=False)
class FilePart:
    """Checked arrays of one part of the set."""

    inputs: Array
    """Images of bytes stay bytes here."""
    labels: IntArray
    client: NDArray[Any] | None
    """Client of each sample [n], by its name or number in the files."""
    inputs_at: str
    """Name of the inputs in errors."""
    labels_at: str
    """Name of the labels in errors."""


def part_files(folder: Path, stem: str) -> dict[str, Path]:
    """Return the file of every array of a part, by the array's name; one .npz holds them all.

    Raises:
        DataError: there are two for one array.
    """
    found: dict[str, Path] = {}
    packed = folder / f"{stem}.npz"
    if paths.is_file(packed):
        found = dict.fromkeys(ARRAYS, packed)
    for name in ARRAYS:
        for path in paths.matches(folder, f"{stem}-{name}-idx*"):
            if name in found:
                raise DataError(f"{folder} has both {found[name].name} and {path.name}; remove one")
            found[name] = path
    return found


def read_part(folder: Path, stem: str) -> FilePart | None:
    """Return one part, checked; None if the folder has no file of it.

    Raises:
        DataError: a file is broken, or an array has another form than is read.
    """
    files = part_files(folder, stem)
    if not files:
        return None
    packed = folder / f"{stem}.npz"
    places: Mapping[str, str]
    if packed in files.values():
        arrays = read_npz(packed, ARRAYS)
        places = {name: f"{packed}: {name}" for name in ARRAYS}
    else:
        arrays = {name: read_idx(path) for name, path in files.items()}
        places = {name: str(path) for name, path in files.items()}
    inputs = [name for name in ("images", "inputs") if name in arrays]
    if len(inputs) != 1 or "labels" not in arrays:
        has = ", ".join(arrays) or "none of them"
        where = packed if packed in files.values() else f"{folder}/{stem}-*-idx*"
        raise DataError(f"{where}: needs labels and either images or inputs; it has {has}")
    name = inputs[0]
    checked = _inputs(arrays[name], places[name], is_image=name == "images")
    labels = _labels(arrays["labels"], places["labels"], checked)
    client = arrays.get("client")
    if client is not None:
        _check_client(client, places["client"], len(checked))
    return FilePart(checked, labels, client, places[name], places["labels"])


def _inputs(array: NDArray[Any], place: str, *, is_image: bool) -> Array:
    """Return checked inputs: float32 images and vectors, images of bytes, int64 tokens."""
    allowed = "[n, height, width] or [n, channels, height, width]"
    if not is_image:
        allowed = "[n, features], [n, channels, height, width] or whole-number tokens [n, t]"
    if array.ndim not in ((3, 4) if is_image else (2, 4)) or 0 in array.shape:
        raise DataError(f"{place} has shape {array.shape}, expected {allowed}, none of them 0")
    if array.ndim == 4 and array.shape[3] in _COLOURS and array.shape[1] not in _COLOURS:
        raise DataError(
            f"{place} has shape {array.shape}, which looks like channels last; "
            "save array.transpose(0, 3, 1, 2)"
        )
    if array.dtype == np.uint8:
        return scaled(array) if array.ndim == 2 else _with_channel(array)
    if array.dtype.kind == "f":
        # A float64 too large for a float32 becomes infinite, and is refused below.
        with np.errstate(over="ignore"):
            inputs = array.astype(np.float32)
        if not np.isfinite(inputs).all():
            row = int(np.flatnonzero(~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1))[0])
            raise DataError(
                f"{place}: sample {row} holds a number that is NaN or not finite as float32; "
                "fill or remove it"
            )
        return _with_channel(inputs)
    if array.dtype.kind in "iu" and array.ndim == 2:
        for token in (array.min(), array.max()):
            if not 0 <= token < _MAX_TOKENS:
                raise DataError(
                    f"{place}: tokens are numbered from 0; it holds {token}; number them anew,"
                    f" below {_MAX_TOKENS}"
                )
        return array.astype(np.int64)
    raise DataError(
        f"{place} holds {array.dtype}; images and vectors are uint8 (divided by 255) or floats "
        "(used as they are), tokens any other whole numbers [n, t]"
    )


def _with_channel(inputs: Array) -> Array:
    """Return gray images [n, H, W] with a channel axis, other inputs as they are."""
    return inputs[:, None] if inputs.ndim == 3 else inputs


def _labels(array: NDArray[Any], place: str, inputs: Array) -> IntArray:
    """Return checked labels [n], or [n, t] where the inputs are tokens [n, t]."""
    is_sequence = array.ndim == 2 and inputs.dtype == np.int64 and array.shape == inputs.shape
    if array.dtype.kind not in "iu" or not (array.ndim == 1 or is_sequence) or 0 in array.shape:
        allowed = "whole numbers [n]"
        if inputs.dtype == np.int64:
            allowed += f", or one per token {list(inputs.shape)}"
        raise DataError(
            f"{place} holds {array.dtype} of shape {array.shape}; labels are {allowed};"
            f" {_advice_on_labels(array)}"
        )
    _check_length(array, place, len(inputs))
    for label in (array.min(), array.max()):
        if not 0 <= label < MAX_CLASSES:
            raise DataError(
                f"{place}: it holds the label {label}; they are numbered from 0 and end below "
                f"{MAX_CLASSES}"
            )
    return array.astype(np.int64)


def _advice_on_labels(array: NDArray[Any]) -> str:
    """Return the advice for an array that is no labels [n]; nothing is converted by a guess."""
    if array.ndim == 2 and array.dtype.kind in "iufb" and 0 not in array.shape:
        if array.shape[1] == 1:
            return "save labels[:, 0].astype('int64')"
        if (np.count_nonzero(array, axis=1) == 1).all() and (array.max(axis=1) == 1).all():
            return "they look one-hot, save labels.argmax(axis=1)"
    return "save one whole number per sample"


def _check_client(array: NDArray[Any], place: str, num_samples: int) -> None:
    if array.dtype.kind not in "iuU" or array.ndim != 1:
        raise DataError(
            f"{place} holds {array.dtype} in {array.ndim} dimensions; clients are whole numbers or "
            "names, one per sample [n]"
        )
    _check_length(array, place, num_samples)


def _check_length(array: NDArray[Any], place: str, num_samples: int) -> None:
    if len(array) != num_samples:
        raise DataError(f"{place} is for {len(array)} samples, but there are {num_samples} inputs")
