"""Lock of a file between processes, which the system releases when its process dies."""

import warnings
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from fleetsim.errors import DataError
from fleetsim.record import atomic_files


def acquired(path: Path, *, hint: str) -> BaseFileLock | None:
    """Return the lock of a file, to be released; None if another process holds it.

    Refused are a link or no regular file, so that nothing else is locked, and a file system without
    locks: the library's substitute would outlive a killed process.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise DataError(f"{path}: is not the file of a lock but a link or the like; remove it")
    lock = FileLock(path, blocking=False)
    with atomic_files.one_line_error(path, "cannot be locked", hint), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*SoftFileLock")
        try:
            lock.acquire()
        except Timeout:
            return None
        except NotImplementedError:  # older versions of the library have no substitute
            pass
        else:
            if not isinstance(lock, SoftFileLock):
                return lock
            lock.release()
    raise DataError(
        f"{path}: cannot be locked: the file system of this folder cannot lock files (flock);"
        f" {hint} on another one, such as a local disk"
    )
