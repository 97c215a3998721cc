"""The user's own data set: a folder of .npz or IDX files.

docs/data.md says which; `own_folder_files` checks the contents of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fleetsim.counts import floor_product
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data import own_folder_sizes
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.dataset import Dataset, Inputs
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.own_folder_files import (
    MAX_CLASSES,
    TEST_STEMS,
    TRAIN_STEM,
    Array,
    FilePart,
    part_files,
    read_part,
)
from fleetsim.learning.data.published.remote_set import RemoteSet
from fleetsim.learning.data.standardisation import from_pixels, moments_in, scaled, standardise
from fleetsim.rng import stream
from fleetsim.schema.ranges import PartFraction

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
    """Scale every channel of images, or every feature of vectors, to mean 0 and standard deviation
    1 over the training part."""
    num_classes: Annotated[int, Field(ge=2, le=MAX_CLASSES)] | None = None
    """Number of labels; by default the largest label of both parts plus one."""

    def load(self, *, seed: int, num_clients: int, registry: Mapping[str, RemoteSet]) -> Dataset:
        """Return the data set in the folder."""
        folder = paths.expanded(self.folder, ScenarioError, key="task.dataset.folder")
        train, test = _parts(self, folder)
        holds_tokens = train.inputs.dtype == np.int64
        num_classes = _num_classes(self, train, test)
        vocabulary_size = None
        if holds_tokens:
            vocabulary_size = 1 + int(max(train.inputs.max(), test.inputs.max()))
            if train.labels.ndim > 1:
                # A language model's labels are tokens, and its tokens may be labels.
                num_classes = vocabulary_size = max(num_classes, vocabulary_size)
        if self.standardise and holds_tokens:
            raise ScenarioError(
                f"task.dataset.standardise: {train.inputs_at} holds tokens, which have no mean; "
                "leave the key out"
            )
        train_inputs, test_inputs = _as_numbers(
            train.inputs, test.inputs, is_standardised=self.standardise
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

    def num_training(self, own_folder: Path | None = None) -> int | None:
        """Return the number that the headers of the files announce."""
        if own_folder is None:
            return None
        return own_folder_sizes.num_training(own_folder, self.test_fraction)

    def num_natural(self, own_folder: Path | None = None) -> int | None:
        """Return the number of clients that the files name."""
        return None if own_folder is None else own_folder_sizes.num_natural(own_folder)

    def without_clients(self, own_folder: Path | None = None) -> str:
        """Return the error message for the partition `natural` of files without clients."""
        return (
            f"{own_folder} names no clients of its own; add an array 'client' to its training part,"
            " or choose iid, dirichlet or shards"
        )


def _parts(settings: FolderSettings, folder: Path) -> tuple[FilePart, FilePart]:
    """Return the training part and the test part in a folder, which belong together."""
    train = read_part(folder, TRAIN_STEM)
    if train is None:
        where = f"{folder} has no" if paths.is_folder(folder) else f"{folder} is no folder with"
        raise DataError(
            f"{where} train.npz, and no IDX files called train-images-idx* and train-labels-idx*; "
            "put one or the other there"
        )
    stems = [stem for stem in TEST_STEMS if part_files(folder, stem)]
    if len(stems) > 1:
        raise DataError(f"{folder} has two test parts, {stems[0]} and {stems[1]}; remove one")
    test = read_part(folder, stems[0]) if stems else None
    if test is None:
        train, test = _draw_test_part(settings, folder, train)
    elif settings.test_fraction is not None:
        raise ScenarioError(
            f"task.dataset.test_fraction: {folder} has a test part of its own; leave the key out"
        )
    are_tokens = [part.inputs.dtype == np.int64 for part in (train, test)]
    if train.inputs.shape[1:] != test.inputs.shape[1:] or are_tokens[0] != are_tokens[1]:
        raise DataError(
            f"{test.inputs_at}: samples of shape {test.inputs.shape[1:]} and {test.inputs.dtype}, "
            f"those of {train.inputs_at} are of {train.inputs.shape[1:]} and {train.inputs.dtype}"
        )
    if train.labels.shape[1:] != test.labels.shape[1:]:
        raise DataError(
            f"{test.labels_at}: labels of shape {test.labels.shape}, those of {train.labels_at} are"
            f" {train.labels.shape}; save both parts alike"
        )
    return train, test


def _as_numbers(
    train: Array, test: Array, *, is_standardised: bool
) -> tuple[Inputs | ByteImages, Inputs]:
    """Return both parts as models take them; where both are bytes, training images stay bytes."""
    if train.dtype == test.dtype == np.uint8:
        mean, std = (0.0,) * train.shape[1], (1.0,) * train.shape[1]
        if is_standardised:
            mean, std = moments_in(train)
        return ByteImages(train, mean, std), from_pixels(test, mean=mean, std=std)
    train, test = (scaled(part) if part.dtype == np.uint8 else part for part in (train, test))
    if is_standardised:
        standardise(train, test)
    return train, test


def _num_classes(settings: FolderSettings, train: FilePart, test: FilePart) -> int:
    """Return the number in the settings, or the largest label plus one."""
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


def _draw_test_part(
    settings: FolderSettings, folder: Path, whole: FilePart
) -> tuple[FilePart, FilePart]:
    """Return a training and a test part of every client's samples.

    The test part is rounded down, so that no client loses all samples. Without clients, all samples
    count as those of one. The draw has an address without the scenario's seed, so that all runs on
    a folder test on the same samples.
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


def _rows(part: FilePart, kept: NDArray[np.bool_]) -> FilePart:
    client = None if part.client is None else part.client[kept]
    return FilePart(part.inputs[kept], part.labels[kept], client, part.inputs_at, part.labels_at)
