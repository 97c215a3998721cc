"""Scenario and tables of a saved run: plain data, compared with what the manifest says of them.

An unfinished run has its rounds and tasks in its last checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
from pydantic import ConfigDict, Field

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.record import checkpoint, tables
from fleetsim.record.manifest import MANIFEST, Manifest
from fleetsim.schema import faults
from fleetsim.schema.ranges import ClientId, Clients, DurationS, FailureChance, Rounds
from fleetsim.schema.strict_yaml import Document
from fleetsim.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

RUN_AGAIN = "run the scenario again"


class _Keys(Settings):
    """Keys that reports and measures read; the defaults stand for keys that are not there."""

    model_config = ConfigDict(extra="allow", validate_default=False)


class _FleetKeys(_Keys):
    size: Clients = 1
    thermal: dict[str, Any] | None = None


class _StopKeys(_Keys):
    rounds: Rounds | None = None


class _PrivacyKeys(_Keys):
    delta: FailureChance = 0.0


class _SelectorKeys(_Keys):
    kind: str = ""
    slot_rounds: Rounds | None = None
    clients: tuple[ClientId, ...] | None = None


class _ServerKeys(_Keys):
    deadline_s: DurationS | None = None
    privacy: _PrivacyKeys | None = None
    selector: _SelectorKeys | None = None


class _ScenarioKeys(_Keys):
    task: dict[str, Any] = Field(default_factory=dict)
    fleet: _FleetKeys = _FleetKeys()
    server: _ServerKeys = _ServerKeys()
    stop: _StopKeys = _StopKeys()


class _Recorded(dict[str, Any]):
    """Keys of a scenario as recorded, which anyone may have edited."""

    place: str
    hint: str

    def __missing__(self, key: str) -> Any:
        raise DataError(f"{self.place}: lacks the key {key}; {self.hint}")


def recorded(document: Document, hint: str) -> dict[str, Any]:
    """Return plain data of which a missing key, or one of another type, is an error of the file."""
    hint = f"restore the file, or {hint}"
    try:
        faults.check(_ScenarioKeys, document, DataError)
    except DataError as fault:
        raise DataError(*(f"{line}; {hint}" for line in fault.faults)) from None
    return _with_place(document.data, document.source, hint)


def _with_place(data: dict[str, Any], place: str, hint: str) -> dict[str, Any]:
    result = _Recorded(
        (key, _with_place(value, place, hint) if isinstance(value, dict) else value)
        for key, value in data.items()
    )
    result.place, result.hint = place, hint
    return result


@dataclass(frozen=True)
class SavedTables:
    """The tables of one run folder."""

    folder: Path
    manifest: Manifest

    def rows(self, name: checkpoint.RowTable) -> pd.DataFrame:
        """Return the rounds or tasks, as far as they are saved."""
        status = self.manifest.status
        # Without a digest nothing says that a table is of this run; its checkpoint does.
        has_digest = name in (self.manifest.table_digests or ())
        is_whole = status == "done" or (
            status != "running" and has_digest and paths.is_file(self._path(name))
        )
        if is_whole:
            return tables.to_frame(self._read(name, RUN_AGAIN))
        saved = self.folder / checkpoint.FOLDER
        latest = checkpoint.read_latest(saved, self.manifest.identity)
        if latest is None:
            raise DataError(
                f"{self.folder}: the run is {status} and nothing is saved yet; go on with --resume"
            )
        rows = checkpoint.read_rows(saved, latest, name)
        return tables.to_frame(tables.without_unused(name, rows))

    def clients(self) -> pd.DataFrame:
        """Return the clients."""
        hint = RUN_AGAIN
        if self.manifest.status != "done":
            hint = f"the run is {self.manifest.status}, finish it with --resume"
        return tables.to_frame(self._read("clients", hint))

    def _path(self, name: tables.TableName) -> Path:
        return self.folder / f"{name}.parquet"

    def _read(self, name: tables.TableName, hint: str) -> pa.Table:
        """Return a table as the run wrote it."""
        path = self._path(name)
        table = tables.read(path, name, hint=hint)
        written = self.manifest.table_digests
        if written is None:
            self._require_whole()
        elif tables.digest({str(name): table}) != written.get(name):
            raise DataError(
                f"{path}: was changed after the run, its digest is not the one in"
                f" {MANIFEST}; restore the file, or {RUN_AGAIN}"
            )
        return table

    def _require_whole(self) -> None:
        """Check the digest of all tables together, where an older run has none of each."""
        if self.manifest.digest is None:
            return
        names = get_args(tables.TableName)
        of_run = {name: tables.read(self._path(name), name, hint=RUN_AGAIN) for name in names}
        if tables.digest(of_run) != self.manifest.digest:
            raise DataError(
                f"{self.folder}: a table was changed after the run, their digest is not the one in"
                f" {MANIFEST}; restore the files, or {RUN_AGAIN}"
            )
