"""Runs of studies on the disk, found by their content.

```
HOME/study-runs/NAME-KEY16/            a run folder, shared by all studies that need this run
HOME/study-runs/NAME-KEY16.damaged/    a damaged one, set aside; then .damaged-2, .damaged-3 ...
HOME/studies/NAME/                     the study's own folder: file, page, tables, cells, failures
HOME/results-cache/                    results of training, found again by runs of equal training
```
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.quoting import one_line, quoted
from fleetsim.record import atomic_files, checkpoint, run_folder
from fleetsim.record.manifest import MANIFEST, Manifest, read_manifest
from fleetsim.record.run_folder import RUNS, RunIsBusyError, acquired
from fleetsim.record.saved_run import Run
from fleetsim.studies.planned_run import PlannedRun, require_planned

HOME = RUNS
_FAILURES = "failures.json"
_CELLS = "cells.json"
_KEY_LENGTH = 16
_ELSEWHERE = "choose another place with --home"

Status = Literal["done", "unfinished", "missing", "damaged"]


class SetAside(NamedTuple):
    """Folder of a damaged run that was renamed."""

    folder: Path
    """New name of the folder."""
    reason: str
    """Damage in one line."""


_IN_A_STUDY: Final = (
    ("go on with --resume, delete it", "delete it"),
    ("go on with --resume", "repeat the command"),
    ("finish it with --resume", "repeat the command to finish it"),
    ("resume with the same SCENARIO, --seed and --set, or with", "delete the folder, which has"),
    ("give or leave out --no-train as in that run", "delete the folder and repeat the command"),
    ("use --no-train", "set train: false in the study"),
    ("another place with --out", "another place with --home"),
)
"""Phrases with options that `fleetsim run` has and a study lacks, and what to say instead."""


def for_study(fault: str) -> str:
    """Return the fault of a run with the ways out that a study has.

    >>> for_study("runs/a: is not empty; empty it, or choose another place with --out")
    'runs/a: is not empty; empty it, or choose another place with --home'
    """
    for of_run, of_study in _IN_A_STUDY:
        fault = fault.replace(of_run, of_study)
    return fault


class RunStore:
    """Runs of studies below one home."""

    def __init__(self, home: str | Path, *, caches_results: bool = True) -> None:
        self.home = paths.local(home)
        self.results_cache = self.home / "results-cache" if caches_results else None
        """Folder of results of training; None: each run computes its own."""

    def folder(self, planned: PlannedRun) -> Path:
        """Return the folder of a run, which need not exist."""
        name = f"{planned.scenario.name}-{planned.key[:_KEY_LENGTH]}"
        return self.home / "study-runs" / name

    def status(self, planned: PlannedRun) -> Status:
        """Return whether a run is complete; damaged: its manifest is no good, or another run's."""
        try:
            manifest = self._manifest(planned)
        except DataError:
            return "damaged"
        if manifest is None:
            return "missing"
        return "done" if manifest.status == "done" else "unfinished"

    def damage(self, planned: PlannedRun) -> str | None:
        """Return in one line why the manifest or a table of a run is no good; None if all are.

        All tables of a complete run are read.
        """
        fault = self._fault(planned)
        return None if fault is None else damage_of(fault)

    def is_busy(self, planned: PlannedRun) -> bool:
        """Return whether another process is writing a run."""
        return run_folder.is_busy(self.folder(planned))

    def set_damaged_aside(self, planned: PlannedRun) -> SetAside | None:
        """Rename the folder of a run if it is damaged, so that the run can be carried out again.

        None if it is not damaged, or another process writes it. The checkpoint of an unfinished run
        is examined, too.
        """
        if self._fault(planned, with_checkpoint=True) is None:
            return None
        folder = self.folder(planned)
        try:
            with run_folder.locked(folder):
                # Another process may have set it aside, or written its checkpoint, in the meantime.
                fault = self._fault(planned, with_checkpoint=True)
                if fault is None:
                    return None
                aside = _unused(folder.with_name(f"{folder.name}.damaged"))
                hint = "delete it, and run the study again"
                with atomic_files.one_line_error(folder, "cannot be set aside", hint):
                    folder.rename(aside)
        except RunIsBusyError:
            return None
        return SetAside(aside, one_line(str(fault)))

    def _fault(self, planned: PlannedRun, *, with_checkpoint: bool = False) -> DataError | None:
        saved = self.folder(planned) / checkpoint.FOLDER
        try:
            done = self.open(planned)
            if done is not None:
                done.require_unchanged()
            elif with_checkpoint and (begun := self._manifest(planned)) is not None:
                latest = checkpoint.read_latest(saved, begun.identity)
                if latest is not None:
                    checkpoint.check(saved, latest)
        except DataError as fault:
            return fault
        return None

    def open(self, planned: PlannedRun) -> Run | None:
        """Return a complete run; None if it is not complete."""
        manifest = self._manifest(planned)
        if manifest is None or manifest.status != "done":
            return None
        return Run(self.folder(planned), manifest)

    def _manifest(self, planned: PlannedRun) -> Manifest | None:
        folder = self.folder(planned)
        if not (folder / MANIFEST).is_file():
            return None
        manifest = read_manifest(folder)
        require_planned(folder, manifest, planned)
        return manifest

    def study_folder(self, name: str) -> Path:
        """Return the folder of a study, which need not exist."""
        return self.home / "studies" / name

    def failures(self, name: str) -> dict[str, str]:
        """Return why runs of a study failed in its last execution, by key."""
        path = self.study_folder(name) / _FAILURES
        if not path.exists():
            return {}
        data = atomic_files.read_json(path, hint="delete it")
        if data.get("study", name) != name:
            raise DataError(f"{path}: is that of study {quoted(data['study'])}; delete it")
        reasons = data.get("reasons", data)  # older ones hold the reasons alone
        if not isinstance(reasons, dict):
            raise DataError(f"{path}: reasons must hold an object of keys; delete it")
        return {key: one_line(str(reason)) for key, reason in reasons.items()}

    def save_failures(self, name: str, reasons: Mapping[str, str]) -> None:
        """Replace the failures of a study."""
        self._save(name, _FAILURES, {"study": name, "reasons": dict(reasons)})

    def cells(self, name: str) -> dict[str, Any]:
        """Return the scenarios of a study in its last execution; empty without one."""
        path = self.study_folder(name) / _CELLS
        return atomic_files.read_json(path, hint="delete it") if path.exists() else {}

    def save_cells(self, name: str, cells: Mapping[str, Any]) -> None:
        """Replace the scenarios of a study."""
        self._save(name, _CELLS, cells)

    def _save(self, name: str, file: str, data: Mapping[str, Any]) -> None:
        folder = self.study_folder(name)
        atomic_files.make_inner_folder(folder, hint=_ELSEWHERE)
        text = f"{json.dumps(data, indent=2)}\n"
        atomic_files.write(folder / file, text.encode(), hint=_ELSEWHERE)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keep other processes from executing the same study."""
        folder = self.study_folder(name)
        atomic_files.make_inner_folder(folder, hint=_ELSEWHERE)
        lock = acquired(folder / ".lock", hint=_ELSEWHERE)
        if lock is None:
            raise DataError(
                f"{folder}: another process is running this study; wait until it ends, or"
                f" {_ELSEWHERE}"
            )
        try:
            yield
        finally:
            lock.release()


def damage_of(fault: DataError) -> str:
    """Return a fault of a run folder in one line, with the way out."""
    message = for_study(one_line(str(fault)))
    return f"{message}; `fleetsim study run` repeats the run and keeps this folder"


def _unused(folder: Path) -> Path:
    """Return the first of NAME, NAME-2, NAME-3 ... that does not exist."""
    result, number = folder, 2
    while result.exists() or result.is_symlink():
        result, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return result
