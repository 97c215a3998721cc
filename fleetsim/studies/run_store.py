"""Runs of studies on the disk, found by their content.

```
HOME/study-runs/NAME-KEY16/   a run folder, shared by all studies that need this run
HOME/studies/NAME/            the study's own folder: its page, tables and failures
```
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from fleetsim.errors import DataError
from fleetsim.quoting import one_line
from fleetsim.record import atomic_files
from fleetsim.record.manifest import MANIFEST, Manifest, read_manifest
from fleetsim.record.run_folder import RUNS
from fleetsim.record.saved_run import Run
from fleetsim.studies.study import PlannedRun

HOME = RUNS
_FAILURES = "failures.json"
_KEY_LENGTH = 16
_ELSEWHERE = "choose another place with --home"

Status = Literal["done", "unfinished", "missing", "damaged"]


class RunStore:
    """Runs of studies below one home."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def folder(self, planned: PlannedRun) -> Path:
        """Return the folder of a run, which need not exist."""
        name = f"{planned.scenario.name}-{planned.key[:_KEY_LENGTH]}"
        return self.home / "study-runs" / name

    def status(self, planned: PlannedRun) -> Status:
        """Return whether a run is complete; it is damaged if its manifest cannot be read."""
        try:
            found = self._manifest(planned)
        except DataError:
            return "damaged"
        if found is None:
            return "missing"
        return "done" if found.status == "done" else "unfinished"

    def damage(self, planned: PlannedRun) -> str | None:
        """Return in one line why the manifest of a run cannot be read; None if it can be."""
        try:
            self._manifest(planned)
        except DataError as fault:
            says = one_line(str(fault))
            return f"delete {self.folder(planned)} and run the study again, it is damaged: {says}"
        return None

    def open(self, planned: PlannedRun) -> Run | None:
        """Return a complete run; None if it is not complete.

        Raises:
            DataError: its manifest is damaged.
        """
        found = self._manifest(planned)
        if found is None or found.status != "done":
            return None
        return Run(self.folder(planned), found)

    def _manifest(self, planned: PlannedRun) -> Manifest | None:
        folder = self.folder(planned)
        return read_manifest(folder) if (folder / MANIFEST).is_file() else None

    def study_folder(self, name: str) -> Path:
        """Return the folder of a study, which need not exist."""
        return self.home / "studies" / name

    def failures(self, name: str) -> dict[str, str]:
        """Return why runs of a study failed in its last execution, by key.

        Raises:
            DataError: the file is damaged.
        """
        path = self.study_folder(name) / _FAILURES
        if not path.exists():
            return {}
        data = atomic_files.read_json(path, way_out="delete it")
        return {key: str(reason) for key, reason in data.items()}

    def save_failures(self, name: str, reasons: Mapping[str, str]) -> None:
        """Replace the failures of a study.

        Raises:
            DataError: they cannot be written.
        """
        folder = self.study_folder(name)
        atomic_files.make_folder(folder, way_out=_ELSEWHERE)
        text = f"{json.dumps(dict(reasons), indent=2)}\n"
        atomic_files.write(folder / _FAILURES, text.encode(), way_out=_ELSEWHERE)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keep other processes from executing the same study.

        Raises:
            DataError: another process executes it, or the folder cannot be written to.
        """
        folder = self.study_folder(name)
        atomic_files.make_folder(folder, way_out=_ELSEWHERE)
        lock = FileLock(folder / ".lock", blocking=False)
        with atomic_files.one_line_error(folder / ".lock", "cannot be locked", _ELSEWHERE):
            try:
                lock.acquire()
            except Timeout:
                raise DataError(
                    f"{folder}: another process is running this study; wait until it ends, or"
                    f" {_ELSEWHERE}"
                ) from None
        try:
            yield
        finally:
            lock.release()
