"""A run that lies in a folder, for reading: its scenario, manifest and tables, and its measures.

A measure is a method: what papers on client selection compare runs by, computed from the tables
when it is asked for. docs/outputs.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pyarrow as pa

from fleetsim.contracts import FloatArray, IntArray, Outcome, Purpose
from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.record import (
    checkpoint,
    cost_to_target,
    ledger,
    run_folder,
    selection_measures,
    tables,
)
from fleetsim.record.comprehensive_score import comprehensive_score
from fleetsim.record.opinions import opinions
from fleetsim.record.run_folder import Manifest

if TYPE_CHECKING:
    import pandas as pd

_AGAIN = "run the scenario again"


@dataclass(frozen=True)
class Run:
    """One run; tables are read when they are first asked for, and then kept.

    A run that is not done (`manifest.status`) has its rounds and tasks as far as they are saved:
    up to the last checkpoint while it runs or after a kill, up to the last row after a fault or
    an interrupt. It has no clients table. Each table is compared with its digest in the manifest
    when it is read, and refused if it was changed after the run.
    """

    folder: Path
    manifest: Manifest

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """The resolved scenario as plain data.

        Raises:
            DataError: scenario.yaml is missing, damaged, or not the one that was run.
        """
        data = run_folder.read_scenario(self.folder)
        if run_folder.scenario_hash(data) != self.manifest.scenario_hash:
            raise DataError(
                f"{self.folder / run_folder.SCENARIO}: was changed after the run began, its hash is"
                f" not the scenario_hash in {run_folder.MANIFEST}; restore the file, or {_AGAIN}"
            )
        return data

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The rounds table, one row per round in their order; null is NaN.

        Raises:
            DataError: the table is missing, damaged, or has other columns.
        """
        return self._rows("rounds")

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """The tasks table, one row per task as they were recorded; null is NaN.

        Raises:
            DataError: the table is missing, damaged, or has other columns.
        """
        return self._rows("tasks")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The clients table, one row per client in the order of their numbers; null is NaN.

        Raises:
            DataError: the table is missing, damaged, or has other columns; the run is not done.
        """
        way_out = _AGAIN
        if self.manifest.status != "done":
            way_out = f"the run is {self.manifest.status}, finish it with --resume"
        return tables.to_frame(self._read("clients", way_out))

    @cached_property
    def recorded_tasks(self) -> pd.DataFrame:
        """Tasks of the rounds that are recorded: those of a round that was cut off are left out.

        Raises:
            DataError: a table is missing, damaged, or has other columns.
        """
        return self.tasks[self.tasks["round"].isin(self.rounds["round"])]

    def rounds_to_accuracy(self, target: float) -> int | None:
        """First round that reached an accuracy (a fraction); None if none did."""
        return cost_to_target.rounds_to_accuracy(self.rounds, target)

    def time_to_accuracy(self, target: float) -> float | None:
        """Virtual seconds until an accuracy (a fraction) was reached; None if it never was."""
        return cost_to_target.time_to_accuracy(self.rounds, target)

    def energy_to_accuracy(self, target: float) -> float | None:
        """Joules of the whole fleet until an accuracy was reached; None if it never was."""
        return cost_to_target.energy_to_accuracy(self.rounds, target)

    @property
    def num_clients(self) -> int:
        """Clients of the fleet, also where there is no clients table yet."""
        return int(self.scenario["fleet"]["size"])

    @property
    def is_synchronous(self) -> bool:
        """Whether a round is one choice, and waits for its slowest client."""
        return bool(self.scenario["server"].get("mode") != "buffered")

    @property
    def horizon_rounds(self) -> int | None:
        """Rounds that were planned: `stop.rounds`, else those that a run took that is done."""
        planned = self.scenario["stop"].get("rounds")
        if planned is not None:
            return int(planned)
        return len(self.rounds) or None if self.manifest.status == "done" else None

    def accuracy_at(self, fraction: float) -> float | None:
        """Accuracy when a share of `horizon_rounds` was over (GPFL, Table II: 15 and 50 %).

        A run that stopped because it was accurate enough keeps its last model (FedGCS, Table 1,
        leaves off at 99 %). None if a run ended or stands before that round, if nothing was
        evaluated up to it, or if nobody knows the horizon.

        Raises:
            ValueError: the share is not in (0, 1].
        """
        accuracy, horizon = self._accuracy, self.horizon_rounds
        if horizon is None:
            return None
        if self.manifest.stop_rule == "accuracy":
            beyond = max(0, horizon - accuracy.size)
            accuracy = np.concatenate([accuracy, np.full(beyond, np.nan)])
        return selection_measures.accuracy_at(accuracy, fraction, horizon)

    def ending(self, num_rounds: int = 10) -> selection_measures.Ending | None:
        """Mean and largest deviation of the accuracy over the last rounds (GPFL, Table II).

        Rounds among them that were not evaluated are left out; None if none was.

        Raises:
            ValueError: `num_rounds` is below 1.
        """
        return selection_measures.ending(self._accuracy, num_rounds)

    def average_waiting_s(self, *, computing_alone: bool = False) -> float | None:
        """Seconds that the fastest client waits for the slowest, mean over rounds (FedGRA, VI-D).

        Over the rounds that two train tasks or more were delivered in; None if there are none, and
        for a buffered server, where nobody waits.

        Args:
            computing_alone: compare how long clients computed, as the paper's text does, and not
                how long their tasks took, download and upload included.
        """
        if not self.is_synchronous:
            return None
        if computing_alone:
            delivered = self._train[self._train["outcome"] == Outcome.DELIVERED]
            waited_s = selection_measures.waiting_s(
                delivered["round"].to_numpy(), delivered["compute_s"].to_numpy()
            )
        else:
            waited_s = self.rounds["waiting_s"].dropna().to_numpy(dtype=np.float64)
        return float(waited_s.mean()) if waited_s.size else None

    def selection_counts(self) -> IntArray:
        """Times that each client was selected [N].

        Source: GPFL, Fig. 5; the goal-directed paper, Fig. 6.
        """
        clients = self._train["client"].to_numpy()
        return np.bincount(clients, minlength=self.num_clients).astype(np.int64)

    def share_seen(self) -> FloatArray:
        """Share of the fleet selected at least once, up to each round (GPFL, Fig. 4) [R].

        With a buffered server a client counts from the round in which its first task ended.
        """
        train = self._train
        return selection_measures.share_seen(
            train["round"].to_numpy(),
            train["client"].to_numpy(),
            len(self.rounds),
            self.num_clients,
        )

    def rounds_to_seen(self, share: float = 1.0) -> int | None:
        """First round after which that share of the fleet was seen (GPFL, VI-C); None: never.

        Raises:
            ValueError: the share is not in (0, 1].
        """
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {share}")
        return selection_measures.rounds_to_share(self.share_seen(), share)

    def selection_ratio(self) -> FloatArray | None:
        """Selected clients of each round over all of the fleet (FedGCS, Fig. 6) [R].

        None for a buffered server, whose rounds are no choices.
        """
        if not self.is_synchronous:
            return None
        return self.rounds["num_selected"].to_numpy(dtype=np.float64) / self.num_clients

    def selected_devices(self) -> pd.DataFrame | None:
        """By kind of device, its share of the clients selected in each round.

        Returns:
            Frame with a column per device and a row per round in which anybody was selected, by
            its number; None for a buffered server.
        """
        if not self.is_synchronous:
            return None
        selected = self._train.groupby(["round", "device"]).size().unstack(fill_value=0)
        shares: pd.DataFrame = selected.div(selected.sum(axis=1), axis=0)
        return shares

    def comprehensive_score(
        self,
        *,
        budget_s: float,
        budget_j: float,
        latency_penalty: float = 2.0,
        energy_penalty: float = 2.0,
    ) -> float | None:
        """Last accuracy, less what time and energy exceed their budgets by (FedGCS, eq. 1).

        The time is that from the run's start to the end of its last round, the energy that of the
        whole fleet, and the budgets are for a run. None if nothing was evaluated.

        Raises:
            ValueError: a budget is not above 0.
        """
        accuracy = self._accuracy[~np.isnan(self._accuracy)][-1:]
        score = comprehensive_score(
            accuracy,
            self.rounds["finished_at_s"].to_numpy(dtype=np.float64)[-1:],
            self.rounds["energy_total_j"].to_numpy(dtype=np.float64)[-1:],
            budget_s=budget_s,
            budget_j=budget_j,
            latency_penalty=latency_penalty,
            energy_penalty=energy_penalty,
        )
        return float(score[0]) if accuracy.size else None

    def selection_scores(
        self,
        *,
        budget_s: float,
        budget_j: float,
        latency_penalty: float = 2.0,
        energy_penalty: float = 2.0,
    ) -> FloatArray | None:
        """The same of every selection (FedGCS, eq. 1): budgets for a round [R].

        Accuracy is that after the round, NaN where not evaluated; the time is the round's without
        `idle_s`, the energy its `energy_j`, probes included. None for a buffered server.

        Raises:
            ValueError: a budget is not above 0.
        """
        if not self.is_synchronous:
            return None
        rounds = self.rounds
        latency_s = rounds["finished_at_s"] - rounds["started_at_s"] - rounds["idle_s"]
        return comprehensive_score(
            self._accuracy,
            latency_s.to_numpy(dtype=np.float64),
            rounds["energy_j"].to_numpy(dtype=np.float64),
            budget_s=budget_s,
            budget_j=budget_j,
            latency_penalty=latency_penalty,
            energy_penalty=energy_penalty,
        )

    def regret(self, best: Run, *, slot_rounds: int = 1) -> FloatArray:
        """Accuracy lost to the best fixed set, added up slot by slot (the goal-directed paper, 12).

        The reward of a slot is the accuracy on the server's test set after its last round, as in
        the paper's section VI; one that was not evaluated in both runs counts nothing. Compared
        are the slots that both runs have.

        Args:
            best: the run with selector `fixed` and the best clients, in the same world.
            slot_rounds: rounds of a slot, 15 in the paper.

        Returns:
            Reg(t) for t = 1 ... T slots, in units of accuracy [T].

        Raises:
            ValueError: the runs met different worlds, a server is buffered, or `slot_rounds` is
                below 1.
        """
        if self.manifest.world_hash != best.manifest.world_hash:
            raise ValueError(f"{best.folder}: met another world than {self.folder}")
        for run in (self, best):
            if not run.is_synchronous:
                raise ValueError(f"{run.folder}: a buffered server has no slots")
        own, others = (
            selection_measures.at_slot_ends(run._accuracy, slot_rounds) for run in (self, best)
        )
        num_slots = min(own.size, others.size)
        return selection_measures.regret(own[:num_slots], others[:num_slots])

    def opinions(self) -> pd.DataFrame:
        """What clients thought of the model after each slot (the goal-directed paper, 3).

        Returns:
            Frame with round (after which the model was judged), client, opinion (its accuracy on
            the client's own data) and belief (in its own worth, NaN unless the selector is one of
            beliefs), ordered by round and client; empty unless the selector asks for opinions.
        """
        return opinions(self.recorded_tasks)

    def ledger(self) -> pd.DataFrame:
        """What every joule was spent on and what became of it, see docs/outputs.md.

        Returns:
            Frame with client, device, purpose, fate, component and energy_j, a row for each
            combination that any energy was spent on. Tasks of a round that was cut off are left
            out.

        Raises:
            DataError: a table is missing or damaged, or the tables contradict each other: joules
                do not add up to what the rounds and the clients' meters say.
        """
        entries = ledger.ledger(self.rounds, self.tasks)
        clients = self.clients if self.manifest.status == "done" else None
        ledger.check_balance(entries, self.rounds, clients, run=str(self.folder))
        return entries

    def energy_by(self, *keys: str) -> pd.Series[float]:
        """Joules added up by one or more of client, device, purpose, fate and component.

        `run.energy_by("fate")` says what was wasted and why, `run.energy_by("device",
        "component")` where each kind of device spent it.

        Raises:
            ValueError: a key is none of these, or given twice.
            DataError: as for `ledger`.
        """
        return ledger.energy_by(self.ledger(), *keys)

    @cached_property
    def _accuracy(self) -> FloatArray:
        """After every round, NaN where not evaluated [R]."""
        return self.rounds["accuracy"].to_numpy(dtype=np.float64)

    @cached_property
    def _train(self) -> pd.DataFrame:
        """Train tasks of the recorded rounds."""
        return self.recorded_tasks[self.recorded_tasks["purpose"] == Purpose.TRAIN]

    def _path(self, name: tables.TableName) -> Path:
        return self.folder / f"{name}.parquet"

    def require_unchanged(self) -> None:
        """Read every table that is there, which checks it; reports and comparisons begin so.

        Raises:
            DataError: a table or scenario.yaml is missing or damaged, or was changed after the run.
        """
        _ = self.scenario, self.rounds, self.tasks
        if self.manifest.status == "done":
            _ = self.clients

    def _read(self, name: tables.TableName, way_out: str) -> pa.Table:
        """A table as the run wrote it.

        Raises:
            DataError: it is missing or damaged, has other columns, or was changed after the run.
        """
        path = self._path(name)
        table = tables.read(path, name, way_out=way_out)
        written = self.manifest.table_digests
        if written is None:
            self._require_whole()
        elif tables.digest({str(name): table}) != written.get(name):
            raise DataError(
                f"{path}: was changed after the run, its digest is not the one in"
                f" {run_folder.MANIFEST}; restore the file, or {_AGAIN}"
            )
        return table

    def _require_whole(self) -> None:
        """Check the digest of all tables together, where an older run has none of each."""
        if self.manifest.digest is not None and self._digest_found != self.manifest.digest:
            raise DataError(
                f"{self.folder}: a table was changed after the run, their digest is not the one in"
                f" {run_folder.MANIFEST}; restore the files, or {_AGAIN}"
            )

    @cached_property
    def _digest_found(self) -> str:
        """What the tables hold now, as one digest."""
        names = get_args(tables.TableName)
        return tables.digest(
            {name: tables.read(self._path(name), name, way_out=_AGAIN) for name in names}
        )

    def _rows(self, name: checkpoint.RowTable) -> pd.DataFrame:
        status = self.manifest.status
        is_whole = status == "done" or (status != "running" and paths.is_file(self._path(name)))
        if is_whole:
            return tables.to_frame(self._read(name, _AGAIN))
        saved = self.folder / checkpoint.FOLDER
        latest = checkpoint.read_latest(saved)
        if latest is None:
            raise DataError(
                f"{self.folder}: the run is {status} and nothing is saved yet; go on with --resume"
            )
        rows = checkpoint.read_rows(saved, latest, name)
        return tables.to_frame(tables.without_unused(name, rows))


def open_run(folder: str | Path) -> Run:
    """Open a run folder.

    Raises:
        DataError: it is not a run folder, or its manifest is damaged.
    """
    folder = Path(folder)
    return Run(folder, run_folder.read_manifest(folder))
