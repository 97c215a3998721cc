"""A data set of one's own: a folder of .npz or IDX files, and not a line of code.

Either `train.npz` and perhaps `test.npz`, with the arrays `images` or `inputs`, `labels` and
perhaps `client`; or IDX files (MNIST's format, gzipped or not) with one array each, whose names
begin with `train-images-idx`, `train-labels-idx`, `train-client-idx`, then `test-images-idx` or
`t10k-images-idx`, and so on. What each may hold is checked here and told by file, array and row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data import own_folder_sizes
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.dataset import Dataset, Inputs
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.idx import read_idx
from fleetsim.learning.data.formats.npz import read_npz
from fleetsim.learning.data.own_folder_files import ARRAYS, TEST_STEMS, TRAIN_STEM, part_files
from fleetsim.learning.data.published.remote_set import RemoteSet
from fleetsim.learning.data.standardisation import by_training_part, from_pixels, moments_in, scaled
from fleetsim.rng import stream
from fleetsim.schema.ranges import PartFraction

_COLOURS = (1, 3)
_MAX_CLASSES = 1_000_000
_MAX_TOKENS = 10_000_000
_SPLIT_SEED = 0


class FolderSettings(DatasetKind):
    """A folder of your own: .npz or IDX files with images, vectors or tokens and their labels."""

    how_to_get: ClassVar[str] = "your own files"
    is_own_files: ClassVar[bool] = True

    kind: Literal["folder"] = "folder"
    folder: str
    """Folder with `train.npz` (arrays `images` or `inputs`, `labels`, perhaps `client`) and perhaps
    `test.npz`, or with the same arrays as IDX files (`train-images-idx3-ubyte.gz` ...)."""
    test_fraction: PartFraction | None = None
    """Share of every client's training samples, drawn at random but the same for every seed, that
    becomes the test part; for a folder without one, and only for such."""
    standardise: bool = False
    """Bring every channel of images, or every feature of vectors, to mean 0 and standard deviation
    1 over the training part."""
    num_classes: Annotated[int, Field(ge=2, le=_MAX_CLASSES)] | None = None
    """Number of labels; by default the largest label of both parts plus one."""

    def load(self, *, seed: int, num_clients: int, registry: Mapping[str, RemoteSet]) -> Dataset:
        """Return the data set in the folder."""
        folder = paths.expanded(self.folder, ScenarioError, key="task.dataset.folder")
        return load_own_folder(self, folder)

    def num_training(self, own_folder: Path | None = None) -> int | None:
        """Return the number that the headers of the files announce."""
        return (
            None
            if own_folder is None
            else own_folder_sizes.num_training(own_folder, self.test_fraction)
        )

    def num_natural(self, own_folder: Path | None = None) -> int | None:
        """Return the number of clients that the files name."""
        return None if own_folder is None else own_folder_sizes.num_natural(own_folder)

    def without_clients(self, own_folder: Path | None = None) -> str:
        """Return the error message for the partition `natural` of files without clients."""
        return (
            f"{own_folder} names no clients of its own; add an array 'client' to its training part,"
            " or choose iid, dirichlet or shards"
        )


_Array = NDArray[Any]
"""Float32, int64 or, of images, uint8."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One checked part of the set."""

    inputs: _Array
    """Images of bytes are still bytes."""
    labels: IntArray
    client: NDArray[Any] | None
    """Who owns each sample [n], as the files call them."""
    inputs_at: str
    """What errors call the inputs."""
    labels_at: str


def load_own_folder(settings: FolderSettings, folder: Path) -> Dataset:
    """The data set in a folder.

    Args:
        settings: how to read it.
        folder: where it lies, with `~` expanded.

    Raises:
        DataError: files are missing or broken, or an array is not of a form that can be learned
            from; the message names file, array and way out.
        ScenarioError: a key of the scenario does not suit the files.
    """
    train = _part(folder, TRAIN_STEM)
    if train is None:
        where = f"{folder} has no" if paths.is_folder(folder) else f"{folder} is no folder with"
        raise DataError(
            f"{where} train.npz, and no IDX files called train-images-idx* and train-labels-idx*; "
            "put one or the other there"
        )
    stems = [stem for stem in TEST_STEMS if part_files(folder, stem)]
    if len(stems) > 1:
        raise DataError(f"{folder} has two test parts, {stems[0]} and {stems[1]}; remove one")
    test = _part(folder, stems[0]) if stems else None
    if test is None:
        train, test = _drawn(settings, folder, train)
    elif settings.test_fraction is not None:
        raise ScenarioError(
            f"task.dataset.test_fraction: {folder} has a test part of its own; leave the key out"
        )
    holds_tokens = train.inputs.dtype == np.int64
    if train.inputs.shape[1:] != test.inputs.shape[1:] or holds_tokens != (
        test.inputs.dtype == np.int64
    ):
        raise DataError(
            f"{test.inputs_at}: samples of shape {test.inputs.shape[1:]} and {test.inputs.dtype}, "
            f"those of {train.inputs_at} are of {train.inputs.shape[1:]} and {train.inputs.dtype}"
        )
    if train.labels.shape[1:] != test.labels.shape[1:]:
        raise DataError(
            f"{test.labels_at}: labels of shape {test.labels.shape}, those of {train.labels_at} are"
            f" {train.labels.shape}; save both parts alike"
        )
    num_classes = _num_classes(settings, train, test)
    vocabulary_size = None
    if holds_tokens:
        vocabulary_size = 1 + int(max(train.inputs.max(), test.inputs.max()))
        if train.labels.ndim > 1:
            # A language model's labels are tokens, and its tokens may be labels.
            num_classes = vocabulary_size = max(num_classes, vocabulary_size)
    if settings.standardise and holds_tokens:
        raise ScenarioError(
            f"task.dataset.standardise: {train.inputs_at} holds tokens, which have no mean; "
            "leave the key out"
        )
    train_inputs, test_inputs = _as_numbers(
        train.inputs, test.inputs, is_standardised=settings.standardise
    )
    owner = None
    if train.client is not None:
        owner = np.unique(train.client, return_inverse=True)[1].astype(np.int64)
    return Dataset(
        name=folder.name,
        train_inputs=train_inputs,
        train_labels=train.labels,
        test_inputs=test_inputs,
        test_labels=test.labels,
        num_classes=num_classes,
        owner=owner,
        vocabulary_size=vocabulary_size,
    )


