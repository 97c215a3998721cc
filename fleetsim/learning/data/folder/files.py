"""Files of the user's own data set: their names, and their arrays, read and checked.

Errors name the file, the array and the first bad sample.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.learning.data.checked_part import (
    Array,
    CheckedPart,
    checked_part,
    finite,
    tokens,
    with_channel,
)
from fleetsim.learning.data.formats.idx import read_idx
from fleetsim.learning.data.formats.npz import read_npz
from fleetsim.learning.data.standardisation import scaled

ARRAYS = ("images", "inputs", "labels", "client")
TRAIN_STEM, TEST_STEMS = "train", ("test", "t10k")
"""Beginnings of the files' names, for either part."""
_COLOURS = (1, 3)


def part_files(folder: Path, stem: str) -> dict[str, Path]:
    """Return the file of every array of a part, by the array's name; one .npz holds them all."""
    result: dict[str, Path] = {}
    packed = folder / f"{stem}.npz"
    if paths.is_file(packed):
        result = dict.fromkeys(ARRAYS, packed)
    for name in ARRAYS:
        for path in paths.matches(folder, f"{stem}-{name}-idx*"):
            if name in result:
                raise DataError(
                    f"{folder} has both {result[name].name} and {path.name}; remove one"
                )
            result[name] = path
    return result


def read_part(folder: Path, stem: str) -> CheckedPart | None:
    """Return one part, checked; None if the folder has no file of it."""
    files = part_files(folder, stem)
    if not files:
        return None
    packed = folder / f"{stem}.npz"
    if packed in files.values():
        where, arrays = str(packed), read_npz(packed, ARRAYS)
        places = {name: f"{packed}: {name}" for name in ARRAYS}
    else:
        where = f"{folder}/{stem}-*-idx*"
        arrays = {name: read_idx(path) for name, path in files.items()}
        places = {name: str(path) for name, path in files.items()}
    inputs = [name for name in ("images", "inputs") if name in arrays]
    if len(inputs) != 1 or "labels" not in arrays:
        has = ", ".join(arrays) or "none of them"
        raise DataError(f"{where}: needs labels and either images or inputs; it has {has}")
    name = inputs[0]
    return checked_part(
        _inputs(arrays[name], places[name], is_image=name == "images"),
        arrays["labels"],
        arrays.get("client"),
        inputs_at=places[name],
        labels_at=places["labels"],
        client_at=places.get("client", ""),
        verb="save",
    )


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
        return scaled(array) if array.ndim == 2 else with_channel(array)
    if array.dtype.kind == "f":
        return with_channel(finite(array, place))
    if array.dtype.kind in "iu" and array.ndim == 2:
        return tokens(array, place)
    raise DataError(
        f"{place} holds {array.dtype}; images and vectors are uint8 (divided by 255) or floats "
        "(used as they are), tokens any other whole numbers [n, t]"
    )
