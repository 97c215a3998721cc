"""Files of the user's own data set: names of the arrays and of the files that hold them."""

from __future__ import annotations

from pathlib import Path

from fleetsim.errors import DataError
from fleetsim.host import paths

ARRAYS = ("images", "inputs", "labels", "client")
TRAIN_STEM, TEST_STEMS = "train", ("test", "t10k")
"""Beginnings of the files' names, for either part."""


def part_files(folder: Path, stem: str) -> dict[str, Path]:
    """The file of every array of a part, by the array's name; one .npz holds them all.

    Raises:
        DataError: there are two for one array.
    """
    found: dict[str, Path] = {}
    packed = folder / f"{stem}.npz"
    if paths.is_file(packed):
        found = dict.fromkeys(ARRAYS, packed)
    for name in ARRAYS:
        for path in paths.matches(folder, f"{stem}-{name}-idx*"):
            if name in found:
                raise DataError(f"{folder} has both {found[name].name} and {path.name}; remove one")
            found[name] = path
    return found
