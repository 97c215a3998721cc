"""CelebA and Tiny ImageNet: JPEG pictures in zip archives, and text files that say what they show.

CelebA has faces of people by person, and whether they smile. `identity_CelebA.txt` has a picture
and the number of its person on each line. `list_attr_celeba.txt` has the number of pictures on its
first line, the names of 40 attributes on the second, and then a picture and 40 times 1 or -1 on
each. The pictures are JPEG files of 178 x 218 pixels in a zip archive. Task and rules are LEAF's,
see docs/data.md.

Tiny ImageNet has 200 classes of ImageNet in pictures of 64 x 64 pixels. The archive is a zip of
JPEG files: `train/WNID/images/`, 500 of each class, and `val/images/`, whose classes are in
`val/val_annotations.txt`: file name, WordNet id and four sides of a box a line, separated by tabs.
`wnids.txt` lists the ids. The classes of the part `test` are not published, so `val` is the test
part here, as in most papers. The set is described in docs/data.md.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le
from pydantic import Field

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import (
    Dataset,
    LabelledImages,
    Pixels,
    image_dataset,
    moments_in,
    moments_of,
)
from fleetsim.learning.data.dataset_kind import SETS, DatasetKind, RemoteSet
from fleetsim.learning.data.formats.archives import read_zip
from fleetsim.learning.data.formats.picture_files import FolderPictures, PictureFiles, ZipPictures
from fleetsim.learning.data.published.fetch import find_files, named_folder, unpacked_home
from fleetsim.schema.ranges import Samples

_FACES_ARCHIVE, _FACES_TOP = "img_align_celeba.zip", "img_align_celeba"
_IDENTITIES, _ATTRIBUTES = "identity_CelebA.txt", "list_attr_celeba.txt"
_FACES_SIZE = (178, 218)
_NUM_PEOPLE = 10_177
_TEST_DIVISOR = 10
_FACES_FILE = re.compile(r"[0-9]{6}\.jpg")
_VALUES = {"1": 1, "-1": 0}


class CelebASettings(DatasetKind):
    """CelebA: faces by person, smiling or not (Liu et al. 2015; LEAF's task)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["celeba"],)
    how_to_get: ClassVar[str] = "by hand, see `fleetsim docs data`"
    labels: ClassVar[int | None] = 2

    kind: Literal["celeba"] = "celeba"
    folder: str | None = None
    """Folder with `img_align_celeba.zip`, or a folder `img_align_celeba`, and with
    `identity_CelebA.txt` and `list_attr_celeba.txt`; by default `$FLEETSIM_DATA` and then the
    cache."""
    attribute: Annotated[str, Field(max_length=40)] = "Smiling"
    """Attribute that is the label: 1 if the picture has it, else 0."""
    min_images: Annotated[Samples, Ge(2)] = 5
    """People with fewer pictures are left out."""
    people: Annotated[int, Ge(1), Le(_NUM_PEOPLE)] | None = None
    """Number of people: those with the lowest numbers in the files; by default all."""
    side: Annotated[int, Ge(8), Le(178)] = 84
    """Width and height that pictures are resized to."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the faces; the last tenth of each person's pictures is the test part."""
        folder = named_folder(self.folder)
        known = self.published[0]
        home = unpacked_home(known, folder, archive=_FACES_ARCHIVE, top="", holds=_FACES_TOP)
        extras = [_FACES_ARCHIVE] if home is None else []
        sources = find_files(known, home or folder, extras=extras)
        files: PictureFiles = (
            ZipPictures(sources[_FACES_ARCHIVE], top="") if home is None else FolderPictures(home)
        )
        pictures_of = by_person(_face_text(sources[_IDENTITIES]), str(sources[_IDENTITIES]))
        kept = sorted(who for who, names in pictures_of.items() if len(names) >= self.min_images)
        kept = kept[: self.people]
        if not kept or (self.people is not None and len(kept) < self.people):
            raise ScenarioError(
                f"task.dataset.people: {len(kept)} people have {self.min_images} pictures; lower it"
                " or min_images"
            )
        label_of = labels_by_picture(
            _face_text(sources[_ATTRIBUTES]), self.attribute, str(sources[_ATTRIBUTES])
        )
        train: list[str] = []
        test: list[str] = []
        owner: list[int] = []
        for number, who in enumerate(kept):
            names = pictures_of[who]
            num_train = len(names) - math.ceil(len(names) / _TEST_DIVISOR)
            train += names[:num_train]
            test += names[num_train:]
            owner += [number] * num_train
        parts = [_faces(files, part, label_of, self.side) for part in (train, test)]
        moments = moments_in(parts[0].images)
        return image_dataset(
            self.kind, *parts, moments=moments, num_classes=2, owner=np.array(owner, np.int64)
        )


def _face_text(path: Path) -> str:
    return paths.read(path).decode("ascii", "replace")


def by_person(text: str, place: str) -> dict[int, list[str]]:
    r"""Return the pictures of each person, in the order of their names.

    >>> by_person("000002.jpg 7\n000001.jpg 7\n000003.jpg 5\n", "x.txt")
    {7: ['000001.jpg', '000002.jpg'], 5: ['000003.jpg']}
    """
    pictures_of: dict[int, list[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or not _FACES_FILE.fullmatch(words[0]) or not words[1].isdecimal():
            raise DataError(
                f"{place}, line {number}: {line[:60]!a} is no picture and its person; get it anew"
            )
        pictures_of.setdefault(int(words[1]), []).append(words[0])
    return {who: sorted(names) for who, names in pictures_of.items()}


def labels_by_picture(text: str, attribute: str, place: str) -> dict[str, int]:
    """Return whether each picture has an attribute: 1 or 0."""
    lines = text.splitlines()
    names = lines[1].split() if len(lines) > 1 else []
    if not names:
        raise DataError(f"{place}: no names of attributes on its second line; get it anew")
    if attribute not in names:
        raise ScenarioError(
            f"task.dataset.attribute: {attribute!a} is none of CelebA's: {', '.join(names)}"
        )
    column = names.index(attribute)
    label_of: dict[str, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        words = line.split()
        if len(words) != len(names) + 1 or words[column + 1] not in _VALUES:
            raise DataError(
                f"{place}, line {number}: {line[:60]!a} is no picture with {len(names)} times 1 or"
                " -1; get it anew"
            )
        label_of[words[0]] = _VALUES[words[column + 1]]
    return label_of


def _faces(
    files: PictureFiles, names: list[str], label_of: Mapping[str, int], side: int
) -> LabelledImages:
    missing = [name for name in names if name not in label_of]
    if missing:
        raise DataError(f"{_ATTRIBUTES}: lacks {missing[0]}; get it anew")
    images = files.images([f"{_FACES_TOP}/{name}" for name in names], _FACES_SIZE, side)
    return LabelledImages(images, np.array([label_of[name] for name in names], np.int64))


_ARCHIVE, _TOP = "tiny-imagenet-200.zip", "tiny-imagenet-200"
_TITLE = "Tiny ImageNet"
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
        train_names = {label: files.in_folder(f"train/{label}/images") for label in classes}
        place = f"{files.place}, val/val_annotations.txt"
        test_names = annotated(_text(files, "val/val_annotations.txt"), classes, place)
        if home is not None:  # no checksum verifies unpacked files
            if len(classes) != _NUM_CLASSES:
                raise DataError(f"{home}: {len(classes)} classes, {_TITLE} has {_NUM_CLASSES}")
            files.check_numbers(train_names, _TRAIN_PER_CLASS, part="train", title=_TITLE)
            files.check_numbers(test_names, _TEST_PER_CLASS, part="val", title=_TITLE)
        train, test = (
            files.labelled(names_of, _SIZE, None if num is None else num // _NUM_CLASSES)
            for names_of, num in (
                (train_names, self.train_samples),
                (test_names, self.test_samples),
            )
        )
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


def annotated(text: str, classes: Sequence[str], place: str) -> dict[str, list[str]]:
    r"""Return the paths of the pictures of each class, in the order of the lines.

    >>> annotated("a_1.JPEG\tn2\t0\t0\t9\t9\na_0.JPEG\tn1\t0\t0\t9\t9\n", ["n1", "n2"], "x.txt")
    {'n1': ['val/images/a_0.JPEG'], 'n2': ['val/images/a_1.JPEG']}
    """
    names_of: dict[str, list[str]] = {label: [] for label in classes}
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        file, _, rest = line.partition("\t")
        label = rest.partition("\t")[0]
        if label not in names_of or not _FILE.fullmatch(file) or file in seen:
            raise DataError(
                f"{place}, line {number}: {line[:60]!a} is no picture and its class, or there"
                " twice; get it anew"
            )
        seen.add(file)
        names_of[label].append(f"val/images/{file}")
    return names_of
