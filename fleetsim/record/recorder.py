"""The recorder of a run: rows, checkpoints, and the tables at the end.

At any moment the last checkpoint is durable; later rows are in memory. `flush` saves them on a
fault or an interrupt, and `finish` writes all rows as tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

# pyarrow imports it at the first conversion. In the middle of a run its objects would then be left
# to the garbage collector, which took 8 ms a round of 1,000 clients.
import pandas as pd  # noqa: F401
import pyarrow as pa

from fleetsim.contracts import ClientColumns, ClientRows, RoundRow, State, TaskRow, latest_rows
from fleetsim.record import atomic_files, checkpoint, digests, tables
from fleetsim.record.checkpoint import FOLDER, ROW_TABLES, Latest, RowTable
from fleetsim.record.identity import RunIdentity

Row = TypeVar("Row", TaskRow, RoundRow, ClientRows)


@dataclass(frozen=True, slots=True)
class _Rows(Generic[Row]):
    """Rows in memory; those before `first_row` are in a checkpoint."""

    first_row: int
    rows: list[Row]

    @property
    def end(self) -> int:
        """Number of rows recorded in the run."""
        return self.first_row + len(self.rows)

    def between(self, first_row: int, end: int) -> list[Row]:
        """Return rows by their number in the run."""
        return self.rows[first_row - self.first_row : end - self.first_row]


@dataclass(frozen=True, slots=True)
class _Finished:
    """The run as of its last finished round."""

    state: State
    num_rounds: int
    num_tasks: int
    num_changes: int
    """Reports of changed clients, in this process."""


class RunRecorder:
    """Recorder of rows and states in a run folder; made by `resume`.

    The engine calls `task` and `round` for every row and `checkpoint` after every round. Then
    `finish` is called once, or `flush` after a fault or an interrupt. Fields change by single
    assignments, so `flush` can save the run after an interrupt between any two steps.
    """

    def __init__(
        self, folder: Path, *, run: RunIdentity, every_rounds: int, latest: Latest | None
    ) -> None:
        self._folder = folder
        self._checkpoint_folder = folder / FOLDER
        self._run = run
        self._every_rounds = every_rounds
        self._latest = latest
        self._rounds: _Rows[RoundRow] = _Rows(self._num_saved("rounds"), [])
        self._tasks: _Rows[TaskRow] = _Rows(self._num_saved("tasks"), [])
        self._changes: _Rows[ClientRows] = _Rows(0, [])
        """Reports of changed clients that are in no checkpoint."""
        self._finished: _Finished | None = None
        self.table_digests: dict[str, str] | None = None
        """SHA-256 of each table as `flush` or `finish` wrote it; None before."""

    @classmethod
    def resume(
        cls, folder: Path, *, run: RunIdentity, every_rounds: int
    ) -> tuple[RunRecorder, State | None]:
        """Return the recorder of a run's folder, and the state from which the run goes on, if any.

        Files that a kill left behind are removed. Rounds after the state are simulated again.
        """
        latest = checkpoint.read_latest(folder / FOLDER, run)
        recorder = cls(folder, run=run, every_rounds=every_rounds, latest=latest)
        atomic_files.make_inner_folder(recorder._checkpoint_folder, hint=atomic_files.GO_ON)
        state = None
        if latest is not None:
            checkpoint.check(recorder._checkpoint_folder, latest)
            state = checkpoint.read_state(recorder._checkpoint_folder, latest)
        recorder._sweep()
        return recorder, state

    def task(self, row: TaskRow) -> None:
        """Keep the row of a finished task."""
        self._tasks.rows.append(row)

    def round(self, row: RoundRow) -> None:
        """Keep the row of a finished round."""
        self._rounds.rows.append(row)

    def checkpoint(self, state: State, changed: ClientRows) -> None:
        """Keep the state after the round just recorded; save a checkpoint when one is due.

        `changed` are the rows of the clients that changed since the previous call. Arrays are
        copied if writeable, so that the caller may change its arrays.
        """
        for key, array in [*state.items(), *changed.items()]:
            if array.dtype.hasobject:
                raise ValueError(f"state {key!r}: an array of objects cannot be saved")
        if changed["client"].size:
            self._changes.rows.append(_copied(changed))
        self._finished = _Finished(
            state=_copied(state),
            num_rounds=self._rounds.end,
            num_tasks=self._tasks.end,
            num_changes=self._changes.end,
        )
        if self._rounds.end - self._num_saved("rounds") >= self._every_rounds:
            self._save(self._finished)

    def flush(self) -> None:
        """Save everything after a fault or an interrupt; may be called again if interrupted.

        The last finished round becomes a checkpoint; tables have the rows of the unfinished one.
        """
        finished, latest = self._finished, self._latest
        if finished is not None and (latest is None or finished.num_rounds > latest.num_rounds):
            self._save(finished)
        self._write_tables({name: self._parts(name) for name in ROW_TABLES})

    def finish(self, clients: Iterable[ClientColumns]) -> str:
        """Write the tables of a run that has ended, and return their digest.

        `clients` are all clients, some at a time.
        """
        rows: dict[tables.TableName, tables.Parts] = {}
        rows |= {name: self._parts(name) for name in ROW_TABLES}
        digest = self._write_tables(rows | {"clients": tables.client_parts(clients)})
        self._sweep()
        return digest

    def _write_tables(self, written: Mapping[tables.TableName, tables.Parts]) -> str:
        """Write tables and return the digest of all; `table_digests` gets that of each.

        Neither takes the memory of a whole table: files are written some rows at a time, and read
        again a column at a time, because digests are of columns.
        """
        files = {str(name): self._folder / f"{name}.parquet" for name in written}
        for name, parts in written.items():
            tables.write(files[name], parts)
        of_all, self.table_digests = digests.file_digests(files)
        return of_all

    def _num_saved(self, name: RowTable) -> int:
        return self._latest.num_rows(name) if self._latest else 0

    def _new_rows(self, name: RowTable, end: int) -> pa.Table:
        """Return rows that no checkpoint holds, up to row number `end`."""
        recorded = self._rounds if name == "rounds" else self._tasks
        return tables.from_rows(name, recorded.between(self._num_saved(name), end))

    def _parts(self, name: RowTable) -> tables.Parts:
        """Yield all rows so far, without optional columns that hold only null."""
        segments = self._latest.segments(name) if self._latest else ()
        saved = partial(checkpoint.row_parts, self._checkpoint_folder, name, segments)
        end = self._rounds.end if name == "rounds" else self._tasks.end
        new = self._new_rows(name, end)
        unused = tables.unused(name, chain(saved(tables.OPTIONAL[name]), [new]))
        for part in chain(saved(), [new]):
            yield part.drop_columns(unused)

    def _save(self, finished: _Finished) -> None:
        previous = self._latest
        changes = self._changes.between(self._changes.first_row, finished.num_changes)
        latest = checkpoint.save(
            self._checkpoint_folder,
            previous,
            run=self._run,
            state=finished.state,
            new_rows={
                "rounds": self._new_rows("rounds", finished.num_rounds),
                "tasks": self._new_rows("tasks", finished.num_tasks),
            },
            changed=latest_rows(changes) if changes else None,
        )
        self._latest = latest
        self._rounds = _without(self._rounds, finished.num_rounds)
        self._tasks = _without(self._tasks, finished.num_tasks)
        self._changes = _without(self._changes, finished.num_changes)
        if previous is not None:
            checkpoint.prune(self._checkpoint_folder, previous, latest)

    def _sweep(self) -> None:
        atomic_files.remove_temporaries(self._folder)
        checkpoint.sweep(self._checkpoint_folder, self._latest)


def _copied(arrays: State) -> State:
    """Return arrays that no other code writes to."""
    return {key: np.array(a) if a.flags.writeable else a for key, a in arrays.items()}


def _without(recorded: _Rows[Row], end: int) -> _Rows[Row]:
    """Return the rows from number `end` on."""
    return _Rows(end, recorded.between(end, recorded.end))
