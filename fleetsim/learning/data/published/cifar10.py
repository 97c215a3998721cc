"""CIFAR-10 and CINIC-10: ten classes of small colour pictures.

CIFAR-10's published binary form is a gzipped tar of six files of 10,000 records; a record is one
byte of label and 3,072 bytes of pixels: the red, then the green, then the blue channel, each row by
row (www.cs.toronto.edu/~kriz/cifar.html). It may also be a folder of pictures. Sources of moments
and checksums: docs/data.md. (Deviations of about 0.20, which are also in use, are means over those
of single images.)

CINIC-10 has pictures of CIFAR-10 and of ImageNet. Its archive is a gzipped tar of PNG files in
`train/CLASS/`, `valid/CLASS/` and `test/CLASS/`, 9,000 in each. It is read in place. Sizes, means
and deviations are those of BayesWatch/cinic-10@0fec70c (`README.md`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import (
    Dataset,
    LabelledImages,
    Pixels,
    image_dataset,
    moments_of,
)
from fleetsim.learning.data.dataset_kind import SETS, DatasetKind, RemoteSet
from fleetsim.learning.data.formats.archives import read_tar
from fleetsim.learning.data.formats.picture_files import FolderPictures, PictureFiles, TarPictures
from fleetsim.learning.data.published.fetch import find_files, named_folder, unpacked_home

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""Names of the labels 0..9, as in the archive's `batches.meta.txt`."""

_MOMENTS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Mean and deviation of the training pixels in 0..1: red, green, blue."""
_NUM_TRAINING = 50_000

_ARCHIVE = "cifar-10-binary.tar.gz"
_TOP = "cifar-10-batches-bin"
_CHANNELS, _SIDE = 3, 32
_RECORD_BYTE = 1 + _CHANNELS * _SIDE * _SIDE
_MAX_MEMBER_BYTE = 10_000 * _RECORD_BYTE
_TRAIN = tuple(f"{_TOP}/data_batch_{number}.bin" for number in range(1, 6))
_TEST = (f"{_TOP}/test_batch.bin",)
_TRAIN_PER_CLASS, _TEST_PER_CLASS = 5_000, 1_000


class Cifar10Settings(DatasetKind):
    """CIFAR-10: 50,000 + 10,000 colour pictures of 32 x 32 pixels (Krizhevsky 2009)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["cifar10"],)
    natural_clients: ClassVar[int | None] = 0
    labels: ClassVar[int | None] = len(CLASSES)

    kind: Literal["cifar10"] = "cifar10"
    folder: str | None = None
    """Folder with the published binary archive or its six files, or with pictures in
    `train/CLASS/` and `test/CLASS/` (JPEG or PNG); by default `cifar10` in `$FLEETSIM_DATA`, and
    then the cache that `fleetsim data fetch cifar10` fills."""
    train_samples: Annotated[int, Field(ge=10, le=50_000, multiple_of=10)] | None = None
    """Number of training pictures: the first of each class, equally many; by default all."""
    test_samples: Annotated[int, Field(ge=10, le=10_000, multiple_of=10)] | None = None
    """Number of test pictures: the first of each class, equally many; by default all."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by each colour's mean and deviation, symmetric (-1 to
    1), unit (0 to 1) or raw (0 to 255)."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the pictures, from the archive, its files or folders of pictures."""
        folder = named_folder(self.folder)
        num_train, num_test = (
            None if samples is None else samples // len(CLASSES)
            for samples in (self.train_samples, self.test_samples)
        )
        known = self.published[0]
        home = unpacked_home(known, folder, archive=_ARCHIVE, top=_TOP, holds="train")
        if home is not None:
            train = read_folder(home, "train", num_per_class=_TRAIN_PER_CLASS, num_kept=num_train)
            test = read_folder(home, "test", num_per_class=_TEST_PER_CLASS, num_kept=num_test)
        else:
            files = find_files(known, folder)
            if _ARCHIVE in files:
                names = (*_TRAIN, *_TEST)
                contents = read_tar(files[_ARCHIVE], names, max_byte=_MAX_MEMBER_BYTE)
            else:
                contents = {name: paths.read(path) for name, path in files.items()}
            train = _first(_joined(contents, _TRAIN), num_train)
            test = _first(_joined(contents, _TEST), num_test)
        moments = moments_of(self.pixels, _MOMENTS)
        return image_dataset(self.kind, train, test, moments=moments, num_classes=len(CLASSES))

    def num_training(self, user_folder: Path | None = None) -> int:
        """Return `train_samples`, or 50,000."""
        return _NUM_TRAINING if self.train_samples is None else self.train_samples


