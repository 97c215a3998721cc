"""A run folder for reading: its scenario, manifest and tables, and its measures.

The measures by which papers on client selection compare runs are methods, computed from the tables
on each call. docs/measures.md defines them and lists the choices that the papers leave open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetsim.contracts import FloatArray, IntArray, Outcome, Purpose
from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.record import run_folder, run_views, saved_content
from fleetsim.record.manifest import MANIFEST, Manifest, read_manifest
from fleetsim.record.measures import cost_to_target, ledger, selection_measures
from fleetsim.record.saved_content import RUN_AGAIN, recorded
from fleetsim.schema import strict_yaml
from fleetsim.schema.overrides import scenario_hash

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Run:
    """One run; each table is read at first use, and then kept.

    A run that is not done (`manifest.status`) has rounds and tasks as far as they are saved: up to
    the last checkpoint while it runs or after a kill, up to the last row after a fault or an
    interrupt. It has no clients table. Each table is compared with its digest in the manifest.
    Whatever reads a table raises a `DataError` if it is missing, damaged, has other columns, or was
    changed after the run.
    """

    folder: Path
    manifest: Manifest

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """Resolved scenario as plain data.

        Raises:
            DataError: scenario.yaml is missing, damaged, or not the one that was run; or a key that
                readers use is of another type.
        """
        document = strict_yaml.read(self.folder / run_folder.SCENARIO, DataError)
        try:
            is_that_of_the_run = scenario_hash(document.data) == self.manifest.scenario_hash
        except ValueError:  # NaN or infinity, of which no scenario has any
            is_that_of_the_run = False
        if not is_that_of_the_run:
            raise DataError(
                f"{self.folder / run_folder.SCENARIO}: was changed after the run began, its hash is"
                f" not the scenario_hash in {MANIFEST}; restore the file, or {RUN_AGAIN}"
            )
        return recorded(document, RUN_AGAIN)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """Rounds table, one row per round in order; null is NaN."""
        return saved_content.rows(self.folder, self.manifest, "rounds")

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """Tasks table, one row per task in the order of recording; null is NaN."""
        return saved_content.rows(self.folder, self.manifest, "tasks")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """Clients table, one row per client in the order of their numbers; null is NaN."""
        return saved_content.clients(self.folder, self.manifest)

    @cached_property
    def recorded_tasks(self) -> pd.DataFrame:
        """Tasks of the recorded rounds, without those of a round that was cut off."""
        return self.tasks[self.tasks["round"].isin(self.rounds["round"])]

    def rounds_to_accuracy(self, target: float) -> int | None:
        """Return the first round that reached an accuracy (a fraction); None if none did."""
        return cost_to_target.rounds_to_accuracy(self.rounds, target)

    def time_to_accuracy(self, target: float) -> float | None:
        """Return virtual seconds until an accuracy (a fraction) was reached; None if never."""
        return cost_to_target.time_to_accuracy(self.rounds, target)

    def energy_to_accuracy(self, target: float) -> float | None:
        """Return joules of the whole fleet until an accuracy was reached; None if never."""
        return cost_to_target.energy_to_accuracy(self.rounds, target)

    @property
    def epsilon(self) -> float | None:
        """Differential privacy that the run has spent; None if it keeps none."""
        spent = self.rounds.get("epsilon")
        if spent is None or spent.empty:
            return None
        if not self.scenario["server"].get("privacy"):
            raise DataError(
                f"{self.folder / run_folder.SCENARIO}: server.privacy is not set, but the rounds"
                f" have an epsilon; restore the file, or {RUN_AGAIN}"
            )
        return float(spent.iloc[-1])

    @property
    def num_clients(self) -> int:
        """Number of clients of the fleet, also without a clients table."""
        return int(self.scenario["fleet"]["size"])

    @property
    def virtual_s(self) -> float:
        """Virtual seconds of the run.

        The clock may go on after the last round, waiting for clients that never come. The manifest
        of a run that was killed does not say so.
        """
        last_s = float(self.rounds["finished_at_s"].iloc[-1]) if len(self.rounds) else 0.0
        return max(last_s, self.manifest.virtual_s)

    @property
    def is_synchronous(self) -> bool:
        """True if a round is one selection and waits for its slowest client."""
        return bool(self.scenario["server"].get("mode") != "buffered")

    @property
    def horizon_rounds(self) -> int | None:
        """Planned rounds: `stop.rounds`, else the rounds of a run that is done."""
        planned = self.scenario["stop"].get("rounds")
        if planned is not None:
            return int(planned)
        return len(self.rounds) or None if self.manifest.status == "done" else None

    def accuracy_at(self, fraction: float) -> float | None:
        """Return the accuracy after a share of `horizon_rounds` (GPFL, Table II: 15 and 50 %).

        None if a run has not reached that round, if nothing was evaluated up to it, or if the
        horizon is unknown.

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
        """Return mean and largest deviation of the accuracy over the last rounds (GPFL, Table II).

        None if none of them was evaluated.

        Raises:
            ValueError: `num_rounds` is below 1.
        """
        return selection_measures.ending(self._accuracy, num_rounds)

    def average_waiting_s(self, *, computing_alone: bool = False) -> float | None:
        """Return seconds that the fastest client waits for the slowest (FedGRA, VI-D).

        None without a round of two delivered train tasks, and for a buffered server. With
        `computing_alone` computing times are compared, and not the durations of tasks.
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
        """Return the number of times that each client was selected [N].

        Source: GPFL, Fig. 5; the goal-directed paper, Fig. 6.
        """
        clients = self._train["client"].to_numpy()
        return np.bincount(clients, minlength=self.num_clients).astype(np.int64)

    def share_seen(self) -> FloatArray:
        """Return the share of the fleet selected at least once, by round (GPFL, Fig. 4) [R]."""
        train = self._train
        return selection_measures.share_seen(
            train["round"].to_numpy(),
            train["client"].to_numpy(),
            len(self.rounds),
            self.num_clients,
        )

    def rounds_to_seen(self, share: float = 1.0) -> int | None:
        """Return the first round after which a share of the fleet was selected (GPFL, VI-C).

        None if that never happened.

        Raises:
            ValueError: the share is not in (0, 1].
        """
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {share}")
        return selection_measures.rounds_to_share(self.share_seen(), share)

    def selection_ratio(self) -> FloatArray | None:
        """Return the selected share of the fleet in each round (FedGCS, Fig. 6) [R].

        None for a buffered server.
        """
        if not self.is_synchronous:
            return None
        return self.rounds["num_selected"].to_numpy(dtype=np.float64) / self.num_clients

    def selected_devices(self) -> pd.DataFrame | None:
        """Return the share of each kind of device (columns) among the selected clients, by round.

        None for a buffered server.
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
        """Return the last accuracy, reduced by time and energy over budget (FedGCS, eq. 1).

        Budgets are for the run. None if nothing was evaluated.

        Raises:
            ValueError: a budget is not above 0.
        """
        accuracy = self._accuracy[~np.isnan(self._accuracy)][-1:]
        score = selection_measures.comprehensive_score(
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
        """Return the same score for every selection, with budgets for a round [R].

        NaN where not evaluated; None for a buffered server.

        Raises:
            ValueError: a budget is not above 0.
        """
        if not self.is_synchronous:
            return None
        rounds = self.rounds
        latency_s = rounds["finished_at_s"] - rounds["started_at_s"] - rounds["idle_s"]
        return selection_measures.comprehensive_score(
            self._accuracy,
            latency_s.to_numpy(dtype=np.float64),
            rounds["energy_j"].to_numpy(dtype=np.float64),
            budget_s=budget_s,
            budget_j=budget_j,
            latency_penalty=latency_penalty,
            energy_penalty=energy_penalty,
        )

    def regret(self, best: Run, *, slot_rounds: int = 1) -> FloatArray:
        """Return the accuracy lost to the best fixed set, summed over slots up to each [T].

        `best` is a run with selector `fixed` and the best clients, in the same world (Tong et al.,
        equation 12).

        Raises:
            ValueError: the runs have different worlds, a server is buffered, or `slot_rounds` is
                below 1.
        """
        if self.manifest.world_hash != best.manifest.world_hash:
            raise ValueError(f"{best.folder}: has another world than {self.folder}")
        for run in (self, best):
            if not run.is_synchronous:
                raise ValueError(f"{run.folder}: a buffered server has no slots")
        accuracy, best_accuracy = (
            selection_measures.at_slot_ends(run._accuracy, slot_rounds) for run in (self, best)
        )
        num_slots = min(accuracy.size, best_accuracy.size)
        return selection_measures.regret(accuracy[:num_slots], best_accuracy[:num_slots])

    def opinions(self) -> pd.DataFrame:
        """Return the accuracy that clients measured after each slot (Tong et al., equation 3)."""
        return selection_measures.opinions(self.recorded_tasks)

    def diagnostics(self) -> pd.DataFrame:
        """Return the numbers that the selector reported on its rounds, see docs/outputs.md.

        Raises:
            DataError: a text of the rounds table is none of such numbers.
        """
        return selection_measures.diagnostics(self.rounds, run=str(self.folder))

    def ledger(self) -> pd.DataFrame:
        """Return the energy ledger, see docs/outputs.md.

        Raises:
            DataError: the tables contradict each other: joules do not add up to what the rounds and
                the clients' meters say.
        """
        entries = ledger.ledger(self.rounds, self.tasks)
        clients = self.clients if self.manifest.status == "done" else None
        ledger.check_balance(entries, self.rounds, clients, run=str(self.folder))
        return entries

    def energy_by(self, *keys: str) -> pd.Series[float]:
        """Return joules summed by some of client, device, purpose, energy_outcome and component.

        `run.energy_by("energy_outcome")` shows what was wasted and why, `run.energy_by("device",
        "component")` the components of each kind of device.

        Raises:
            ValueError: a key is none of these, or given twice.
            DataError: as for `ledger`.
        """
        return ledger.energy_by(self.ledger(), *keys)

    def figure(self, name: str) -> Figure:
        """Return a figure of the report by its stem, such as `accuracy-time`; a notebook shows it.

        docs/reports.md lists the stems.

        Raises:
            DataError: the run has no such figure, or a table is missing or damaged.
        """
        drawn: Figure = run_views.views().figure(self, name)
        return drawn

    def __repr__(self) -> str:
        state = f"{self.manifest.status}, {self.manifest.rounds} rounds"
        return f"<Run {self.manifest.name} in {self.folder}: {state}>"

    def _repr_html_(self) -> str:
        """Return the summary that a notebook shows."""
        shown: str = run_views.views().html(self)
        return shown

    @cached_property
    def _accuracy(self) -> FloatArray:
        """Accuracy after every round, NaN where not evaluated [R]."""
        return self.rounds["accuracy"].to_numpy(dtype=np.float64)

    @cached_property
    def _train(self) -> pd.DataFrame:
        """Train tasks of the recorded rounds."""
        return self.recorded_tasks[self.recorded_tasks["purpose"] == Purpose.TRAIN]

    def require_unchanged(self) -> None:
        """Read and so verify every table; reports and comparisons begin with this."""
        _ = self.scenario, self.rounds, self.tasks
        if self.manifest.status == "done":
            _ = self.clients


def open_run(folder: str | Path) -> Run:
    """Open a run folder.

    Raises:
        DataError: it is not a run folder, or its manifest is damaged.
    """
    folder = paths.local(folder)
    return Run(folder, read_manifest(folder))
