"""Picture files in a folder, in a zip archive or in a gzipped tar, all read alike.

Paths of files are relative to the place, with `/`, and without the outermost folder `top` where an
archive, or a copy of it on disk, has one. Nothing is unpacked to disk.
"""

import io
import itertools
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import LabelledImages
from fleetsim.learning.data.formats import archives

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

    def __init__(self, place: Path, *, any_mode: bool = True) -> None:
        """Find them later; `any_mode` is that of `pixels_of`."""
        self.place = place
        """Folder or archive."""
        self._any_mode = any_mode

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
            pixels = pixels_of(content, place, size=size, any_mode=self._any_mode, side=side)
            images[row_of[name]] = pixels.transpose(2, 0, 1)
            seen[row_of[name]] = True
        if not seen.all():
            raise DataError(f"{self.place}: lacks {names[int(np.argmin(seen))]}; get it anew")
        return images

    def labelled(
        self,
        names_of: Mapping[str, Sequence[str]],
        size: tuple[int, int],
        num_kept: int | None = None,
    ) -> LabelledImages:
        """Return the pictures of each class in turn, the first `num_kept` of each; None: all."""
        for label, names in names_of.items():
            if num_kept is not None and num_kept > len(names):
                raise ScenarioError(
                    f"task.dataset: {num_kept * len(names_of)} pictures need {num_kept} of each"
                    f" class, {self.place} has {len(names)} of {label}; lower train_samples or"
                    " test_samples"
                )
        kept = [names[:num_kept] for names in names_of.values()]
        return LabelledImages(
            self.images([name for names in kept for name in names], size),
            np.repeat(np.arange(len(kept), dtype=np.int64), [len(names) for names in kept]),
        )

    def check_numbers(
        self, names_of: Mapping[str, Sequence[str]], expected: int, *, part: str, title: str
    ) -> None:
        """Check that a part has as many pictures of each class as the published set."""
        for label, names in names_of.items():
            if len(names) != expected:
                raise DataError(
                    f"{self.place}: {len(names)} pictures of {label} in {part}, {title} has"
                    f" {expected}; get it anew"
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
                num_byte, limit = path.stat().st_size, _MAX_PICTURE_BYTE
                if num_byte > limit:
                    raise archives.too_large(self.place, name, num_byte, limit)
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
        with archives.opened_zip(self.place) as packed:
            yield from packed.namelist()

    def contents(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """See `PictureFiles`."""
        with archives.opened_zip(self.place) as packed:
            for info in packed.infolist():
                name = self._within(info.filename)
                if name in names:
                    limit = _MAX_PICTURE_BYTE
                    yield name, archives.zip_content(packed, info, self.place, max_byte=limit)


def _is_picture(name: str) -> bool:
    """Return whether a file name is that of a picture, and not hidden."""
    return not name.startswith(".") and PurePosixPath(name).suffix.lower() in SUFFIXES
