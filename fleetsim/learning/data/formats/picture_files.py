"""Picture files in a folder, in a zip archive or in a gzipped tar, all read alike.

Paths of files are relative to the place, with `/`, and without the outermost folder `top` where an
archive, or a copy of it on disk, has one. Nothing is unpacked to disk.
"""

import io
import itertools
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import LabelledImages
from fleetsim.learning.data.formats import archives
from fleetsim.learning.data.formats.archives import PLAIN_METHODS, damage_as_error

SUFFIXES = frozenset({".jpg", ".jpeg", ".png"})
"""Ends of the names of files that are read, in lower case."""

_FORMATS = ("JPEG", "PNG")
_FAULTS = (
    *(OSError, SyntaxError, ValueError, EOFError, OverflowError, struct.error, zlib.error),
    *(MemoryError, Image.DecompressionBombError, Image.DecompressionBombWarning),
)
"""Exceptions of Pillow for a damaged file."""

_MAX_PICTURE_BYTE = 1 << 20


def pixels_of(
    file: IO[bytes] | bytes,
    place: str,
    *,
    size: tuple[int, int],
    any_mode: bool = False,
    side: int | None = None,
) -> NDArray[np.uint8]:
    """Return the colours of a picture [height, width, 3]: red, green, blue.

    It must have the width and height `size`, and is resized to `side` x `side` pixels by bicubic
    interpolation unless that is None. With `any_mode` grey and other pictures are converted to RGB;
    else they are refused. The size in the file's header is compared before pixels are decoded.
    """
    content = io.BytesIO(file) if isinstance(file, bytes) else file
    try:
        with Image.open(content, formats=_FORMATS) as image:
            actual, mode = image.size, image.mode
            if actual == size and (any_mode or mode == "RGB"):
                colours = image if mode == "RGB" else image.convert("RGB")
                if side is not None:
                    colours = colours.resize((side, side), Image.Resampling.BICUBIC)
                return np.asarray(colours)
    except _FAULTS as error:
        message = " ".join(str(error).split())
        raise DataError(f"{place}: no readable picture ({message}); save it anew") from error
    expected = f"{size[0]} x {size[1]}" + ("" if any_mode else " in RGB")
    raise DataError(
        f"{place}: {actual[0]} x {actual[1]} pixels in mode {mode}, expected {expected}; save it so"
    )


class PictureFiles(ABC):
    """Picture files in one place."""

    def __init__(self, place: Path) -> None:
        self.place = place
        """Folder or archive."""

    @abstractmethod
    def in_folder(self, folder: str) -> list[str]:
        """Return the paths of the pictures directly in a folder, sorted; none without one."""

    @abstractmethod
    def contents(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the bytes of each of these files that is there, in any order."""

    def images(
        self, names: Sequence[str], size: tuple[int, int], side: int | None = None
    ) -> NDArray[np.uint8]:
        """Return pictures [n, 3, height, width] in the order of their paths, each once.

        Files are of the width and height `size`, and are resized to `side` x `side` pixels unless
        that is None.
        """
        width, height = size if side is None else (side, side)
        row_of = {name: row for row, name in enumerate(names)}
        images = np.empty((len(names), 3, height, width), np.uint8)
        seen = np.zeros(len(names), np.bool_)
        for name, content in self.contents(row_of.keys()):
            place = f"{self.place}, {name}"
            pixels = pixels_of(content, place, size=size, any_mode=True, side=side)
            images[row_of[name]] = pixels.transpose(2, 0, 1)
            seen[row_of[name]] = True
        if not seen.all():
            raise DataError(f"{self.place}: lacks {names[int(np.argmin(seen))]}; get it anew")
        return images

    def labelled(self, names_of: Sequence[Sequence[str]], size: tuple[int, int]) -> LabelledImages:
        """Return the pictures of each label in turn."""
        sizes = [len(names) for names in names_of]
        return LabelledImages(
            self.images([name for names in names_of for name in names], size),
            np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        )


class FolderPictures(PictureFiles):
    """Files on disk."""

    def in_folder(self, folder: str) -> list[str]:
        """See `PictureFiles`."""
        files = paths.matches(self.place / folder, "*")
        return sorted(f"{folder}/{path.name}" for path in files if _is_picture(path.name))

    def contents(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `PictureFiles`."""
        for name in names:
            path = self.place / name
            if paths.is_file(path):
                if path.stat().st_size > _MAX_PICTURE_BYTE:
                    raise _too_large(self.place, name)
                yield name, paths.read(path)


class _Packed(PictureFiles):
    """Files in an archive, known by its index."""

    def __init__(self, place: Path, top: str) -> None:
        super().__init__(place)
        self._top = top
        self._folders: dict[str, list[str]] | None = None

    @abstractmethod
    def _paths(self) -> Iterator[str]:
        """Yield the paths of all files as the archive has them."""

    def in_folder(self, folder: str) -> list[str]:
        """See `PictureFiles`; the index is read once."""
        if self._folders is None:
            self._folders = {}
            for path in self._paths():
                name = self._within(path)
                if _is_picture(PurePosixPath(name).name):
                    self._folders.setdefault(name.rpartition("/")[0], []).append(name)
            for names in self._folders.values():
                names.sort()
                twice = {one for one, other in itertools.pairwise(names) if one == other}
                if twice:
                    raise DataError(f"{self.place}: {min(twice)} is there twice; get it anew")
        return list(self._folders.get(folder, ()))

    def _within(self, path: str) -> str:
        """Return a path without `./` and the outermost folder."""
        return path.removeprefix("./").removeprefix(f"{self._top}/")


class TarPictures(_Packed):
    """Files in a gzipped tar, which is read twice: for its index, and for pictures."""

    def _paths(self) -> Iterator[str]:
        with archives.members(self.place) as stream:
            for _, member in stream:
                if not member.isdir():
                    yield member.name

    def contents(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `PictureFiles`."""
        with archives.members(self.place) as stream:
            for tar, member in stream:
                name = self._within(member.name)
                if name in names:
                    limit = _MAX_PICTURE_BYTE
                    yield name, archives.content_of(tar, member, self.place, max_byte=limit)


class ZipPictures(_Packed):
    """Files in a zip archive."""

    def _paths(self) -> Iterator[str]:
        with (
            paths.opened(self.place) as file,
            damage_as_error(f"{self.place}: damaged archive", "get it anew"),
        ):
            yield from zipfile.ZipFile(file).namelist()

    def contents(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `PictureFiles`."""
        with paths.opened(self.place) as file:
            with damage_as_error(f"{self.place}: damaged archive", "get it anew"):
                packed = zipfile.ZipFile(file)
            for info in packed.infolist():
                name = self._within(info.filename)
                if name in names:
                    yield name, self._content(packed, info)

    def _content(self, packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        if info.file_size > _MAX_PICTURE_BYTE or info.compress_type not in PLAIN_METHODS:
            raise _too_large(self.place, info.filename)
        with (
            damage_as_error(f"{self.place}, {info.filename}: damaged archive", "get it anew"),
            packed.open(info) as file,
        ):
            # The size in the archive's index may be wrong.
            return file.read(_MAX_PICTURE_BYTE)


def _is_picture(name: str) -> bool:
    """Return whether a file name is that of a picture, and not hidden."""
    return not name.startswith(".") and PurePosixPath(name).suffix.lower() in SUFFIXES


def _too_large(place: Path, name: str) -> DataError:
    return DataError(
        f"{place}: {name} is larger than {_MAX_PICTURE_BYTE} bytes, or packed by an unusual"
        " method; get it anew"
    )
