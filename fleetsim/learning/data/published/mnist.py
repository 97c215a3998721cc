"""MNIST and Fashion-MNIST: gray images in four IDX files; MNIST also with its writers.

Both sets have 60,000 training images, as their authors state; 539 writers made those of MNIST
(QMNIST). Standardisation, and the sources of checksums and moments: docs/data.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import Dataset, LabelledImages, image_dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.idx import labelled_images, read_idx
from fleetsim.learning.data.published.fetch import find_files, named_folder
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.standardisation import Moments, Pixels, moments_of
from fleetsim.schema.key_conditions import ActsIf, by_key

_NUM_CLASSES = 10
_NUM_TRAINING = 60_000
_NUM_WRITERS = 539
_WRITERS_FILE = "qmnist-train-labels-idx2-int.gz"
_CLASS_COLUMN, _WRITER_COLUMN = 0, 2


class MnistSettings(DatasetKind):
    """MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels (LeCun et al. 1998)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["mnist"],)
    training_samples: ClassVar[int | None] = _NUM_TRAINING
    labels: ClassVar[int | None] = _NUM_CLASSES
    acts_if = by_key(
        writers=ActsIf(
            lambda _, facts: facts.partition == "natural",
            "only the partition natural uses the writers",
            "set task.partition.kind: natural",
        )
    )

    kind: Literal["mnist"] = "mnist"
    folder: str | None = None
    """Folder with the four published IDX files, gzipped or not; by default `$FLEETSIM_DATA` and
    then the cache that `fleetsim data fetch mnist` fills."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by the set's mean and deviation, symmetric (-1 to 1),
    unit (0 to 1) or raw (0 to 255)."""
    writers: bool = False
    """Also read the writer of each training image (QMNIST, Yadav and Bottou 2019): 539 natural
    clients for the partition `natural`."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the images, with their writers as natural clients if `writers`."""
        return _load(self, ((0.1307,), (0.3081,)), has_writers=self.writers)

    def num_natural(self, user_folder: Path | None = None) -> int:
        """Return the number of writers."""
        return _NUM_WRITERS if self.writers else 0

    def without_clients(self, user_folder: Path | None = None) -> str:
        """Return the error message for the partition `natural` without writers."""
        return "needs task.dataset.writers: true; set that, or choose another partition"


class FashionMnistSettings(DatasetKind):
    """Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28 x 28 pixels (Xiao et al. 2017)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["fashion-mnist"],)
    training_samples: ClassVar[int | None] = _NUM_TRAINING
    natural_clients: ClassVar[int | None] = 0
    labels: ClassVar[int | None] = _NUM_CLASSES

    kind: Literal["fashion-mnist"] = "fashion-mnist"
    folder: str | None = None
    """Folder with the four published IDX files, gzipped or not; by default `$FLEETSIM_DATA` and
    then the cache that `fleetsim data fetch fashion-mnist` fills."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by the set's mean and deviation, symmetric (-1 to 1),
    unit (0 to 1) or raw (0 to 255)."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the images."""
        return _load(self, ((0.2860,), (0.3530,)))


def _load(
    settings: MnistSettings | FashionMnistSettings, published: Moments, *, has_writers: bool = False
) -> Dataset:
    """Return a set from its four IDX files; moments are those of all training pixels."""
    extras = (_WRITERS_FILE,) if has_writers else ()
    files = find_files(settings.published[0], named_folder(settings.folder), extras=extras)
    train, test = _part(files, "train"), _part(files, "t10k")
    return image_dataset(
        settings.kind,
        train,
        test,
        moments=moments_of(settings.pixels, published),
        num_classes=_NUM_CLASSES,
        owner=_writers(files[_WRITERS_FILE], train.labels) if has_writers else None,
    )


def _part(files: Mapping[str, Path], part: str) -> LabelledImages:
    images, labels = files[f"{part}-images-idx3-ubyte.gz"], files[f"{part}-labels-idx1-ubyte.gz"]
    return labelled_images(
        read_idx(images),
        read_idx(labels),
        images_path=str(images),
        labels_path=str(labels),
        num_classes=_NUM_CLASSES,
    )


def _writers(path: Path, labels: IntArray) -> IntArray:
    """Return the writer of each sample [n], numbered from 0 in the order of the NIST writer ids."""
    table = read_idx(path)
    if table.ndim != 2 or table.shape[1] <= _WRITER_COLUMN or len(table) != len(labels):
        raise DataError(
            f"{path}: expected a row of QMNIST label columns for each of {len(labels)} training "
            f"images, found shape {table.shape}"
        )
    wrong = np.flatnonzero(table[:, _CLASS_COLUMN] != labels)
    if wrong.size:
        row = int(wrong[0])
        raise DataError(
            f"{path}: row {row} is of class {int(table[row, _CLASS_COLUMN])}, but training image "
            f"{row} is of class {int(labels[row])}; the files do not belong together"
        )
    return np.unique(table[:, _WRITER_COLUMN], return_inverse=True)[1].astype(np.int64)
