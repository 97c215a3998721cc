"""The folder of a run: its name, its lock, and its content at the start.

docs/outputs.md lists the files; `.lock` is locked by the process that writes the run.
"""

import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from fleetsim.errors import DataError
from fleetsim.host import new_files, paths
from fleetsim.record import atomic_files, checkpoint
from fleetsim.record.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from fleetsim.record.resumption import require_same_run

RUNS = Path("runs")
SCENARIO = "scenario.yaml"
_HASH_LENGTH = 8
_LOCK = ".lock"
_ELSEWHERE = "choose another place with --out"


class RunIsBusyError(DataError):
    """Refusal to write a run that another process is writing."""


class RunExistsError(DataError):
    """Refusal to begin a run in the folder of one."""


def choose_folder(
    out: str | Path | None,
    begun: Manifest,
    *,
    scenario: str,
    resume: bool,
    on_note: Callable[[str], None],
) -> tuple[Path, Manifest]:
    """Return the folder of a run and its manifest; for a run that begins it is made.

    Without `out` it is one in `RUNS`, named after the run. `begun` is the manifest of the run if it
    begins now, and `scenario` the text of `scenario.yaml`. With `resume` the run that is there,
    complete or not, continues; `on_note` is called if it is complete or missing.
    """
    stem = f"{begun.name}-{begun.scenario_hash[:_HASH_LENGTH]}"
    given = None if out is None else paths.local(out)
    if resume:
        existing = given or find_run(RUNS, stem)
        if existing is not None and not is_free(existing):
            return existing, _resumed(existing, begun, on_note)
    folder = given or fresh_folder(RUNS, stem)
    try:
        create_folder(folder, scenario=scenario, manifest=begun)
    except RunExistsError:
        if not resume:
            raise
        # Another process has begun it in the meantime.
        return folder, _resumed(folder, begun, on_note)
    if resume:
        on_note(f"{folder}: there is no run to resume yet, it begins here")
    return folder, begun


def _resumed(folder: Path, begun: Manifest, on_note: Callable[[str], None]) -> Manifest:
    """Return the manifest of the run in a folder, which is checked to be the one to resume."""
    manifest = read_manifest(folder)
    require_same_run(folder, manifest, begun)
    if manifest.status == "done":
        on_note(f"{folder}: the run is complete, there is nothing to resume")
    return manifest


def fresh_folder(home: Path, stem: str) -> Path:
    """Return the first of STEM, STEM-2, STEM-3 ... under `home` where a run may begin.

    Such a folder does not exist yet, or a process was killed while it made it. None is made here.
    """
    folder, number = home / stem, 2
    with atomic_files.one_line_error(home, "cannot be looked into", _ELSEWHERE):
        while (folder.exists() or folder.is_symlink()) and not (
            folder.is_dir() and _is_half_made(folder) and not is_busy(folder)
        ):
            folder, number = home / f"{stem}-{number}", number + 1
    return folder


def find_run(home: Path, stem: str) -> Path | None:
    """Return the run to resume: the newest of STEM, STEM-2, STEM-3 ... that is not done.

    If all are done, it is the newest of them; None if there is none. A run that another process
    still writes looks the same as one that was killed.
    """
    pattern = re.compile(rf"{re.escape(stem)}(?:-([1-9]\d*))?")
    with atomic_files.one_line_error(home, "cannot be looked into", _ELSEWHERE):
        numbered = [
            (int(match[1] or 1), path)
            for path in (home.iterdir() if home.is_dir() else ())
            if (match := pattern.fullmatch(path.name)) and (path / MANIFEST).is_file()
        ]
    newest_first = [path for _, path in sorted(numbered, reverse=True)]
    for path in newest_first:
        if read_manifest(path).status != "done":
            return path
    return newest_first[0] if newest_first else None


def is_free(folder: Path) -> bool:
    """Return whether a run may begin in a folder: it is missing, empty, or half made."""
    with atomic_files.one_line_error(folder, "cannot be looked into", _ELSEWHERE):
        if not folder.exists():
            return not folder.is_symlink()
        return folder.is_dir() and (not any(folder.iterdir()) or _is_half_made(folder))


