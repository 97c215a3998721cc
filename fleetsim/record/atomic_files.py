"""Files that are written whole or not at all, even if the host dies.

A file is written under a new, unpredictable name beside its place, forced to the disk, and renamed,
which is atomic under POSIX; then the folder is forced to the disk, so that the name survives a
power cut. Nothing is written through a link that lies in a folder of fleetsim's: one in place of a
file is replaced, and one in place of a folder or a lock refused.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fleetsim.errors import DataError
from fleetsim.host import new_files, paths

GO_ON = "put that right and go on with --resume; what was recorded before is safe"
_MAX_JSON_BYTE = 1 << 24
_FOLDER_SYNC_UNSUPPORTED = (errno.EBADF, errno.EINVAL)


@contextlib.contextmanager
def one_line_error(path: Path, message: str, hint: str) -> Iterator[None]:
    """Turn an OSError of the block into a one-line error.

    >>> with one_line_error(Path("a"), "cannot be written", "make room"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    fleetsim.errors.DataError: a: cannot be written: [Errno 28] No space left on device; make room
    """
    try:
        yield
    except OSError as cause:
        reason = f"[Errno {cause.errno}] {cause.strerror}"
        raise DataError(f"{path}: {message}: {reason}; {hint}") from cause


def write(path: Path, data: bytes, *, hint: str = GO_ON, syncs_folder: bool = True) -> None:
    """Replace a file atomically and durably; its folder exists.

    Without `syncs_folder` the content is on the disk, but maybe not the name until the caller calls
    `sync_folder`, once for several files.
    """
    with replacing(path, hint=hint, syncs_folder=syncs_folder) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, *, hint: str = GO_ON, syncs_folder: bool = True) -> Iterator[BinaryIO]:
    """Replace a file by what the block writes, as `write` does; untouched if the block raises."""
    with one_line_error(path, "cannot be written", hint):
        unfinished, opened = new_files.created_beside(path)
        try:
            with opened as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            if syncs_folder:
                _sync_folder(path.parent)
        except (Exception, KeyboardInterrupt):
            # On a full disk the half-written file would take the room of later files. If it cannot
            # be removed either, the first fault is still the one to report.
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Force the names of files to the disk."""
    with one_line_error(folder, "cannot be written", GO_ON):
        _sync_folder(folder)


@contextlib.contextmanager
def opened(path: Path, *, hint: str) -> Iterator[io.BufferedReader]:
    """Open a file for reading; an OSError of the block becomes a one-line error."""
    with one_line_error(path, "cannot be read", hint):
        paths.kind_of(path)  # a pipe would block
        with path.open("rb") as file:
            yield file


def read(path: Path, *, hint: str, most_byte: int = -1) -> bytes:
    """Return the content of a file, or the first bytes of it."""
    with opened(path, hint=hint) as file:
        return file.read(most_byte)


def sha256(path: Path, *, hint: str) -> str:
    """Return the SHA-256 of the content of a file, of which little is in memory at a time."""
    with opened(path, hint=hint) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path, *, hint: str) -> dict[str, Any]:
    """Return the JSON object in a file that fleetsim has written."""
    content = read(path, hint=hint, most_byte=_MAX_JSON_BYTE + 1)
    if len(content) > _MAX_JSON_BYTE:
        raise DataError(f"{path}: longer than 16 MiB, which fleetsim did not write; {hint}")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as cause:  # not JSON, not UTF-8, or brackets without end
        raise DataError(f"{path}: is not JSON ({cause}); {hint}") from None
    if not isinstance(data, dict):
        raise DataError(f"{path}: must hold an object of keys; {hint}")
    return data


def make_folder(path: Path, *, hint: str) -> None:
    """Make a folder and its parents, durably."""
    with one_line_error(path, "cannot make this folder", hint):
        path.mkdir(parents=True, exist_ok=True)
        _sync_folder(path.parent)


def make_inner_folder(path: Path, *, hint: str) -> None:
    """Make a folder within one of fleetsim's own, durably; a link there would lead out of it."""
    if path.is_symlink():
        raise DataError(
            f"{path}: is a link, and nothing is written through links; remove it, or {hint}"
        )
    make_folder(path, hint=hint)


def remove(path: Path) -> None:
    """Remove a file; a missing file is no fault."""
    with one_line_error(path, "cannot be removed", GO_ON):
        path.unlink(missing_ok=True)


def remove_temporaries(folder: Path) -> None:
    """Remove the files that a kill during `write` left in a folder."""
    for path in sorted(folder.glob(".*.tmp")):
        if new_files.final_name(path.name) is not None:
            remove(path)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no such call and orders its renames itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as cause:
        # Some network file systems cannot sync a folder; there the server keeps the order.
        if cause.errno not in _FOLDER_SYNC_UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)
