"""Scenario and tables of a saved run: plain data, compared with what the manifest says of them.

An unfinished run has its rounds and tasks in its last checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import ConfigDict, Field

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.record import checkpoint, digests, tables
from fleetsim.record.manifest import MANIFEST, Manifest
from fleetsim.schema import faults
from fleetsim.schema.ranges import (
    ClientId,
    Clients,
    DeviceShare,
    DurationS,
    EnergyJ,
    FailureChance,
    PositiveFraction,
    Rounds,
)
from fleetsim.schema.strict_yaml import Document
from fleetsim.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

_Part = dict[str, Any] | None
RUN_AGAIN = "run the scenario again"


class _Keys(Settings):
    """Keys that reports and measures read; the defaults stand for keys that are not there."""

    model_config = ConfigDict(extra="allow", validate_default=False)


class _LocalKeys(_Keys):
    optimizer: _Part = None


class _TaskKeys(_Keys):
    dataset: _Part = None
    partition: _Part = None
    model: _Part = None
    local: _LocalKeys = _LocalKeys()


class _FleetKeys(_Keys):
    size: Clients = 1
    devices: dict[str, DeviceShare] = Field(default_factory=dict, min_length=1)
    channel: _Part = None
    usage: _Part = None
    thermal: _Part = None


class _StopKeys(_Keys):
    rounds: Rounds | None = None
    time_s: DurationS | None = None
    accuracy: PositiveFraction | None = None
    energy_j: EnergyJ | None = None


class _PrivacyKeys(_Keys):
    delta: FailureChance = 0.0


class _SelectorKeys(_Keys):
    kind: str = ""
    slot_rounds: Rounds | None = None
    clients: tuple[ClientId, ...] | None = None


class _ServerKeys(_Keys):
    mode: str = "synchronous"
    aggregator: _Part = None
    deadline_s: DurationS | None = None
    privacy: _PrivacyKeys | None = None
    selector: _SelectorKeys | None = None


class _ScenarioKeys(_Keys):
    task: _TaskKeys = _TaskKeys()
    fleet: _FleetKeys = _FleetKeys()
    server: _ServerKeys = _ServerKeys()
    stop: _StopKeys = _StopKeys()
    evaluate: _Part = None


class _Recorded(dict[str, Any]):
    """Keys of a scenario as recorded, which anyone may have edited."""

    place: str
    hint: str

    def __missing__(self, key: str) -> Any:
        raise DataError(f"{self.place}: lacks the key {key}; {self.hint}")


def recorded(document: Document, hint: str) -> dict[str, Any]:
    """Return plain data of which a missing key, or one of another type, is an error of the file."""
    hint = f"restore the file, or {hint}"
    faults.check(_ScenarioKeys, document, DataError, hint=hint)
    return _with_place(document.data, document.source, hint)


def _with_place(data: dict[str, Any], place: str, hint: str) -> dict[str, Any]:
    result = _Recorded(
        (key, _with_place(value, place, hint) if isinstance(value, dict) else value)
        for key, value in data.items()
    )
    result.place, result.hint = place, hint
    return result


def rows(folder: Path, manifest: Manifest, name: checkpoint.RowTable) -> pd.DataFrame:
    """Return the rounds or tasks of a run, as far as they are saved."""
    status = manifest.status
    # Without a digest nothing says that a table is of this run; its checkpoint does.
    has_digest = name in (manifest.table_digests or ())
    is_whole = status == "done" or (
        status != "running" and has_digest and paths.is_file(folder / f"{name}.parquet")
    )
    if is_whole:
        return tables.to_frame(_read(folder, manifest, name, RUN_AGAIN))
    saved = folder / checkpoint.FOLDER
    latest = checkpoint.read_latest(saved, manifest.identity)
    if latest is None:
        raise DataError(
            f"{folder}: the run is {status} and nothing is saved yet; go on with --resume"
        )
    of_run = tables.concat(name, checkpoint.row_parts(saved, name, latest.segments(name)))
    return tables.to_frame(of_run.drop_columns(tables.unused(name, [of_run])))


def clients(folder: Path, manifest: Manifest) -> pd.DataFrame:
    """Return the clients of a run."""
    hint = RUN_AGAIN
    if manifest.status != "done":
        hint = f"the run is {manifest.status}, finish it with --resume"
    return tables.to_frame(_read(folder, manifest, "clients", hint))


def _read(folder: Path, manifest: Manifest, name: tables.TableName, hint: str) -> pa.Table:
    """Return a table as the run wrote it."""
    path = folder / f"{name}.parquet"
    table = tables.read(path, name, hint=hint)
    if digests.digest({str(name): table}) != (manifest.table_digests or {}).get(name):
        raise DataError(
            f"{path}: was changed after the run, its digest is not the one in"
            f" {MANIFEST}; restore the file, or {RUN_AGAIN}"
        )
    return table
