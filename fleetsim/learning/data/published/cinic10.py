"""CINIC-10: CIFAR-10's classes, with pictures of CIFAR-10 and of ImageNet.

The archive is a gzipped tar of PNG files in `train/CLASS/`, `valid/CLASS/` and `test/CLASS/`, 9,000
in each. It is read in place. Sizes, means and deviations are those of BayesWatch/cinic-10@0fec70c
(`README.md`). The set is described in docs/data.md.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset, LabelledImages, image_dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.picture_files import FolderPictures, PictureFiles, TarPictures
from fleetsim.learning.data.published.cifar10 import CLASSES
from fleetsim.learning.data.published.fetch import find_files, named_folder, unpacked_home
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.standardisation import Pixels, moments_of

_ARCHIVE, _TOP = "CINIC-10.tar.gz", "CINIC-10"
_SIZE = (32, 32)
_PER_CLASS = 9_000
_PER_PART = _PER_CLASS * len(CLASSES)
_MOMENTS = (0.47889522, 0.47227842, 0.43047404), (0.24205776, 0.23828046, 0.25874835)
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
        home = unpacked_home(known, folder, archive=_ARCHIVE, top=_TOP, holds="train")
        files: PictureFiles = (
            TarPictures(find_files(known, folder)[_ARCHIVE], top=_TOP)
            if home is None
            else FolderPictures(home)
        )
        # No checksum verifies unpacked files.
        per_class = None if home is None else _PER_CLASS
        parts = ("train",) if self.train_part == "train" else ("train", "valid")
        train = read_pictures(files, parts, self.train_samples, per_class=per_class)
        test = read_pictures(files, ("test",), self.test_samples, per_class=per_class)
        moments = moments_of(self.pixels, _MOMENTS)
        return image_dataset(self.kind, train, test, moments=moments, num_classes=len(CLASSES))

    def num_training(self, user_folder: Path | None = None) -> int:
        """Return `train_samples`, or the number of pictures of the part."""
        return self._all_training if self.train_samples is None else self.train_samples


def read_pictures(
    files: PictureFiles, parts: tuple[str, ...], num_samples: int | None, *, per_class: int | None
) -> LabelledImages:
    """Return the first pictures of each class, `num_samples` in all, from one part or several.

    Each class must have `per_class` pictures in each part. None: all of them, and any number.
    """
    names_of = []
    for label in CLASSES:
        names: list[str] = []
        for part in parts:
            pictures = files.in_folder(f"{part}/{label}")
            if not pictures or (per_class is not None and len(pictures) != per_class):
                raise DataError(
                    f"{files.place}: {len(pictures)} pictures (JPEG or PNG) in {part}/{label},"
                    f" CINIC-10 has {per_class or _PER_CLASS}; get it anew"
                )
            names += pictures
        num_kept = len(names) if num_samples is None else num_samples // len(CLASSES)
        if num_kept > len(names):
            raise ScenarioError(
                f"task.dataset: {num_samples} pictures need {num_kept} of each class, {files.place}"
                f" has {len(names)} of {label}; lower train_samples or test_samples"
            )
        names_of.append(names[:num_kept])
    return files.labelled(names_of, _SIZE)