def _as_numbers(
    train: _Array, test: _Array, *, is_standardised: bool
) -> tuple[Inputs | ByteImages, Inputs]:
    """Both parts as models take them; where both are bytes, those to train on stay bytes."""
    if train.dtype == test.dtype == np.uint8:
        mean, std = (0.0,) * train.shape[1], (1.0,) * train.shape[1]
        if is_standardised:
            mean, std = moments_in(train)
        return ByteImages(train, mean, std), from_pixels(test, mean=mean, std=std)
    train, test = (scaled(part) if part.dtype == np.uint8 else part for part in (train, test))
    if is_standardised:
        by_training_part(train, test)
    return train, test


def _part(folder: Path, stem: str) -> _Part | None:
    """One part, checked; None if the folder has no file of it."""
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
    return _Part(checked, labels, client, places[name], places["labels"])


def _inputs(array: NDArray[Any], place: str, *, is_image: bool) -> _Array:
    """Inputs: float32 images and vectors, images of bytes, int64 tokens."""
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
        # A float64 too large for a float32 becomes infinite, and is told so.
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


def _with_channel(inputs: _Array) -> _Array:
    """Gray images [n, H, W] get their one channel."""
    return inputs[:, None] if inputs.ndim == 3 else inputs


def _labels(array: NDArray[Any], place: str, inputs: _Array) -> IntArray:
    """Labels [n], or [n, t] where the inputs are tokens [n, t]."""
    is_sequence = array.ndim == 2 and inputs.dtype == np.int64 and array.shape == inputs.shape
    if array.dtype.kind not in "iu" or not (array.ndim == 1 or is_sequence) or 0 in array.shape:
        allowed = "whole numbers [n]"
        if inputs.dtype == np.int64:
            allowed += f", or one per token {list(inputs.shape)}"
        raise DataError(
            f"{place} holds {array.dtype} of shape {array.shape}; labels are {allowed};"
            f" {_as_labels(array)}"
        )
    _check_length(array, place, len(inputs))
    for label in (array.min(), array.max()):
        if not 0 <= label < _MAX_CLASSES:
            raise DataError(
                f"{place}: it holds the label {label}; they are numbered from 0 and end below "
                f"{_MAX_CLASSES}"
            )
    return array.astype(np.int64)


def _as_labels(array: NDArray[Any]) -> str:
    """How to make labels [n] of what is none; nothing is guessed."""
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


def _num_classes(settings: FolderSettings, train: _Part, test: _Part) -> int:
    """As given, or as the labels have it."""
    if settings.num_classes is None:
        return 1 + max(int(train.labels.max()), int(test.labels.max()))
    for part in (train, test):
        outside = np.argwhere(part.labels >= settings.num_classes)
        if outside.size:
            row = int(outside[0, 0])
            raise DataError(
                f"{part.labels_at}: label {int(part.labels[tuple(outside[0])])} of sample {row} is "
                f"outside 0..{settings.num_classes - 1}; raise task.dataset.num_classes or leave it"
                " out"
            )
    return settings.num_classes


def _drawn(settings: FolderSettings, folder: Path, whole: _Part) -> tuple[_Part, _Part]:
    """A test part of every client's samples, rounded down, so that nobody loses all of them.

    Without clients, all samples are dealt with as those of one. The draw has an address of its own,
    without the scenario's seed: whatever is compared on a folder is tested on the same samples.
    """
    fraction = settings.test_fraction
    if fraction is None:
        raise DataError(
            f"{folder} has no test part; add test.npz (or test-*-idx* files), or set "
            "task.dataset.test_fraction to draw one"
        )
    client = np.zeros(len(whole.labels), np.int64) if whole.client is None else whole.client
    number_of = np.unique(client, return_inverse=True)[1]
    by_client = np.argsort(number_of, kind="stable")
    ends = np.cumsum(np.bincount(number_of))
    is_test = np.zeros(len(whole.labels), dtype=np.bool_)
    for number, members in enumerate(np.split(by_client, ends[:-1])):
        shuffled = stream(_SPLIT_SEED, "data/own-test", number).permutation(members)
        is_test[shuffled[: floor_product(fraction, len(members))]] = True
    if not is_test.any():
        raise ScenarioError(
            f"task.dataset.test_fraction: {fraction:g} of every client's samples in {folder} is "
            "less than one; raise it"
        )
    return _rows(whole, ~is_test), _rows(whole, is_test)


def _rows(part: _Part, kept: NDArray[np.bool_]) -> _Part:
    client = None if part.client is None else part.client[kept]
    return _Part(part.inputs[kept], part.labels[kept], client, part.inputs_at, part.labels_at)
