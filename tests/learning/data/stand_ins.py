"""Small files in the form of published ones, and registries that know them as published."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import RemoteFile, RemoteSet
from fleetsim.learning.data.loading import DatasetSettings, load_dataset


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def stand_in(
    name: str,
    contents: Mapping[str, bytes],
    *,
    extras: Collection[str] = (),
    members: Mapping[str, bytes] | None = None,
) -> dict[str, RemoteSet]:
    """Return the registry of one set whose files, or members of an archive, are these."""
    inside = tuple((path, sha256(content)) for path, content in (members or {}).items())
    files = tuple(
        RemoteFile(file, len(content), sha256(content), sha256(content), (), file in extras, inside)
        for file, content in contents.items()
    )
    return {name: RemoteSet(name, "", files, "", "")}


def load_stand_in(settings: DatasetSettings, registry: Mapping[str, RemoteSet]) -> Dataset:
    """Load a data set whose published files are those of a registry."""
    known = tuple(registry.get(one.name, one) for one in settings.published)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(settings), "published", known)
        return load_dataset(settings, seed=1, num_clients=2)


def placed(folder: Path, contents: Mapping[str, bytes]) -> Path:
    """Return a folder with these files by their paths in it, which are made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def picture(
    colour: tuple[int, int, int] | int, size: tuple[int, int], form: str = "PNG", mode: str = "RGB"
) -> bytes:
    """Return a picture of one colour; PNG keeps it exactly."""
    content = io.BytesIO()
    Image.new(mode, size, colour).save(content, form)
    return content.getvalue()


Published = tuple[Path, dict[str, RemoteSet]]
"""Folder of a set, and the registry that knows its files."""


def zipped(path: Path, contents: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, contents: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def damaged(path: Path, change: bytes | None) -> None:
    """Replace a file's content; None: give the file or folder another name."""
    if change is None:
        path.rename(path.with_name("aside.txt"))
    else:
        path.write_bytes(change)


def idx(array: NDArray[Any], code: int = 0x08, kind: str = "u1") -> bytes:
    """Return an IDX file of unsigned bytes, or of another kind of elements."""
    sides = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, code, array.ndim]) + sides + array.astype(kind).tobytes()
