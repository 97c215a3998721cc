"""Rows of a run's tables, facts for its trackers, and Protocols of recorder and tracker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts.work import ClientRows, FloatArray, IntArray, Outcome, Purpose, State


class TaskRow(NamedTuple):
    """One row of tasks.parquet. Null: when a value is None."""

    task: int
    """Number of the task, in the order of dispatch."""
    round: int
    """Round in which it was dispatched; with a buffered server: in which it ended."""
    client: int
    """Number of the client, from 0."""
    device: str
    """Device profile of the client."""
    purpose: Purpose
    """`train`, `probe` or `evaluate`."""
    dispatched_at_s: float
    """Moment at which the server dispatched it."""
    download_s: float
    """Time spent receiving; 0 if nothing had to be received."""
    compute_s: float
    """Time spent computing; 0 if it did not begin."""
    upload_s: float
    """Time spent transmitting; 0 if it did not begin."""
    finished_at_s: float
    """Moment at which its outcome was final."""
    outcome: Outcome
    """Its end in one word."""
    energy_compute_j: float
    """Energy of computing, above idle."""
    energy_receive_j: float
    """Energy of receiving, above idle."""
    energy_transmit_j: float
    """Energy of transmitting, above idle."""
    energy_tail_j: float
    """Energy of the radio's tails that this task's transfers caused."""
    energy_idle_j: float
    """Idle power from dispatch to the end of the task, without pauses."""
    download_byte: int
    """Whole bytes received (bits / 8, rounded down); counted again where a transfer restarted."""
    upload_byte: int
    """Whole bytes transmitted (bits / 8, rounded down); counted again where a transfer
    restarted."""
    train_flop: float
    """Floating-point operations done, 2 per multiply-add; for an interrupted computation the part
    done."""
    num_samples: int
    """Local samples of its computation, counted once for all epochs or steps, also if it stopped
    early; 0 if it never began."""
    train_loss: float | None
    """Mean loss over the done part of the last local epoch (with `task.local.steps`: of the last,
    maybe partial, pass); NaN or infinite if training has diverged. Null: not a train task, not
    delivered, or a run without training."""
    staleness: int
    """Global models made between dispatch and use of the update; 0 in synchronous mode."""
    refused: str | None = None
    """Reason for which the server refused the update. Null: not refused."""
    completed_fraction: float | None = None
    """Whole local steps in the update, divided by the requested steps; below 1 only for an
    interrupted task with a partial update. Null: not a train task, or not delivered."""
    num_pauses: int = 0
    """Number of pauses until the device was available again."""
    paused_s: float = 0.0
    """Total time of pauses; with the three times above the sum is `finished_at_s` -
    `dispatched_at_s`."""
    opinion: float | None = None
    """Accuracy of the global model on the client's own data, or on its held-out samples. Null: not
    a probe that asks for an opinion, or not delivered."""
    belief: float | None = None
    """Client's estimate, from 0 to 1, that it is worth selecting, after messages between
    neighbours. Null: not an exchange of beliefs, or not delivered."""
    energy_enlisted_idle_j: float | None = None
    """Idle power from the end of the task until the server released the client; 0 for a task that
    was not delivered. Null: waiting is not charged."""
    train_metrics: str | None = None
    """Numbers that the algorithm of the clients tells of the task, as a JSON object, such as
    Ditto's `personal_loss` and `personal_accuracy`. Null: not a train task, not delivered, or no
    numbers were told."""
    frozen_download_byte: int | None = None
    """Whole bytes of frozen weights received, beside `download_byte`; counted again where a
    transfer restarted. Null: without frozen weights."""

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
    """One row of rounds.parquet. Null: when a value is None."""

    round: int
    """Number of the round, from 1."""
    started_at_s: float
    """Moment at which the server began to look for clients."""
    finished_at_s: float
    """Moment at which the server closed the round; aggregation and evaluation take no virtual
    time."""
    accuracy: float | None
    """Accuracy of the global model after the round, on the server's test set. Null: not evaluated
    in this round, or a run without training."""
    loss: float | None
    """Mean loss of the global model after the round, on the server's test set; NaN or infinite if
    training has diverged. Null: where `accuracy` is."""
    num_eligible: int
    """Clients that were eligible and idle when the search ended, before probing."""
    num_probed: int
    """Probe tasks of this round, whatever their outcome."""
    num_selected: int
    """Train tasks dispatched: delivered + late + lost + cancelled + refused."""
    num_delivered: int
    """Train tasks with outcome `delivered`."""
    num_late: int
    """Train tasks with outcome `late` or `stale`."""
    num_lost: int
    """Train tasks with outcome `offline`, `battery`, `link`, `crashed` or `memory`."""
    num_cancelled: int
    """Train tasks with outcome `cancelled`."""
    aggregated: bool
    """True: there were enough updates for a new global model; false: it did not change."""
    idle_s: float
    """Part of the round spent waiting for enough eligible clients; 0 for a buffered server."""
    probe_s: float
    """Part of the round spent probing."""
    waiting_s: float | None
    """Longest minus shortest duration of the delivered train tasks. Null: fewer than two
    delivered."""
    energy_j: float
    """Energy of all tasks of this round, whatever their purpose and outcome."""
    energy_probe_j: float
    """Part of `energy_j` that went into probe tasks."""
    energy_wasted_j: float
    """Part of `energy_j` that went into tasks that were not delivered."""
    energy_total_j: float
    """Sum of `energy_j` up to and with this round."""
    num_refused: int = 0
    """Train tasks with outcome `refused`."""
    num_off: int | None = None
    """Phones that ran empty and are not charged to `restart_fraction` yet, when the round was
    closed. Null: no live batteries."""
    battery_low_fraction: float | None = None
    """10th percentile of battery levels when the round is closed; a client at work counts as if it
    had no task. Null: no live batteries."""
    battery_median_fraction: float | None = None
    """Median of the same levels. Null: no live batteries."""
    battery_high_fraction: float | None = None
    """90th percentile of the same levels. Null: no live batteries."""
    energy_enlisted_idle_j: float | None = None
    """Part of `energy_j` that enlisted clients drew until the server released them. Null: waiting
    is not charged."""
    validation_accuracy: float | None = None
    """Accuracy of the global model after the round on the samples that the server keeps for
    selectors. Null: `evaluate.validation_fraction` is 0, or a run without training."""
    selector_diagnostics: str | None = None
    """Numbers that the selector told about the round, as a JSON object. Null: it told none."""
    epsilon: float | None = None
    """Differential privacy that all rounds so far have spent. Null: no `server.privacy`, or a run
    without training."""


@dataclass(frozen=True, slots=True)
class ClientColumns:
    """Columns of clients.parquet, of all clients or of some of them [n].

    An optional column is None for all of them, or for none, and holds a value of a client at least.
    Null: when a number is NaN, or a name None.
    """

    client: IntArray
    """Number of the client, from 0."""
    device: tuple[str, ...]
    """Its device profile."""
    num_samples: IntArray
    """Training samples that it holds."""
    num_selected: IntArray
    """Train tasks dispatched to it."""
    num_delivered: IntArray
    """Train tasks that it delivered."""
    energy_compute_j: FloatArray
    """Energy of computing over the run, above idle, all tasks."""
    energy_receive_j: FloatArray
    """Energy of receiving over the run."""
    energy_transmit_j: FloatArray
    """Energy of transmitting over the run."""
    energy_tail_j: FloatArray
    """Energy of its radio's tails over the run."""
    energy_idle_j: FloatArray
    """Idle energy during its tasks over the run."""
    battery_fraction: FloatArray
    """Battery level at the end of the run. Null: runs on mains."""
    battery_capacity_j: FloatArray | None = None
    """Capacity of the full battery at its age. Null: runs on mains."""
    battery_initial_j: FloatArray | None = None
    """Energy in the battery at time 0. Null: runs on mains."""
    battery_charged_j: FloatArray | None = None
    """Energy from the charger over the run, stored or used at once. Null: runs on mains."""
    battery_owner_j: FloatArray | None = None
    """Energy that the owner used over the run; in no energy column. Null: runs on mains."""
    battery_loss_j: FloatArray | None = None
    """Energy that heated the battery's own resistance over the run; in no energy column. Null: runs
    on mains."""
    battery_final_j: FloatArray | None = None
    """Energy in the battery at the end of the run. Null: runs on mains."""
    energy_enlisted_idle_j: FloatArray | None = None
    """Idle energy while enlisted, over the run. Null: waiting is not charged."""
    usage_record: tuple[str | None, ...] | None = None
    """Name of the record of the usage trace, or of the synthetic person, that it follows. Null:
    follows no usage record."""
    usage_shift_s: FloatArray | None = None
    """Seconds by which it is ahead of that record, whole; the sum of `shift`, `starts_at_s` and its
    time zone. Null: follows no usage record."""
    network_record: tuple[str | None, ...] | None = None
    """Name of the record of the network trace that it follows, also where it is on Wi-Fi meanwhile.
    Null: follows no network record."""
    network_shift_s: FloatArray | None = None
    """Seconds by which it is ahead of that record, whole milliseconds. Null: follows no network
    record."""


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
