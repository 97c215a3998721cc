"""What a run folder is: its name, `scenario.yaml`, and `manifest.json`, which says what was run.

```
runs/NAME-HASH8/        scenario.yaml  the resolved scenario
                        manifest.json  what was run, with what, how it ended
                        rounds.parquet tasks.parquet clients.parquet
                        checkpoint/    how to go on (see `checkpoint`)
                        .lock          held by the process that writes the run
```
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from filelock import FileLock, Timeout
from pydantic import Field, model_validator

from fleetsim import faults, strict_yaml
from fleetsim.errors import DataError, ScenarioError
from fleetsim.record import checkpoint, files
from fleetsim.settings import Settings
from fleetsim.strict_yaml import Document

SCENARIO = "scenario.yaml"
MANIFEST = "manifest.json"
_LOCK = ".lock"
_ELSEWHERE = "choose another place with --out"
_LIBRARIES = ("numpy", "pandas", "pyarrow", "pydantic", "scikit-learn", "scipy", "simpy", "torch")

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PluginRecord(Settings):
    """Which selector of the user's own ran."""

    name: str
    """`MODULE:CLASS`."""
    source_sha256: Hash | None
    """SHA-256 of the file that defines the class; null where there was none."""


class Manifest(Settings):
    """What was run, with what, and how it ended; docs/outputs.md defines every key."""

    format: Literal[1] = 1
    """Version of the run folder's layout."""
    name: str
    """The scenario's name."""
    status: Literal["running", "done", "failed", "interrupted"]
    """`running` is also what a killed run says."""
    stop_rule: str | None = None
    """Which rule ended the run; null unless it is done."""
    stop_text: str | None = None
    """One sentence on why it ended, the fault if it failed; null while it runs."""
    rounds: Annotated[int, Field(ge=0)] = 0
    """Rounds recorded."""
    virtual_s: Annotated[float, Field(ge=0.0)] = 0.0
    """Virtual time reached."""
    host_s: Annotated[float, Field(ge=0.0)] = 0.0
    """Seconds of host time spent, over all resumes."""
    digest: Hash | None = None
    """SHA-256 of what the tables hold; null unless the run is done."""
    seed: Annotated[int, Field(ge=0)]
    """Root of every random draw."""
    trainer: str
    """What trained: the name of the trainer."""
    plugin: PluginRecord | None = None
    """The selector of the user's own that chose; null: it was one of fleetsim's."""
    checkpoint_every_rounds: Annotated[int, Field(ge=1)]
    """Rounds between checkpoints."""
    scenario_hash: Hash
    """SHA-256 of everything in the scenario that can change the result."""
    world_hash: Hash
    """SHA-256 of what two runs must share to be compared."""
    versions: dict[str, str]
    """fleetsim, Python, platform and libraries that ran it."""

    @model_validator(mode="after")
    def _done_with_digest(self) -> Manifest:
        is_done = self.status == "done"
        if (self.digest is not None) != is_done or (self.stop_rule is not None) != is_done:
            raise ValueError("digest and stop_rule must be there if status is done, and only then")
        return self


