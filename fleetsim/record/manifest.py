"""The manifest of a run, `manifest.json`: what was run, with what, and how it ended."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fleetsim.errors import DataError
from fleetsim.record import atomic_files
from fleetsim.record.failures import Baseline, Failure
from fleetsim.record.identity import (
    FlowerRecord,
    Hash,
    Name,
    RunIdentity,
    WeightsRecord,
    content_sha256,
)
from fleetsim.record.tables import TableName
from fleetsim.schema import faults
from fleetsim.schema.strict_yaml import Document
from fleetsim.settings import Settings

MANIFEST = "manifest.json"
_LIBRARIES = (
    *("networkx", "numba", "numpy", "pandas", "pyarrow", "pydantic", "scikit-learn", "scipy"),
    *("simpy", "torch"),
)
_ID_LENGTH = 12


class PluginRecord(Settings):
    """Plug-in of a run: a part of the user's own."""

    kind: str
    """Kind of the part, such as `selector`."""
    name: str
    """`MODULE:NAME`."""
    source_sha256: Hash | None
    """SHA-256 of the file that defines it; null where there was none."""
    version: str | None
    """Version of its module or distribution; null if it has none, or if the run is older."""
    gave_sha256: Hash | None = None
    """SHA-256 of what it gave before the run: the split of a partition, the initial weights of a
    model; null of other kinds, and if the run is older."""
    affects_results: bool = True
    """False: it watched the run, such as a tracker."""


class PlatformRecord(Settings):
    """A numerical platform: conditions besides the scenario that determine the last bits."""

    id: Annotated[str, Field(pattern=rf"^[0-9a-f]{{{_ID_LENGTH}}}$")]
    """First digits of the SHA-256 of `features`; equal platforms have equal ones."""
    features: dict[str, str]
    """Properties of the platform by name; docs/develop/kernels.md defines every key."""
    forms: Annotated[dict[str, str], Field(default_factory=dict)]
    """Forms of computation that the run used on it, by name; empty without training."""

    @classmethod
    def of(cls, features: Mapping[str, str], forms: Mapping[str, str]) -> PlatformRecord:
        """Return the record of a platform with these features and forms."""
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
        """Return features that differ, as `name (this, other)`; forms if no feature does."""
        return _differing(self.features, other.features) or _differing(self.forms, other.forms)


