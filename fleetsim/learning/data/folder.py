"""The user's own folder of .npz or IDX files, as a data set of a scenario, see docs/data.md.

Its numbers of samples and clients are known before samples are read: they are those that the
headers of the files announce; loading checks them. Errors name the file, the array and the first
bad sample.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset, scaled
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.idx import idx_shape, read_idx
from fleetsim.learning.data.formats.npz import npz_shape, read_npz
from fleetsim.learning.data.own_data import (
    Array,
    AssemblyRules,
    CheckedPart,
    Wording,
    assembled,
    checked_part,
    finite,
    tokens,
    with_channel,
)

_ARRAYS = ("images", "inputs", "labels", "client")
_TRAIN_STEM, _TEST_STEMS = "train", ("test", "t10k")
"""Beginnings of the files' names, for either part."""
_COLOURS = (1, 3)


class FolderSettings(AssemblyRules, DatasetKind):
    """A folder of your own: .npz or IDX files with images, vectors or tokens and their labels."""

    how_to_get: ClassVar[str] = "your own files"
    has_user_files: ClassVar[bool] = True

    kind: Literal["folder"] = "folder"
    folder: str
    """Folder with `train.npz` (arrays `images` or `inputs`, `labels`, perhaps `client`) and perhaps
    `test.npz`, or with the same arrays as IDX files (`train-images-idx3-ubyte.gz` ...)."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the data set in the folder."""
        folder = paths.expanded(self.folder, ScenarioError, key="task.dataset.folder")
        train, test = _parts(folder)
        return assembled(
            folder.name,
            train,
            test,
            self,
            Wording(str(folder), "task.dataset.", "add test.npz (or test-*-idx* files)"),
        )

    def num_training(self, user_folder: Path | None = None) -> int | None:
        """Return the number that the headers of the files announce; None if they do not.

        Where a test part is drawn from each client's samples, the array `client` is read, within
        the limit of `fleetsim.host.unpacking`; else only headers are.
        """
        num_samples = None if user_folder is None else _num_labels(user_folder)
        if user_folder is None or num_samples is None or self.test_fraction is None:
            return num_samples
        if any(_part_files(user_folder, stem) for stem in _TEST_STEMS):
            return num_samples
        client_sizes = _client_sizes(user_folder)
        sizes = [num_samples] if client_sizes is None else client_sizes.tolist()
        if sum(sizes) != num_samples:
            return None
        return num_samples - sum(floor_product(self.test_fraction, size) for size in sizes)

    def num_natural(self, user_folder: Path | None = None) -> int | None:
        """Return the number of clients that the files name, 0 if none; None without files.

        A test part drawn from each client's samples leaves every client at least one.
        """
        if user_folder is None or _num_labels(user_folder) is None:
            return None
        client_sizes = _client_sizes(user_folder)
        return 0 if client_sizes is None else client_sizes.size

    def without_clients(self, user_folder: Path | None = None) -> str:
        """Return the error message for the partition `natural` of files without clients."""
        return (
            f"{user_folder} names no clients of its own; add an array 'client' to its training"
            " part, or choose iid, dirichlet or shards"
        )


def _parts(folder: Path) -> tuple[CheckedPart, CheckedPart | None]:
    """Return the training part and the test part in a folder; None if it has no test part."""
    train = _read_part(folder, _TRAIN_STEM)
    if train is None:
        where = f"{folder} has no" if paths.is_folder(folder) else f"{folder} is no folder with"
        raise DataError(
            f"{where} train.npz, and no IDX files called train-images-idx* and train-labels-idx*; "
            "put one or the other there"
        )
    stems = [stem for stem in _TEST_STEMS if _part_files(folder, stem)]
    if len(stems) > 1:
        raise DataError(f"{folder} has two test parts, {stems[0]} and {stems[1]}; remove one")
    return train, _read_part(folder, stems[0]) if stems else None


def _num_labels(folder: Path) -> int | None:
    """Return the length of the array of labels, which has one for each sample."""
    path = _part_files(folder, _TRAIN_STEM).get("labels")
    if path is None:
        return None
    shape = npz_shape(path, "labels") if path.suffix == ".npz" else idx_shape(path)
    return shape[0] if shape and shape[0] else None


def _client_sizes(folder: Path) -> IntArray | None:
    """Return the samples of each client [clients]; None if the files name no clients."""
    path = _part_files(folder, _TRAIN_STEM).get("client")
    if path is None:
        return None
    arrays = read_npz(path, ("client",)) if path.suffix == ".npz" else {"client": read_idx(path)}
    if "client" not in arrays:
        return None
    return np.unique(arrays["client"], return_counts=True)[1]


def _part_files(folder: Path, stem: str) -> dict[str, Path]:
    """Return the file of every array of a part, by the array's name; one .npz holds them all."""
    result: dict[str, Path] = {}
    packed = folder / f"{stem}.npz"
    if paths.is_file(packed):
        result = dict.fromkeys(_ARRAYS, packed)
    for name in _ARRAYS:
        for path in paths.matches(folder, f"{stem}-{name}-idx*"):
            if name in result:
                raise DataError(
                    f"{folder} has both {result[name].name} and {path.name}; remove one"
                )
            result[name] = path
    return result


def _read_part(folder: Path, stem: str) -> CheckedPart | None:
    """Return one part, checked; None if the folder has no file of it."""
    files = _part_files(folder, stem)
    if not files:
        return None
    packed = folder / f"{stem}.npz"
    if packed in files.values():
        where, arrays = str(packed), read_npz(packed, _ARRAYS)
        places = {name: f"{packed}: {name}" for name in _ARRAYS}
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
