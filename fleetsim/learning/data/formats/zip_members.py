"""Files in a zip archive, read in place: the requested ones alone, up to a size."""

import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetsim.errors import DataError
from fleetsim.host import paths

PLAIN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Packing methods that are read; others take as much memory as the file states before unpacking."""

_MOST_CHARACTERS = 100
_FAULTS = (
    *(zipfile.BadZipFile, EOFError, RuntimeError, zlib.error, struct.error),
    *(ValueError, OverflowError, KeyError, IndexError),
)
"""Exceptions of zipfile for an archive that is damaged or encrypted."""


@contextmanager
def damage_as_error(message: str, hint: str) -> Iterator[None]:
    """Turn exceptions of zipfile for a damaged archive into an error of one line.

    The block must hold nothing else that raises them.
    """
    try:
        yield
    except _FAULTS as fault:
        reason = " ".join(str(fault).split())[:_MOST_CHARACTERS] or "it ends too early"
        if isinstance(fault, zlib.error):
            reason = "the compressed data are damaged"
        raise DataError(f"{message} ({reason}); {hint}") from fault


def read_zip(archive: Path, names: Collection[str], *, max_byte: int) -> dict[str, bytes]:
    """Return the bytes of some files in a zip archive, by their paths in it; writes no file."""
    with (
        paths.opened(archive) as file,
        damage_as_error(f"{archive}: damaged archive", "get it anew"),
    ):
        contents = _contents(zipfile.ZipFile(file), archive, names, max_byte)
    missing = sorted(set(names) - set(contents))
    if missing:
        raise DataError(f"{archive}: lacks {', '.join(missing)}; get the archive anew")
    return contents


def _contents(
    opened: zipfile.ZipFile, archive: Path, names: Collection[str], max_byte: int
) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for info in opened.infolist():
        if info.filename not in names:
            continue
        if info.filename in contents or info.file_size > max_byte:
            raise DataError(
                f"{archive}: {info.filename} is there twice, or larger than {max_byte}"
                f" bytes ({info.file_size}); get the archive anew"
            )
        if info.compress_type not in PLAIN_METHODS:
            raise DataError(
                f"{archive}: {info.filename} is packed by an unusual method; get the archive anew"
            )
        with opened.open(info) as file:
            # The size in the archive's index may be wrong.
            contents[info.filename] = file.read(max_byte)
    return contents
