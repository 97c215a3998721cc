"""Tables of a run as it wrote them, compared with the digests in its manifest.

An unfinished run has its rounds and tasks in its last checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.record import checkpoint, tables
from fleetsim.record.manifest import MANIFEST, Manifest

if TYPE_CHECKING:
    import pandas as pd

RUN_AGAIN = "run the scenario again"


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
        found = {name: tables.read(self._path(name), name, hint=RUN_AGAIN) for name in names}
        if tables.digest(found) != self.manifest.digest:
            raise DataError(
                f"{self.folder}: a table was changed after the run, their digest is not the one in"
                f" {MANIFEST}; restore the files, or {RUN_AGAIN}"
            )