def versions() -> dict[str, str]:
    """Versions of fleetsim, Python, the platform and the libraries that matter to a result."""
    return {
        "fleetsim": metadata.version("fleetsim"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }


def fresh_folder(home: Path, stem: str) -> Path:
    """First of STEM, STEM-2, STEM-3 ... under `home` that is not there yet; makes nothing.

    Raises:
        DataError: `home` cannot be looked into.
    """
    folder, number = home / stem, 2
    with files.telling(home, "cannot be looked into", _ELSEWHERE):
        while folder.exists() or folder.is_symlink():
            folder, number = home / f"{stem}-{number}", number + 1
    return folder


def find_unfinished(home: Path, stem: str) -> Path | None:
    """The run to go on with: the newest of STEM, STEM-2, STEM-3 ... that is not done, if any.

    A run that is still running in another process looks the same as one that was killed.

    Raises:
        DataError: `home` cannot be looked into, or the manifest of a run there is damaged.
    """
    pattern = re.compile(rf"{re.escape(stem)}(?:-([1-9]\d*))?")
    with files.telling(home, "cannot be looked into", _ELSEWHERE):
        numbered = [
            (int(match[1] or 1), path)
            for path in (home.iterdir() if home.is_dir() else ())
            if (match := pattern.fullmatch(path.name)) and (path / MANIFEST).is_file()
        ]
    for _, path in sorted(numbered, reverse=True):
        if read_manifest(path).status != "done":
            return path
    return None


def create_folder(folder: Path, *, scenario: str, manifest: Manifest) -> None:
    """Make the folder of a new run and write what is known at its start.

    Args:
        folder: missing, or an empty folder; missing parents are made.
        scenario: text of `scenario.yaml`.
        manifest: content of `manifest.json`.

    Raises:
        DataError: a run or something else is there already, or nothing can be written there.
    """
    with files.telling(folder, "cannot be looked into", _ELSEWHERE):
        is_run = (folder / MANIFEST).exists()
        is_taken = folder.is_dir() and any(folder.iterdir())
    if is_run:
        if read_manifest(folder).status == "done":
            raise DataError(f"{folder}: holds a complete run; delete it, or {_ELSEWHERE}")
        raise DataError(
            f"{folder}: holds an unfinished run; go on with --resume, delete it, or {_ELSEWHERE}"
        )
    if is_taken:
        raise DataError(f"{folder}: is not empty and not a run; empty it, or {_ELSEWHERE}")
    files.make_folder(folder, way_out=_ELSEWHERE)
    # Of two processes that got as far as this only one can make it: the folder is claimed.
    files.make_folder(folder / checkpoint.FOLDER, way_out=_ELSEWHERE, exist_ok=False)
    files.write(folder / SCENARIO, scenario.encode(), way_out=_ELSEWHERE)
    write_manifest(folder, manifest)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other processes from writing this run; a process that dies lets go of it.

    Raises:
        DataError: another process writes it, or the folder cannot be written to.
    """
    lock = FileLock(folder / _LOCK, blocking=False)
    with files.telling(folder / _LOCK, "cannot be locked", _ELSEWHERE):
        try:
            lock.acquire()
        except Timeout:
            raise DataError(
                f"{folder}: another process is writing this run; wait until it ends, or"
                f" {_ELSEWHERE}"
            ) from None
    try:
        yield
    finally:
        lock.release()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace `manifest.json` atomically.

    Raises:
        ValueError: the manifest contradicts itself, as a careless `model_copy` may.
        DataError: the file cannot be written.
    """
    checked = Manifest.model_validate(manifest.model_dump())
    files.write(folder / MANIFEST, f"{checked.model_dump_json(indent=2)}\n".encode())


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`.

    Raises:
        DataError: the folder is not a run folder, or the manifest is damaged.
    """
    way_out = "name a folder that `fleetsim run` has made"
    path = folder / MANIFEST
    with files.telling(folder, "cannot be looked into", way_out):
        if not folder.is_dir():
            says = "is not a folder" if folder.exists() else "no such folder"
            raise DataError(f"{folder}: {says}; {way_out}")
        if not path.exists():
            raise DataError(f"{folder}: is not a run folder, it has no {MANIFEST}; {way_out}")
    try:
        data = json.loads(files.read(path, way_out=way_out))
    except ValueError as cause:  # not JSON, or not UTF-8
        raise DataError(f"{path}: is not JSON ({cause}); run the scenario again") from None
    if not isinstance(data, dict):
        raise DataError(f"{path}: must hold an object of keys; run the scenario again")
    return faults.check(Manifest, Document(data, str(path)), DataError)


def require_same_plugin(
    folder: Path, before: PluginRecord | None, now: PluginRecord | None
) -> None:
    """Look that a run goes on with the selector that it began with.

    Raises:
        ScenarioError: it would not.
    """
    if before == now:
        return
    if before is None:
        raise ScenarioError(f"{folder}: was run without a plug-in; leave it out, or run afresh")
    if now is None or now.name != before.name:
        without = "" if now is None else f", not {now.name}"
        raise ScenarioError(
            f"{folder}: was run with the plug-in {before.name}{without}; give it again with"
            f" --plugin {before.name}, or run afresh"
        )
    raise ScenarioError(
        f"{folder}: the file of {before.name} is not as it was when the run began; restore it, or"
        " run afresh"
    )


def read_scenario(folder: Path) -> dict[str, Any]:
    """The resolved scenario as plain data.

    Raises:
        DataError: `scenario.yaml` is missing or is not YAML as fleetsim writes it.
    """
    return strict_yaml.read(folder / SCENARIO, DataError).data
