"""Files in a zip or a gzipped tar, read in place: the requested ones alone, up to a size."""

import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.host.unpacking import GZIP_FAULTS, unpacked

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
    return _complete(contents, archive, names)


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


@contextmanager
def members(archive: Path) -> Iterator[Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]:
    """Open a gzipped tar and give its members in their order, as a stream.

    The unpacked size is bounded, and nothing is read twice. Exceptions of tarfile in the block mean
    a damaged archive, so the block must hold nothing else that raises them.
    """
    with paths.opened(archive) as packed:
        content = unpacked(packed, os.fstat(packed.fileno()).st_size, str(archive))
        try:
            with tarfile.open(fileobj=content, mode="r|") as tar:
                yield _each(tar)
        except (tarfile.TarError, *GZIP_FAULTS, ValueError, OverflowError) as error:
            message = " ".join(str(error).split())
            raise DataError(f"{archive}: damaged archive ({message}); get it anew") from error


def _each(tar: tarfile.TarFile) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    while (member := tar.next()) is not None:
        # The tar keeps every member that it has seen: 200 MB for the 270,000 of CINIC-10.
        tar.members = []  # type: ignore[attr-defined]
        yield tar, member


def content_of(
    tar: tarfile.TarFile, member: tarfile.TarInfo, archive: Path, *, max_byte: int
) -> bytes:
    """Return the bytes of a member, the last one that the stream gave."""
    file = tar.extractfile(member) if member.isreg() else None
    if file is None or member.size > max_byte:
        raise no_plain_file(archive, member, max_byte)
    return file.read()


def no_plain_file(archive: Path, member: tarfile.TarInfo, max_byte: int) -> DataError:
    """Return the error about a member that is not read."""
    return DataError(
        f"{archive}: {member.name} is there twice, no plain file, or larger than {max_byte} bytes"
        f" ({member.size}); get the archive anew"
    )


def read_tar(archive: Path, names: Collection[str], *, max_byte: int) -> dict[str, bytes]:
    """Return the bytes of some files in a gzipped tar, by their paths in it; writes no file."""
    contents: dict[str, bytes] = {}
    with members(archive) as stream:
        for tar, member in stream:
            if member.name not in names:
                continue
            if member.name in contents:
                raise no_plain_file(archive, member, max_byte)
            contents[member.name] = content_of(tar, member, archive, max_byte=max_byte)
    return _complete(contents, archive, names)


def _complete(
    contents: dict[str, bytes], archive: Path, names: Collection[str]
) -> dict[str, bytes]:
    missing = sorted(set(names) - set(contents))
    if missing:
        raise DataError(f"{archive}: lacks {', '.join(missing)}; get the archive anew")
    return contents
