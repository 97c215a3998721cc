"""CelebA: faces of people by person, and whether they smile.

`identity_CelebA.txt` has a picture and the number of its person on each line.
`list_attr_celeba.txt` has the number of pictures on its first line, the names of 40 attributes on
the second, and then a picture and 40 times 1 or -1 on each. The pictures are JPEG files of
178 x 218 pixels in a zip archive. Task and rules are LEAF's, see docs/data.md.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le
from pydantic import Field

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset, LabelledImages, image_dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.picture_files import FolderPictures, PictureFiles, ZipPictures
from fleetsim.learning.data.published.fetch import find_files, named_folder, unpacked_home
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.standardisation import moments_in
from fleetsim.schema.ranges import Samples

_ARCHIVE, _TOP = "img_align_celeba.zip", "img_align_celeba"
_IDENTITIES, _ATTRIBUTES = "identity_CelebA.txt", "list_attr_celeba.txt"
_SIZE = (178, 218)
_NUM_PEOPLE = 10_177
_TEST_DIVISOR = 10
_FILE = re.compile(r"[0-9]{6}\.jpg")
_VALUES = {"1": 1, "-1": 0}


class CelebASettings(DatasetKind):
    """CelebA: faces by person, smiling or not (Liu et al. 2015; LEAF's task)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["celeba"],)
    how_to_get: ClassVar[str] = "by hand, see docs/data.md"
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
        home = unpacked_home(known, folder, archive=_ARCHIVE, top="", holds=_TOP)
        extras = [_ARCHIVE] if home is None else []
        sources = find_files(known, home or folder, extras=extras)
        files: PictureFiles = (
            ZipPictures(sources[_ARCHIVE], top="") if home is None else FolderPictures(home)
        )
        pictures_of = by_person(_text(sources[_IDENTITIES]), str(sources[_IDENTITIES]))
        kept = sorted(who for who, names in pictures_of.items() if len(names) >= self.min_images)
        kept = kept[: self.people]
        if not kept or (self.people is not None and len(kept) < self.people):
            raise ScenarioError(
                f"task.dataset.people: {len(kept)} people have {self.min_images} pictures; lower it"
                " or min_images"
            )
        label_of = labels_by_picture(
            _text(sources[_ATTRIBUTES]), self.attribute, str(sources[_ATTRIBUTES])
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
        parts = [_labelled(files, part, label_of, self.side) for part in (train, test)]
        moments = moments_in(parts[0].images)
        return image_dataset(
            self.kind, *parts, moments=moments, num_classes=2, owner=np.array(owner, np.int64)
        )


def _text(path: Path) -> str:
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
        if len(words) != 2 or not _FILE.fullmatch(words[0]) or not words[1].isdecimal():
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


def _labelled(
    files: PictureFiles, names: list[str], label_of: Mapping[str, int], side: int
) -> LabelledImages:
    missing = [name for name in names if name not in label_of]
    if missing:
        raise DataError(f"{_ATTRIBUTES}: lacks {missing[0]}; get it anew")
    images = files.images([f"{_TOP}/{name}" for name in names], _SIZE, side)
    return LabelledImages(images, np.array([label_of[name] for name in names], np.int64))
