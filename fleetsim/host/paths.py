"""Paths that a user names, with a one-line error where a path cannot be used.

Only regular files are opened. A FIFO, a socket or a device could block or never end, so they are
refused before they are opened. Every error names the path and the way out.
"""

import errno
import io
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from fleetsim.errors import DataError, ScenarioError

Kind = Literal["file", "folder"]
InputError = type[DataError] | type[ScenarioError]

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_HINTS = {
    errno.EACCES: "allow this user to read it and to enter its folders, or name another",
    errno.EPERM: "allow this user to read it, or name another",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.ELOOP: "its symbolic links lead to each other, name the place itself",
    errno.ENOTDIR: "a file stands where the path needs a folder, correct it",
}
_OTHER_HINT = "copy it to another disk and name the copy"
_SPECIAL = (
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def expanded(name: str, error: InputError = DataError, *, key: str = "") -> Path:
    """Expand `~` and `~user` at the beginning of a path."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        begin = f"{key}: " if key else ""
        user = name.partition("/")[0]
        raise error(f"{begin}{name}: {user} is no user's home folder; write the path out") from None


def local(path: str | Path, error: InputError = DataError) -> Path:
    """Return the path of an argument: `~` expanded, and text that every library can take."""
    name = str(path)
    try:
        is_text = b"\0" not in name.encode()
    except UnicodeEncodeError:
        is_text = False
    if not name or not is_text:
        raise error(f"{name!a}: is no path of UTF-8 characters; name another")
    return expanded(name, error)


def kind_of(path: Path, error: InputError = DataError) -> Kind | None:
    """Return the kind of a path, through symbolic links; None if nothing is, or can be, there."""
    try:
        mode = _mode(path, error)
    except OSError as fault:
        if fault.errno in _NOT_THERE:
            return None
        raise error(_line(path, "cannot be looked at", fault)) from fault
    return "folder" if stat.S_ISDIR(mode) else "file"


def is_file(path: Path, error: InputError = DataError) -> bool:
    """Return whether a file is there; raises as `kind_of` does."""
    return kind_of(path, error) == "file"


def is_folder(path: Path, error: InputError = DataError) -> bool:
    """Return whether a folder is there; raises as `kind_of` does."""
    return kind_of(path, error) == "folder"


@contextmanager
def opened(
    path: Path, error: InputError = DataError, *, what: str = "a file"
) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading; an OSError in the block becomes one line too."""
    try:
        if stat.S_ISDIR(_mode(path, error)):
            raise error(f"{path}: is a folder; name {what} in it")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise error(f"{path}: no such file; check the name and the working folder") from None
    except OSError as fault:
        raise error(_line(path, "cannot be read", fault)) from fault


def read(path: Path, error: InputError = DataError) -> bytes:
    """Return the content of a regular file; raises as `opened` does."""
    with opened(path, error) as file:
        return file.read()


def matches(folder: Path, pattern: str) -> list[Path]:
    """Return the paths in a folder whose names match, sorted; none if there is no folder."""
    if not is_folder(folder):
        return []
    try:
        # `Path.glob` returns nothing for a folder that may not be read.
        return sorted(path for path in folder.iterdir() if path.match(pattern))
    except OSError as fault:
        raise DataError(_line(folder, "cannot be looked into", fault)) from fault


def _mode(path: Path, error: InputError) -> int:
    try:
        mode = path.stat().st_mode
    except ValueError:
        raise error(f"{str(path)!a}: holds a character that no path can hold; correct it") from None
    for is_special, what in _SPECIAL:
        if is_special(mode):
            raise error(f"{path}: is {what}, not a file or folder; copy its content into a file")
    return mode


def _line(path: Path, what: str, fault: OSError) -> str:
    hint = _HINTS.get(fault.errno or 0, _OTHER_HINT)
    return f"{path}: {what}: {fault.strerror or fault}; {hint}"
