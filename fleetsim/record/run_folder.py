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

import hashlib
import json
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from filelock import FileLock, Timeout
from pydantic import Field, model_validator

from fleetsim.errors import DataError, ScenarioError
from fleetsim.record import atomic_files, checkpoint
from fleetsim.record.failures import Baseline, Failure
from fleetsim.record.tables import TableName
from fleetsim.schema import faults, overrides, strict_yaml
from fleetsim.schema.strict_yaml import Document
from fleetsim.settings import Settings

SCENARIO = "scenario.yaml"
MANIFEST = "manifest.json"
_LOCK = ".lock"
_ELSEWHERE = "choose another place with --out"
_LIBRARIES = (
    *("networkx", "numba", "numpy", "pandas", "pyarrow", "pydantic", "scikit-learn", "scipy"),
    *("simpy", "torch"),
)
_ID_LENGTH = 12
_MOST_NAMED = 4

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class PluginRecord(Settings):
    """Which selector of the user's own ran."""

    name: str
    """`MODULE:CLASS`."""
    source_sha256: Hash | None
    """SHA-256 of the file that defines the class; null where there was none."""


class PlatformRecord(Settings):
    """A numerical platform: what the last bits of a run depend on besides its scenario."""

    id: Annotated[str, Field(pattern=rf"^[0-9a-f]{{{_ID_LENGTH}}}$")]
    """First digits of the SHA-256 of `features`; equal platforms have equal ones."""
    features: dict[str, str]
    """What the platform is, by name; docs/outputs.md defines every key."""
    forms: Annotated[dict[str, str], Field(default_factory=dict)]
    """Forms of computing that the run took on it, by name; empty without training."""

    @classmethod
    def of(cls, features: Mapping[str, str], forms: Mapping[str, str]) -> PlatformRecord:
        """Record of a platform with these features, and of what a run computes in which form."""
        return cls(
            id=_platform_id(features),
            features=dict(sorted(features.items())),
            forms=dict(sorted(forms.items())),
        )

    @model_validator(mode="after")
    def _id_fits(self) -> PlatformRecord:
        if self.id != _platform_id(self.features):
            raise ValueError("id is not that of the features; run the scenario again")
        return self

    def differences(self, other: PlatformRecord) -> list[str]:
        """Features that differ, as `name (this, other)`, and forms if no feature does."""
        return _differing(self.features, other.features) or _differing(self.forms, other.forms)


