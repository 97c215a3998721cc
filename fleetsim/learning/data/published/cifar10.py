"""CIFAR-10, from the published archive or from a folder of pictures.

The published binary form is a gzipped tar of six files of 10,000 records; a record is one byte of
label and 3,072 bytes of pixels: the red, then the green, then the blue channel, each row by row
(www.cs.toronto.edu/~kriz/cifar.html). Sources of moments and checksums: docs/data.md. (Deviations
of about 0.20, which are also in use, are means over those of single images.)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset, LabelledImages, image_dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.archives import read_tar
from fleetsim.learning.data.formats.picture_files import SUFFIXES, pixels_of
from fleetsim.learning.data.published.fetch import find_files, named_folder, unpacked_home
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.standardisation import Pixels, moments_of

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
            train = read_folder(home / "train", num_per_class=_TRAIN_PER_CLASS, num_kept=num_train)
            test = read_folder(home / "test", num_per_class=_TEST_PER_CLASS, num_kept=num_test)
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


def read_folder(folder: Path, *, num_per_class: int, num_kept: int | None = None) -> LabelledImages:
    """Return the pictures in the folders of the ten classes, each in the order of file names.

    Each folder must contain `num_per_class`, of which the first `num_kept` are read; None: all.
    """
    pictures: list[Path] = []
    for name in CLASSES:
        home = folder / name
        if not paths.is_folder(home):
            raise DataError(f"{home} is no folder; a folder of CIFAR-10 pictures has one per class")
        files = [path for path in paths.matches(home, "*") if path.suffix.lower() in SUFFIXES]
        if len(files) != num_per_class:
            raise DataError(
                f"{home}: {len(files)} pictures (JPEG or PNG), CIFAR-10 has {num_per_class}"
            )
        pictures += files[:num_kept]
    images = np.stack([_picture(path) for path in pictures]).transpose(0, 3, 1, 2)
    labels = np.repeat(np.arange(len(CLASSES), dtype=np.int64), len(pictures) // len(CLASSES))
    return LabelledImages(np.ascontiguousarray(images), labels)


def _picture(path: Path) -> NDArray[np.uint8]:
    """Return one picture [32, 32, 3]."""
    with paths.opened(path) as file:
        return pixels_of(file, str(path), size=(_SIDE, _SIDE))