def _differing(mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return names whose values differ; a missing value is `-`."""
    pairs = {name: (mine.get(name), theirs.get(name)) for name in sorted({*mine, *theirs})}
    return [
        f"{name} ({one or '-'}, {two or '-'})" for name, (one, two) in pairs.items() if one != two
    ]


def _platform_id(features: Mapping[str, str]) -> str:
    return content_sha256(features)[:_ID_LENGTH]


def platform_differences(platforms: Iterable[PlatformRecord]) -> list[str]:
    """Return how platforms differ from the first of them, each difference once."""
    first, *others = platforms
    differences = [difference for other in others for difference in first.differences(other)]
    return list(dict.fromkeys(differences))


class DeviceFigureRecord(Settings):
    """A figure of a device or radio file of which the run drew an error (`fleet.uncertainty`)."""

    hardware: Literal["device", "radio"]
    name: Name
    """Name of the device or radio: the stem of its file."""
    figure: Name
    """Key path in the file, with its unit, such as `power.idle_awake_w`."""
    sourced: float
    """Value in the file."""
    inferred: bool
    """True if it was neither measured on this device nor published for it."""
    factor: float
    """Error that was drawn."""
    used: float
    """Value with the error."""


class ResultsCacheRecord(Settings):
    """Use of a results cache by the process that completed the run."""

    unit: Literal["job", "batch"]
    """Content of an entry: one job, or a batch of jobs whose bits depend on each other."""
    rounds: Annotated[int, Field(ge=0)]
    """Rounds with training."""
    rounds_found: Annotated[int, Field(ge=0)]
    """Those whose training was found as a whole."""
    entries_found: Annotated[int, Field(ge=0)]
    """Entries that were found."""
    entries_computed: Annotated[int, Field(ge=0)]
    """Entries that were not."""
    entries_damaged: Annotated[int, Field(ge=0)]
    """Those of them that were damaged."""

    @property
    def text(self) -> str:
        """Line that says how much of the training was found."""
        damaged = f"; damaged entries: {self.entries_damaged}" if self.entries_damaged else ""
        return (
            f"results cache: the training of {self.rounds_found} of {self.rounds} rounds was"
            f" found{damaged}"
        )


class ClusterRecord(Settings):
    """Use of a Dask cluster by the process that completed the run."""

    hosts: Annotated[int, Field(ge=1)]
    """Hosts of the workers at the end."""
    workers: Annotated[int, Field(ge=1)]
    """Workers at the end."""
    data_byte: Annotated[int, Field(ge=0)]
    """Bytes of samples and network that were sent, once to each worker."""
    round_sent_byte: Annotated[int, Field(ge=0)]
    """Mean bytes of models and jobs that were sent in a round with training."""
    round_received_byte: Annotated[int, Field(ge=0)]
    """Mean bytes of results."""

    @property
    def text(self) -> str:
        """Line that says who trained, and what travelled."""
        return (
            f"dask: workers {self.workers}, hosts {self.hosts}; samples and network"
            f" {self.data_byte:,} byte, in a round {self.round_sent_byte:,} byte sent and"
            f" {self.round_received_byte:,} received"
        )


class Manifest(Settings):
    """Content of `manifest.json`; docs/outputs.md defines every key."""

    format: Literal[1] = 1
    """Version of the run folder's layout."""
    name: Name
    """The scenario's name."""
    status: Literal["running", "done", "failed", "interrupted"]
    """`running` also after a kill."""
    stop_rule: Name | None = None
    """Rule that ended the run; null unless it is done."""
    stop_text: str | None = None
    """One sentence on why it ended, the fault if it failed; null while it runs."""
    rounds: Annotated[int, Field(ge=0)] = 0
    """Rounds recorded."""
    virtual_s: Annotated[float, Field(ge=0.0)] = 0.0
    """Virtual time reached."""
    host_s: Annotated[float, Field(ge=0.0)] = 0.0
    """Seconds of host time spent, over all resumes."""
    num_parameters: Annotated[int, Field(ge=0)] | None = None
    """Trained parameters of the network; null: a Flower app's, or the run is older."""
    digest: Hash | None = None
    """SHA-256 of the values of all tables; null unless the run is done."""
    table_digests: dict[TableName, Hash] | None = None
    """SHA-256 of the values of each table; null while none is written, or if the run is older."""
    seed: Annotated[int, Field(ge=0)]
    """Root of every random draw."""
    trainer: Name
    """Name of the trainer."""
    trainer_reason: str | None = None
    """Reason for it in one line, for a network of the user's own; null for fleetsim's."""
    plugins: tuple[PluginRecord, ...] = ()
    """Parts of the user's own; all others were fleetsim's."""
    data_sha256: Hash | None = None
    """SHA-256 of the content of the user's own data set; null: it is none, or the run is older."""
    frozen_sha256: Hash | None = None
    """SHA-256 of the frozen weights of the user's own network; null: it has none, or the run is
    older."""
    flower: FlowerRecord | None = None
    """Flower app that ran; null: the run is one of a scenario alone."""
    selector_weights: WeightsRecord | None = None
    """Weight file of the selector; null without one."""
    input_sha256: dict[str, Hash] = Field(default_factory=dict)
    """SHA-256 of the user's own devices, radios and traces by path; empty also in older runs."""
    run_key: Hash | None = None
    """Key of the run in studies; null: no study has made it, or the run is older."""
    not_slowed_by_heat: tuple[str, ...] = ()
    """Phones and boards of the fleet whose clock is never capped by heat."""
    device_figures: tuple[DeviceFigureRecord, ...] = ()
    """Figures of devices and radios in use of which an error was drawn; empty without
    `fleet.uncertainty`."""
    device_kinds: dict[Name, Name] = Field(default_factory=dict)
    """Kind of each device of the fleet by its name in tables; empty: the run is older."""
    checkpoint_every_rounds: Annotated[int, Field(ge=1)]
    """Rounds between checkpoints."""
    scenario_hash: Hash
    """SHA-256 of everything in the scenario that can change the result."""
    world_hash: Hash
    """SHA-256 of what compared runs must share."""
    platforms: tuple[PlatformRecord, ...] = ()
    """Numerical platforms that ran it, in order; several if it was resumed on another. Empty: the
    version of fleetsim did not record them."""
    versions: dict[Name, Name]
    """fleetsim, Python, platform and libraries that ran it."""
    warnings: tuple[str, ...] = ()
    """Warnings about the scenario before it ran, such as keys without effect."""
    baseline: Baseline | None = None
    """Accuracy of a constant answer on the test set; null without training."""
    failures: tuple[Failure, ...] = ()
    """Failures of the whole run, the most severe first; none while it runs."""
    results_cache: ResultsCacheRecord | None = None
    """Use of a results cache; null without one, unless the run is done, and if it is older."""
    cluster: ClusterRecord | None = None
    """Use of a Dask cluster; null without one, unless the run is done, and if it is older."""
    content_sha256: Hash | None = None
    """SHA-256 of all other keys as JSON, sorted and without spaces, in the file; null if the run is
    older."""

    @property
    def identity(self) -> RunIdentity:
        """Identity that tells the files of this run from those of another."""
        weights = self.selector_weights
        parts = {
            "plugins": [part.model_dump() for part in self.plugins if part.affects_results],
            "flower": None if self.flower is None else self.flower.model_dump(),
            "data": self.data_sha256,
            "weights": None if weights is None else weights.sha256,
            "inputs": self.input_sha256,
            "key": self.run_key,
        }
        return RunIdentity(
            scenario_hash=self.scenario_hash,
            seed=self.seed,
            trainer=self.trainer,
            parts_sha256=content_sha256(parts),
            platforms=tuple(platform.id for platform in self.platforms),
        )

    @model_validator(mode="after")
    def _done_with_digest(self) -> Manifest:
        is_done = self.status == "done"
        if (self.digest is not None) != is_done or (self.stop_rule is not None) != is_done:
            raise ValueError("digest and stop_rule must be there if status is done, and only then")
        return self


def versions() -> dict[str, str]:
    """Return versions of fleetsim, Python, the platform and the libraries that affect results."""
    return {
        "fleetsim": metadata.version("fleetsim"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace `manifest.json` atomically."""
    # `model_copy` does not check, so the manifest may contradict itself.
    checked = Manifest.model_validate(manifest.model_dump() | {"content_sha256": None})
    content = _content(json.loads(checked.model_dump_json()))
    sealed = checked.model_copy(update={"content_sha256": content})
    atomic_files.write(folder / MANIFEST, f"{sealed.model_dump_json(indent=2)}\n".encode())


def _content(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all keys of a manifest but the one that holds it."""
    return content_sha256({key: data[key] for key in data if key != "content_sha256"})


def read_manifest(folder: Path) -> Manifest:
    """Read and check `manifest.json`."""
    hint = "name a folder that `fleetsim run` has made"
    path = folder / MANIFEST
    with atomic_files.one_line_error(folder, "cannot be looked into", hint):
        if not folder.is_dir():
            message = "is not a folder" if folder.exists() else "no such folder"
            raise DataError(f"{folder}: {message}; {hint}")
        if not path.exists():
            raise DataError(f"{folder}: is not a run folder, it has no {MANIFEST}; {hint}")
    again = "run the scenario again"
    data = atomic_files.read_json(path, hint=again)
    manifest = faults.check(Manifest, Document(data, str(path)), DataError)
    if manifest.content_sha256 not in (None, _content(data)):
        raise DataError(
            f"{path}: was changed after fleetsim wrote it, its content_sha256 is not that of its"
            f" other keys; restore the file, or {again}"
        )
    return manifest.model_copy(update={"content_sha256": None})
