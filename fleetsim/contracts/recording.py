"""Rows of a run's tables, facts for its trackers, and Protocols of recorder and tracker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts.work import ClientRows, FloatArray, IntArray, Outcome, Purpose, State


class TaskRow(NamedTuple):
    """One row of tasks.parquet; docs/outputs.md defines every column."""

    task: int
    round: int
    client: int
    device: str
    purpose: Purpose
    dispatched_at_s: float
    download_s: float
    compute_s: float
    upload_s: float
    finished_at_s: float
    outcome: Outcome
    energy_compute_j: float
    energy_receive_j: float
    energy_transmit_j: float
    energy_tail_j: float
    energy_idle_j: float
    download_byte: int
    upload_byte: int
    train_flop: float
    num_samples: int
    train_loss: float | None
    staleness: int
    refused: str | None = None
    completed_fraction: float | None = None
    num_pauses: int = 0
    paused_s: float = 0.0
    opinion: float | None = None
    """Opinion of a probe; this and the next are None except for selectors that use them."""
    belief: float | None = None
    energy_enlisted_idle_j: float | None = None
    """Joules of waiting, enlisted, after its end; None where that is not charged."""
    train_metrics: str | None = None
    """Numbers of the client's own training, as a JSON object; None if it told none."""
    frozen_download_byte: int | None = None
    """Bytes of frozen weights downloaded, beside `download_byte`; None if the model has none."""

    @property
    def energy_j(self) -> float:
        """Joules of the task, all components."""
        return (
            self.energy_compute_j
            + self.energy_receive_j
            + self.energy_transmit_j
            + self.energy_tail_j
            + self.energy_idle_j
            + (self.energy_enlisted_idle_j or 0.0)
        )


class RoundRow(NamedTuple):
    """One row of rounds.parquet; docs/outputs.md defines every column."""

    round: int
    started_at_s: float
    """Moment at which the server began to look for clients."""
    finished_at_s: float
    accuracy: float | None
    loss: float | None
    num_eligible: int
    num_probed: int
    num_selected: int
    num_delivered: int
    num_late: int
    num_lost: int
    num_cancelled: int
    aggregated: bool
    idle_s: float
    """Seconds of waiting for enough eligible clients."""
    probe_s: float
    waiting_s: float | None
    """Duration of the slowest minus the fastest delivered train task; None with fewer than two."""
    energy_j: float
    energy_probe_j: float
    energy_wasted_j: float
    energy_total_j: float
    num_refused: int = 0
    num_off: int | None = None
    """Number of phones with an empty battery; this and the next are None unless batteries live."""
    battery_low_fraction: float | None = None
    """Level below which a tenth of the batteries are."""
    battery_median_fraction: float | None = None
    battery_high_fraction: float | None = None
    """Level above which a tenth of the batteries are."""
    energy_enlisted_idle_j: float | None = None
    """Part of `energy_j` of waiting, enlisted; None where that is not charged."""
    validation_accuracy: float | None = None
    """Accuracy on the samples kept for selectors; None if none are kept."""
    selector_diagnostics: str | None = None
    """Numbers of the selector on the round, as a JSON object; None if it told none."""
    epsilon: float | None = None
    """Privacy that all rounds so far have spent; None without differential privacy."""