def create_folder(folder: Path, *, scenario: str, manifest: Manifest) -> None:
    """Make the folder of a new run and write its scenario and manifest.

    The manifest is written last: a folder without it holds no run, and the next run that begins or
    resumes there makes it again. Missing parents are made.
    """
    _require_free(folder)
    atomic_files.make_folder(folder, hint=_ELSEWHERE)
    # Of two processes at this point, one finishes before the other checks again.
    with locked(folder):
        _require_free(folder)
        atomic_files.remove_temporaries(folder)
        atomic_files.make_inner_folder(folder / checkpoint.FOLDER, hint=_ELSEWHERE)
        atomic_files.write(folder / SCENARIO, scenario.encode(), hint=_ELSEWHERE)
        write_manifest(folder, manifest)


def clear(folder: Path) -> None:
    """Remove an unfinished run, so that it can begin anew.

    The manifest is removed last, like one that is written: a kill leaves an unfinished run.
    """
    with locked(folder):
        if read_manifest(folder).status == "done":
            raise DataError(f"{folder}: holds a complete run; delete it, or {_ELSEWHERE}")
        kept = (_LOCK, MANIFEST)
        with atomic_files.one_line_error(folder, "cannot be emptied", _ELSEWHERE):
            for path in sorted(folder.iterdir()):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name not in kept:
                    path.unlink()
        atomic_files.remove(folder / MANIFEST)


def _require_free(folder: Path) -> None:
    """Check that a run may begin in a folder."""
    if is_free(folder):
        return
    with atomic_files.one_line_error(folder, "cannot be looked into", _ELSEWHERE):
        if not folder.is_dir():
            return  # making the folder will fail and say what is in the way
        is_run = (folder / MANIFEST).exists()
    if not is_run:
        raise DataError(f"{folder}: is not empty and not a run; empty it, or {_ELSEWHERE}")
    if read_manifest(folder).status == "done":
        raise RunExistsError(f"{folder}: holds a complete run; delete it, or {_ELSEWHERE}")
    raise RunExistsError(
        f"{folder}: holds an unfinished run; go on with --resume, delete it, or {_ELSEWHERE}"
    )


def _is_half_made(folder: Path) -> bool:
    """Return whether a folder holds only what `create_folder` writes before the manifest.

    The lock, which is written first, distinguishes it from a user's folder with a `scenario.yaml`.
    """
    names = {path.name for path in folder.iterdir()}
    made = {new_files.final_name(name) or name for name in names}
    saved = folder / checkpoint.FOLDER
    return (
        _LOCK in names
        and MANIFEST not in names
        and made <= {_LOCK, SCENARIO, MANIFEST, checkpoint.FOLDER}
        and not (saved.is_dir() and any(saved.iterdir()))
    )


def is_busy(folder: Path) -> bool:
    """Return whether a process is writing the run in a folder, which need not exist."""
    with atomic_files.one_line_error(folder / _LOCK, "cannot be locked", _ELSEWHERE):
        if not ((folder / _LOCK).exists() or (folder / _LOCK).is_symlink()):
            return False
    lock = acquired(folder / _LOCK, hint=_ELSEWHERE)
    if lock is None:
        return True
    lock.release()
    return False


def acquired(path: Path, *, hint: str) -> BaseFileLock | None:
    """Return the lock of a file, to be released; None if another process holds it.

    The system releases it when its process dies. Refused are a link or no regular file, so that
    nothing else is locked, and a file system without locks: the library's substitute would outlive
    a killed process.
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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing this run; the lock of a dead process is released."""
    lock = acquired(folder / _LOCK, hint=_ELSEWHERE)
    if lock is None:
        raise RunIsBusyError(
            f"{folder}: another process is writing this run; wait until it ends, or {_ELSEWHERE}"
        )
    try:
        yield
    finally:
        lock.release()