def _joined(contents: Mapping[str, bytes], names: Sequence[str]) -> LabelledImages:
    parts = [read_records(contents[name], name) for name in names]
    return LabelledImages(
        np.concatenate([part.images for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )


def read_records(content: bytes, name: str) -> LabelledImages:
    """Return the pictures in the bytes of one file."""
    if not content or len(content) % _RECORD_BYTE:
        raise DataError(
            f"{name}: {len(content)} bytes are no whole number of records of {_RECORD_BYTE} bytes; "
            "get the file anew"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD_BYTE)
    outside = np.flatnonzero(records[:, 0] >= len(CLASSES))
    if outside.size:
        row = int(outside[0])
        raise DataError(
            f"{name}: label {int(records[row, 0])} of record {row} is outside 0..{len(CLASSES) - 1}"
        )
    images = records[:, 1:].reshape(-1, _CHANNELS, _SIDE, _SIDE)
    return LabelledImages(images, records[:, 0].astype(np.int64))


def _first(pictures: LabelledImages, num_kept: int | None) -> LabelledImages:
    """Return the first `num_kept` pictures of each class, in their order; all if None."""
    if num_kept is None:
        return pictures
    rows = [np.flatnonzero(pictures.labels == label)[:num_kept] for label in range(len(CLASSES))]
    kept = np.sort(np.concatenate(rows))
    return LabelledImages(pictures.images[kept], pictures.labels[kept])


def by_class(files: PictureFiles, part: str) -> dict[str, list[str]]:
    """Return the paths of the pictures of each class in a part, in the order of file names."""
    return {label: files.in_folder(f"{part}/{label}") for label in CLASSES}


def read_folder(
    home: Path, part: str, *, num_per_class: int, num_kept: int | None = None
) -> LabelledImages:
    """Return the pictures in the folders of the ten classes, each in the order of file names.

    Each folder must contain `num_per_class`, of which the first `num_kept` are read; None: all.
    """
    files = FolderPictures(home, any_mode=False)
    names_of = by_class(files, part)
    files.check_numbers(names_of, num_per_class, part=part, title="CIFAR-10")
    return files.labelled(names_of, (_SIDE, _SIDE), num_kept)


_CINIC_ARCHIVE, _CINIC_TOP = "CINIC-10.tar.gz", "CINIC-10"
_PER_CLASS = 9_000
_PER_PART = _PER_CLASS * len(CLASSES)
_CINIC_MOMENTS = (0.47889522, 0.47227842, 0.43047404), (0.24205776, 0.23828046, 0.25874835)
"""Mean and deviation of the pixels in 0..1: red, green, blue."""


class Cinic10Settings(DatasetKind):
    """CINIC-10: CIFAR-10's classes in 90,000 + 90,000 pictures, 32 x 32 (Darlow et al. 2018)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["cinic10"],)
    natural_clients: ClassVar[int | None] = 0
    labels: ClassVar[int | None] = len(CLASSES)

    kind: Literal["cinic10"] = "cinic10"
    folder: str | None = None
    """Folder with the published archive, or with its folders `train`, `valid` and `test`; by
    default `$FLEETSIM_DATA` and then the cache that `fleetsim data fetch cinic10` fills."""
    train_part: Literal["train", "train-and-valid"] = "train"
    """Pictures to train on: the training part, or also the validation part, twice as many."""
    train_samples: Annotated[int, Field(ge=10, le=2 * _PER_PART, multiple_of=10)] | None = None
    """Number of training pictures: the first of each class, equally many; by default all."""
    test_samples: Annotated[int, Field(ge=10, le=_PER_PART, multiple_of=10)] | None = None
    """Number of test pictures: the first of each class, equally many; by default all."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by each colour's mean and deviation, symmetric (-1 to
    1), unit (0 to 1) or raw (0 to 255)."""

    @model_validator(mode="after")
    def _has_enough(self) -> Self:
        if self.train_samples is not None and self.train_samples > self._all_training:
            raise ValueError(
                f"train_samples {self.train_samples} are more than the {self._all_training} of"
                " train_part: train; lower it, or set train_part to train-and-valid"
            )
        return self

    @property
    def _all_training(self) -> int:
        return _PER_PART if self.train_part == "train" else 2 * _PER_PART

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the pictures, from the archive or from its folders."""
        folder = named_folder(self.folder)
        known = self.published[0]
        home = unpacked_home(known, folder, archive=_CINIC_ARCHIVE, top=_CINIC_TOP, holds="train")
        files: PictureFiles = (
            TarPictures(find_files(known, folder)[_CINIC_ARCHIVE], top=_CINIC_TOP)
            if home is None
            else FolderPictures(home)
        )
        names_of = {part: by_class(files, part) for part in ("train", "valid", "test")}
        if home is not None:  # no checksum verifies unpacked files
            for part, names in names_of.items():
                files.check_numbers(names, _PER_CLASS, part=part, title="CINIC-10")
        if self.train_part == "train-and-valid":
            for label in CLASSES:
                names_of["train"][label] += names_of["valid"][label]
        train, test = (
            files.labelled(
                names_of[part], (_SIDE, _SIDE), None if num is None else num // len(CLASSES)
            )
            for part, num in (("train", self.train_samples), ("test", self.test_samples))
        )
        moments = moments_of(self.pixels, _CINIC_MOMENTS)
        return image_dataset(self.kind, train, test, moments=moments, num_classes=len(CLASSES))

    def num_training(self, user_folder: Path | None = None) -> int:
        """Return `train_samples`, or the number of pictures of the part."""
        return self._all_training if self.train_samples is None else self.train_samples