@dataclass(frozen=True, slots=True)
class ClientColumns:
    """Columns of clients.parquet, of all clients or of some of them [n].

    An optional column is None for all of them, or for none, and holds a value of a client at least.
    """

    client: IntArray
    device: tuple[str, ...]
    num_samples: IntArray
    num_selected: IntArray
    num_delivered: IntArray
    energy_compute_j: FloatArray
    energy_receive_j: FloatArray
    energy_transmit_j: FloatArray
    energy_tail_j: FloatArray
    energy_idle_j: FloatArray
    battery_fraction: FloatArray
    """Battery level; NaN for a mains-powered client, null in the table. So are the following, which
    a table leaves out if no client has a battery."""
    battery_capacity_j: FloatArray | None = None
    battery_initial_j: FloatArray | None = None
    battery_charged_j: FloatArray | None = None
    battery_owner_j: FloatArray | None = None
    battery_loss_j: FloatArray | None = None
    battery_final_j: FloatArray | None = None
    energy_enlisted_idle_j: FloatArray | None = None
    """Joules of waiting, enlisted; None where they are not charged."""
    usage_record: tuple[str | None, ...] | None = None
    """Record of the usage trace that a client follows; None, in it or as a whole: none."""
    usage_shift_s: FloatArray | None = None
    """Seconds by which a client is ahead of that record; NaN, null in the table: none."""
    network_record: tuple[str | None, ...] | None = None
    """Record of the network trace that a client follows, as `usage_record`."""
    network_shift_s: FloatArray | None = None
    """Seconds by which a client is ahead of that record, as `usage_shift_s`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run, for its display."""

    round: int
    now_s: float
    accuracy: float | None
    energy_total_j: float
    num_delivered: int
    num_selected: int
    epsilon: float | None = None
    num_workers: int | None = None
    """Workers of a Dask cluster that train; None: processes of this host do."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """Reason for which a run ended."""

    rule: str
    """Name of the rule: rounds, accuracy, time_s, energy_j, no_clients or
    no_updates."""
    text: str
    """Explanation in one sentence."""


class Recorder(Protocol):
    """Destination of rows, which the engine only writes."""

    def task(self, row: TaskRow) -> None:
        """Keep the row of a finished task."""

    def round(self, row: RoundRow) -> None:
        """Keep the row of a finished round."""

    def checkpoint(self, state: State, changed: ClientRows) -> None:
        """Receive the state after every round; keep it when a checkpoint is due.

        Args:
            state: everything but the clients.
            changed: clients that have changed since the previous call.
        """


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """Facts of a run when it begins, or when it continues."""

    name: str
    """Name of the scenario."""
    folder: Path
    """Run folder; a tracker writes nothing into it."""
    scenario: Mapping[str, Any]
    """Resolved scenario as plain data, with every default."""
    seed: int
    scenario_hash: str
    versions: Mapping[str, str]
    """Versions of fleetsim, Python, torch and the like."""
    identity: str
    """16 hexadecimal digits that tell this run from others and stay the same when it continues:
    of the scenario and of the path of its folder."""
    num_rounds: int
    """Rounds that are saved; the next that is told is the one after. 0: the run begins."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """End of a run, or of this part of it."""

    folder: Path
    """Run folder; the tables of a run that is done are in it."""
    status: Literal["done", "interrupted", "failed"]
    """`interrupted` and `failed` runs can be continued."""
    text: str
    """Reason in one sentence."""
    digest: str | None
    """SHA-256 of the tables of a run that is done."""


class Tracker(Protocol):
    """Follower of a run that tells somebody else about it, such as TensorBoard.

    A run calls `begin`, then `round` after every round, then `end`; the last also if the run is
    interrupted or fails. Nothing that a tracker does changes the run: it gets values alone, and its
    files belong elsewhere than in the run folder. The next run calls `begin` anew.

    A run that is continued calls `begin` with the rounds that are saved (`TrackedRun.num_rounds`).
    Rounds after them, which an earlier process may have told before it was killed, are told again
    with the same values. So a round replaces what was known of its number.

    An exception of a tracker stops the run, which is saved and can be continued; a tracker that
    would rather miss rounds catches its own exceptions.
    """

    def begin(self, run: TrackedRun) -> None:
        """Take the facts of a run that begins or continues, before its next round."""

    def round(self, row: RoundRow) -> None:
        """Take the row of a round, with the columns of rounds.parquet; docs/outputs.md has them."""

    def end(self, run: EndedRun) -> None:
        """Take the end of the run, after its tables are written, and close what is open."""


def latest_rows(parts: Sequence[ClientRows]) -> ClientRows:
    """Return one row of each client in the parts: that of the last part that holds it.

    >>> earlier = {"client": np.array([1, 4]), "energy_j": np.array([10.0, 40.0])}
    >>> later = {"client": np.array([0, 4]), "energy_j": np.array([5.0, 45.0])}
    >>> latest_rows([earlier, later])["energy_j"].tolist()
    [5.0, 10.0, 45.0]
    """
    rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    backwards = rows["client"][::-1]
    last = backwards.size - 1 - np.unique(backwards, return_index=True)[1]
    return {key: column[last] for key, column in rows.items()}


def joined(parts: Mapping[str, Mapping[str, NDArray[np.generic]]]) -> State:
    """Return one state of all parts: the keys of each as `NAME/KEY`."""
    return {f"{name}/{key}": value for name, part in parts.items() for key, value in part.items()}


def part_of(state: State, name: str) -> State:
    """Return the part of this name, empty if the state has none.

    >>> part_of({"online/bias": np.ones(1), "target/bias": np.zeros(1)}, "online")
    {'bias': array([1.])}
    """
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }


def with_clients(state: State, rows: ClientRows) -> State:
    """Return a whole state: keys of `rows` become `clients/KEY`."""
    return state | joined({"clients": rows})
