"""EMNIST, from the published archive or from its unpacked files.

The archive `gzip.zip` contains, for each split of the set, four gzipped IDX files in MNIST's
layout. It is read in place: no file is written, and only the four members of the split are read.
The images are stored column by column, so they are transposed. The set is described in
docs/data.md.

Sizes: 112,800 + 18,800 images (balanced) as tensorflow/datasets@0560e68 has them
(`image_classification/mnist.py`); 124,800 + 20,800 (letters) as the card of
huggingface.co/datasets/tanganke/emnist_letters counts them in the files. They add up to the 131,600
and 145,600 that copies of the set's README state; for letters the former gives 88,800 + 14,800,
which do not. The archive's checksum was taken at NIST's former address; the address here is
torchvision's (`datasets/mnist.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset, LabelledImages, image_dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.archives import read_zip
from fleetsim.learning.data.formats.idx import labelled_images, parse_idx
from fleetsim.learning.data.published.fetch import find_files, named_folder
from fleetsim.learning.data.remote_set import SETS, RemoteSet
from fleetsim.learning.data.standardisation import moments_in

Split = Literal["balanced", "letters"]
Part = Literal["train", "test"]

_ARCHIVE = "gzip.zip"
_ARCHIVE_FOLDER = "gzip/"
_MAX_MEMBER_BYTE = 200_000_000
_SIDE = 28


class _Form(NamedTuple):
    num_classes: int
    first_label: int
    """Label of class 0 in the files."""
    num_train: int
    num_test: int


_FORMS: Mapping[Split, _Form] = {
    "balanced": _Form(num_classes=47, first_label=0, num_train=112_800, num_test=18_800),
    "letters": _Form(num_classes=26, first_label=1, num_train=124_800, num_test=20_800),
}


class EmnistSettings(DatasetKind):
    """EMNIST: handwritten letters, also with digits, of 28 x 28 pixels (Cohen et al. 2017)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (SETS["emnist"],)
    natural_clients: ClassVar[int | None] = 0

    kind: Literal["emnist"] = "emnist"
    split: Split = "balanced"
    """balanced: 47 digits and letters, 112,800 + 18,800 images; letters: 26 letters, capital or
    small, 124,800 + 20,800 images."""
    folder: str | None = None
    """Folder with the published archive, or with the four IDX files of the split, gzipped or not;
    by default `$FLEETSIM_DATA` and then the cache that `fleetsim data fetch emnist` fills."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return a split of the set, standardised by its training part.

        A folder without the archive is read as unpacked files. No checksum of them is published,
        so their number of images is checked.
        """
        form, folder = _FORMS[self.split], named_folder(self.folder)
        if folder is None or not paths.is_folder(folder) or paths.is_file(folder / _ARCHIVE):
            archive = find_files(self.published[0], folder)[_ARCHIVE]
            train = read_packed(archive, self.split, "train")
            test = read_packed(archive, self.split, "test")
        else:
            train = read_unpacked(folder, self.split, "train", num_images=form.num_train)
            test = read_unpacked(folder, self.split, "test", num_images=form.num_test)
        moments = moments_in(train.images)
        num_classes = form.num_classes
        return image_dataset(self.kind, train, test, moments=moments, num_classes=num_classes)

    def num_training(self, user_folder: Path | None = None) -> int:
        """Return the number of images that the split has."""
        return _FORMS[self.split].num_train

    def num_labels(self) -> int:
        """Return the number of characters that the split has."""
        return _FORMS[self.split].num_classes


def file_names(split: Split, part: Part) -> tuple[str, str]:
    """Return the published names of the images and of the labels."""
    stem = f"emnist-{split}-{part}"
    return f"{stem}-images-idx3-ubyte.gz", f"{stem}-labels-idx1-ubyte.gz"


def read_packed(archive: Path, split: Split, part: Part) -> LabelledImages:
    """Return the upright characters in the published archive."""
    members = [_ARCHIVE_FOLDER + name for name in file_names(split, part)]
    contents = read_zip(archive, members, max_byte=_MAX_MEMBER_BYTE)
    return _characters([(contents[name], f"{archive}, {name}") for name in members], split)


def read_unpacked(folder: Path, split: Split, part: Part, *, num_images: int) -> LabelledImages:
    """Return the upright characters in two IDX files, in a folder or in `gzip/` below it."""
    contents = []
    for name in file_names(split, part):
        candidates = [
            home / form
            for home in (folder, folder / _ARCHIVE_FOLDER)
            for form in (name, name.removesuffix(".gz"))
        ]
        path = next((place for place in candidates if paths.is_file(place)), None)
        if path is None:
            raise DataError(
                f"{folder} has neither {_ARCHIVE} nor {name}; put the published files there, or "
                "leave `folder` out"
            )
        contents.append((paths.read(path), str(path)))
    result = _characters(contents, split)
    if len(result.labels) != num_images:
        raise DataError(
            f"{contents[0][1]}: {len(result.labels)} images, EMNIST has {num_images}; get it anew"
        )
    return result


def _characters(contents: list[tuple[bytes, str]], split: Split) -> LabelledImages:
    """Return the characters in the bytes of two files, images then labels, each with its name."""
    (packed_images, images_path), (packed_labels, labels_path) = contents
    form = _FORMS[split]
    characters = labelled_images(
        parse_idx(packed_images, images_path),
        parse_idx(packed_labels, labels_path),
        images_path=images_path,
        labels_path=labels_path,
        num_classes=form.num_classes,
        first_label=form.first_label,
    )
    rows, columns = characters.images.shape[2:]
    if (rows, columns) != (_SIDE, _SIDE):
        raise DataError(
            f"{images_path}: images of {rows} x {columns} pixels, EMNIST's are {_SIDE} x {_SIDE}"
        )
    return replace(characters, images=np.ascontiguousarray(characters.images.transpose(0, 1, 3, 2)))