def _differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Names with other values, `-` where there is none."""
    pairs = {name: (mine.get(name), theirs.get(name)) for name in sorted({*mine, *theirs})}
    return [
        f"{name} ({one or '-'}, {two or '-'})" for name, (one, two) in pairs.items() if one != two
    ]


def _platform_id(features: Mapping[str, str]) -> str:
    text = json.dumps(features, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


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
    table_digests: dict[TableName, Hash] | None = None
    """SHA-256 of what each table holds; null while none is written, or if the run is older."""
    seed: Annotated[int, Field(ge=0)]
    """Root of every random draw."""
    trainer: str
    """What trained: the name of the trainer."""
    plugin: PluginRecord | None = None
    """The selector of the user's own that chose; null: it was one of fleetsim's."""
    not_slowed_by_heat: tuple[str, ...] = ()
    """Phones and boards of the fleet whose clock no heat caps."""
    checkpoint_every_rounds: Annotated[int, Field(ge=1)]
    """Rounds between checkpoints."""
    scenario_hash: Hash
    """SHA-256 of everything in the scenario that can change the result."""
    world_hash: Hash
    """SHA-256 of what two runs must share to be compared."""
    platforms: tuple[PlatformRecord, ...] = ()
    """Numerical platforms that ran it, the one that began it first; several if it was resumed on
    another. Empty: a version of fleetsim ran it that did not record them."""
    versions: dict[str, str]
    """fleetsim, Python, platform and libraries that ran it."""
    warnings: tuple[str, ...] = ()
    """What was said of the scenario before it ran, such as keys without effect."""
    baseline: Baseline | None = None
    """What a constant answer scores on the test set; null without training."""
    failures: tuple[Failure, ...] = ()
    """Failures of the whole run, the gravest first; none while it runs."""

    @model_validator(mode="after")
    def _done_with_digest(self) -> Manifest:
        is_done = self.status == "done"
        if (self.digest is not None) != is_done or (self.stop_rule is not None) != is_done:
            raise ValueError("digest and stop_rule must be there if status is done, and only then")
        return self


def scenario_hash(data: Mapping[str, Any]) -> str:
    """SHA-256 of everything in a resolved scenario that can change the result.

    Args:
        data: the scenario as plain data; `checkpoint` changes no result.
    """
    return overrides.content_hash({key: data[key] for key in data if key != "checkpoint"})


def versions() -> dict[str, str]:
    """Versions of fleetsim, Python, the platform and the libraries that matter to a result."""
    return {
        "fleetsim": metadata.version("fleetsim"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }


def fresh_folder(home: Path, stem: str) -> Path:
    """First of STEM, STEM-2, STEM-3 ... under `home` where a run may begin; makes nothing.

    That is one that is not there yet, or that a process was killed in while it made it.

    Raises:
        DataError: `home` cannot be looked into.
    """
    folder, number = home / stem, 2
    with atomic_files.telling(home, "cannot be looked into", _ELSEWHERE):
        while (folder.exists() or folder.is_symlink()) and not _is_abandoned(folder):
            folder, number = home / f"{stem}-{number}", number + 1
    return folder


def find_run(home: Path, stem: str) -> Path | None:
    """The run to go on with: the newest of STEM, STEM-2, STEM-3 ... that is not done.

    If all are done it is the newest of them; None if there is none.
    A run that is still running in another process looks the same as one that was killed.

    Raises:
        DataError: `home` cannot be looked into, or the manifest of a run there is damaged.
    """
    pattern = re.compile(rf"{re.escape(stem)}(?:-([1-9]\d*))?")
    with atomic_files.telling(home, "cannot be looked into", _ELSEWHERE):
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
    """Whether a run may begin in a folder: it is missing, empty, or a kill left it half made.

    Raises:
        DataError: the folder cannot be looked into.
    """
    with atomic_files.telling(folder, "cannot be looked into", _ELSEWHERE):
        if not folder.exists():
            return not folder.is_symlink()
        return folder.is_dir() and (not any(folder.iterdir()) or _is_half_made(folder))


def create_folder(folder: Path, *, scenario: str, manifest: Manifest) -> None:
    """Make the folder of a new run and write what is known at its start.

    The manifest is written last: a folder without it holds nothing that counts, and the next run
    that is told to begin or to go on there makes it anew.

    Args:
        folder: missing, empty, or half made by a process that was killed; missing parents are made.
        scenario: text of `scenario.yaml`.
        manifest: content of `manifest.json`.

    Raises:
        DataError: a run or something else is there already, another process makes one there, or
            nothing can be written there.
    """
    _require_free(folder)
    atomic_files.make_folder(folder, way_out=_ELSEWHERE)
    # Of two processes that got as far as this one is through before the other looks again.
    with held(folder):
        _require_free(folder)
        atomic_files.remove_temporaries(folder)
        atomic_files.make_folder(folder / checkpoint.FOLDER, way_out=_ELSEWHERE)
        atomic_files.write(folder / SCENARIO, scenario.encode(), way_out=_ELSEWHERE)
        write_manifest(folder, manifest)


def _require_free(folder: Path) -> None:
    """Look that no run and nothing else is in a folder.

    Raises:
        DataError: there is.
    """
    if is_free(folder):
        return
    with atomic_files.telling(folder, "cannot be looked into", _ELSEWHERE):
        if not folder.is_dir():
            return  # whoever makes the folder is told what is in the way
        is_run = (folder / MANIFEST).exists()
    if not is_run:
        raise DataError(f"{folder}: is not empty and not a run; empty it, or {_ELSEWHERE}")
    if read_manifest(folder).status == "done":
        raise DataError(f"{folder}: holds a complete run; delete it, or {_ELSEWHERE}")
    raise DataError(
        f"{folder}: holds an unfinished run; go on with --resume, delete it, or {_ELSEWHERE}"
    )


def _is_half_made(folder: Path) -> bool:
    """Whether all that is in a folder is what `create_folder` writes before the manifest.

    The lock, which comes first, tells it from a folder of somebody's own with a `scenario.yaml`.
    """
    names = {path.name for path in folder.iterdir()}
    temporaries = {atomic_files.temporary(Path(name)).name for name in (SCENARIO, MANIFEST)}
    saved = folder / checkpoint.FOLDER
    return (
        _LOCK in names
        and names <= {_LOCK, SCENARIO, checkpoint.FOLDER} | temporaries
        and not (saved.is_dir() and any(saved.iterdir()))
    )


def _is_abandoned(folder: Path) -> bool:
    """Whether a folder is half made, and nobody is at it."""
    if not (folder.is_dir() and _is_half_made(folder)):
        return False
    try:
        with FileLock(folder / _LOCK, blocking=False):
            return True
    except Timeout:
        return False


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other processes from writing this run; a process that dies lets go of it.

    Raises:
        DataError: another process writes it, or the folder cannot be written to.
    """
    lock = FileLock(folder / _LOCK, blocking=False)
    with atomic_files.telling(folder / _LOCK, "cannot be locked", _ELSEWHERE):
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
    atomic_files.write(folder / MANIFEST, f"{checked.model_dump_json(indent=2)}\n".encode())


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`.

    Raises:
        DataError: the folder is not a run folder, or the manifest is damaged.
    """
    way_out = "name a folder that `fleetsim run` has made"
    path = folder / MANIFEST
    with atomic_files.telling(folder, "cannot be looked into", way_out):
        if not folder.is_dir():
            says = "is not a folder" if folder.exists() else "no such folder"
            raise DataError(f"{folder}: {says}; {way_out}")
        if not path.exists():
            raise DataError(f"{folder}: is not a run folder, it has no {MANIFEST}; {way_out}")
    data = atomic_files.read_json(path, way_out="run the scenario again")
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


def with_platform(
    folder: Path, manifest: Manifest, now: PlatformRecord, *, allow_other: bool
) -> Manifest:
    """The manifest of a run that goes on, with the platform on which it does.

    Args:
        folder: of the run.
        manifest: of the run.
        now: the platform of this process.
        allow_other: whether the run may go on on another platform; it is put on record.

    Raises:
        ScenarioError: the platform is another one, and that is not allowed.
    """
    if now in manifest.platforms:
        return manifest
    if not allow_other:
        if manifest.platforms:
            others = manifest.platforms[-1].differences(now)
            more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
            says = (
                "ran on another numerical platform; then and now differ in"
                f" {'; '.join(others[:_MOST_NAMED])}{more}"
            )
        else:
            says = "does not say on which numerical platform it ran"
        raise ScenarioError(
            f"{folder}: {says}; resume it there, start anew, or give --allow-other-platform, which"
            " puts both on record"
        )
    return manifest.model_copy(update={"platforms": (*manifest.platforms, now)})


def read_scenario(folder: Path) -> dict[str, Any]:
    """The resolved scenario as plain data.

    Raises:
        DataError: `scenario.yaml` is missing or is not YAML as fleetsim writes it.
    """
    return strict_yaml.read(folder / SCENARIO, DataError).data
