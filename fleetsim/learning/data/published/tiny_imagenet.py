"""Tiny ImageNet: 200 classes of ImageNet in pictures of 64 x 64 pixels.

The archive is a zip of JPEG files: `train/WNID/images/`, 500 of each class, and `val/images/`,
whose classes are in `val/val_annotations.txt`: file name, WordNet id and four sides of a box a
line, separated by tabs. `wnids.txt` lists the ids. The classes of the part `test` are not
published, so `val` is the test part here, as in most papers. The set is described in docs/data.md.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset, LabelledImages, image_dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.archives import read_zip
from fleetsim.learning.data.formats.picture_files import FolderPictures, PictureFiles, ZipPictures
from fleetsim.learning.data.published.fetch import find_files, named_folder, unpacked_home
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.standardisation import Pixels, moments_of

_ARCHIVE, _TOP = "tiny-imagenet-200.zip", "tiny-imagenet-200"
_SIZE = (64, 64)
_NUM_CLASSES, _TRAIN_PER_CLASS, _TEST_PER_CLASS = 200, 500, 50
_NUM_TRAINING, _NUM_TEST = _NUM_CLASSES * _TRAIN_PER_CLASS, _NUM_CLASSES * _TEST_PER_CLASS
_MOMENTS = (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)
"""Mean and deviation of the training pixels in 0..1: red, green, blue."""
_MAX_TEXT_BYTE = 4_000_000
_WNID = re.compile(r"n[0-9]{8}")
_FILE = re.compile(r"[A-Za-z0-9_]{1,40}\.JPEG")


class TinyImageNetSettings(DatasetKind):
    """Tiny ImageNet: 100,000 + 10,000 pictures of 200 classes, 64 x 64 (Le, Yang 2015)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["tiny-imagenet"],)
    natural_clients: ClassVar[int | None] = 0
    labels: ClassVar[int | None] = _NUM_CLASSES

    kind: Literal["tiny-imagenet"] = "tiny-imagenet"
    folder: str | None = None
    """Folder with the published archive, or with its folders `train` and `val` and its file
    `wnids.txt`; by default `$FLEETSIM_DATA` and then the cache that `fleetsim data fetch
    tiny-imagenet` fills."""
    train_samples: Annotated[int, Field(ge=200, le=_NUM_TRAINING, multiple_of=200)] | None = None
    """Number of training pictures: the first of each class, equally many; by default all."""
    test_samples: Annotated[int, Field(ge=200, le=_NUM_TEST, multiple_of=200)] | None = None
    """Number of test pictures: the first of each class, equally many; by default all."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by each colour's mean and deviation, symmetric (-1 to
    1), unit (0 to 1) or raw (0 to 255)."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the pictures, from the archive or from its folders."""
        folder = named_folder(self.folder)
        known = self.published[0]
        home = unpacked_home(known, folder, archive=_ARCHIVE, top=_TOP, holds="train")
        files: PictureFiles = (
            ZipPictures(find_files(known, folder)[_ARCHIVE], top=_TOP)
            if home is None
            else FolderPictures(home)
        )
        classes = _classes(_text(files, "wnids.txt"), f"{files.place}, wnids.txt")
        train_names = [files.in_folder(f"train/{label}/images") for label in classes]
        place = f"{files.place}, val/val_annotations.txt"
        test_names = annotated(_text(files, "val/val_annotations.txt"), classes, place)
        if home is not None:  # no checksum verifies unpacked files
            _check_numbers(files, classes, train_names, test_names)
        train = _labelled(files, train_names, self.train_samples)
        test = _labelled(files, test_names, self.test_samples)
        moments = moments_of(self.pixels, _MOMENTS)
        return image_dataset(self.kind, train, test, moments=moments, num_classes=len(classes))

    def num_training(self, user_folder: Path | None = None) -> int:
        """Return `train_samples`, or 100,000."""
        return _NUM_TRAINING if self.train_samples is None else self.train_samples


def _text(files: PictureFiles, name: str) -> str:
    if isinstance(files, ZipPictures):
        member = f"{_TOP}/{name}"
        content = read_zip(files.place, [member], max_byte=_MAX_TEXT_BYTE)[member]
    else:
        content = paths.read(files.place / name)
    return content[:_MAX_TEXT_BYTE].decode("ascii", "replace")


def _classes(text: str, place: str) -> list[str]:
    """Return the WordNet ids in ascending order; their places are the labels."""
    classes = sorted(text.split())
    wrong = [name for name in classes if not _WNID.fullmatch(name)]
    if wrong or not classes or len(set(classes)) != len(classes):
        raise DataError(
            f"{place}: {(wrong or classes or ['nothing'])[0][:40]!a} is no WordNet id, or there"
            " twice; get it anew"
        )
    return classes


def annotated(text: str, classes: Sequence[str], place: str) -> list[list[str]]:
    r"""Return the paths of the pictures of each class, in the order of the lines.

    >>> annotated("a_1.JPEG\tn2\t0\t0\t9\t9\na_0.JPEG\tn1\t0\t0\t9\t9\n", ["n1", "n2"], "x.txt")
    [['val/images/a_0.JPEG'], ['val/images/a_1.JPEG']]
    """
    names_of: list[list[str]] = [[] for _ in classes]
    label_of = {name: label for label, name in enumerate(classes)}
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        file, _, rest = line.partition("\t")
        label = label_of.get(rest.partition("\t")[0])
        if label is None or not _FILE.fullmatch(file) or file in seen:
            raise DataError(
                f"{place}, line {number}: {line[:60]!a} is no picture and its class, or there"
                " twice; get it anew"
            )
        seen.add(file)
        names_of[label].append(f"val/images/{file}")
    return names_of


def _check_numbers(
    files: PictureFiles,
    classes: Sequence[str],
    train_names: Sequence[Sequence[str]],
    test_names: Sequence[Sequence[str]],
) -> None:
    """Check that unpacked files are as many as the published ones."""
    if len(classes) != _NUM_CLASSES:
        raise DataError(f"{files.place}: {len(classes)} classes, Tiny ImageNet has {_NUM_CLASSES}")
    for names_of, expected, part in (
        (train_names, _TRAIN_PER_CLASS, "train"),
        (test_names, _TEST_PER_CLASS, "val"),
    ):
        for label, names in zip(classes, names_of, strict=True):
            if len(names) != expected:
                raise DataError(
                    f"{files.place}: {len(names)} pictures of {label} in {part}, Tiny ImageNet has"
                    f" {expected}; get it anew"
                )


def _labelled(
    files: PictureFiles, names_of: Sequence[Sequence[str]], num_samples: int | None
) -> LabelledImages:
    if num_samples is None:
        return files.labelled(names_of, _SIZE)
    num_kept, least = num_samples // _NUM_CLASSES, min(map(len, names_of))
    if num_kept > least:
        raise ScenarioError(
            f"task.dataset: {num_samples} pictures need {num_kept} of each class, {files.place} has"
            f" {least} of one; lower train_samples or test_samples"
        )
    return files.labelled([names[:num_kept] for names in names_of], _SIZE)
