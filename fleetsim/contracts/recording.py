"""What is kept of a run, and who keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

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
    """This and the next are None but for probes of selectors that have opinions or beliefs."""
    belief: float | None = None
    energy_enlisted_idle_j: float | None = None
    """Of waiting, enlisted, after its end; None where that is not charged."""

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
    """When the server began to look for clients."""
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
    """Part of the round spent waiting for enough eligible clients."""
    probe_s: float
    waiting_s: float | None
    """Slowest minus fastest delivered train task; None with fewer than two."""
    energy_j: float
    energy_probe_j: float
    energy_wasted_j: float
    energy_total_j: float
    num_refused: int = 0
    num_off: int | None = None
    """Phones that have run empty and are off; this and the next are None unless batteries live."""
    battery_low_fraction: float | None = None
    """A tenth of the batteries hold less."""
    battery_median_fraction: float | None = None
    battery_high_fraction: float | None = None
    """A tenth of the batteries hold more."""
    energy_enlisted_idle_j: float | None = None
    """Part of `energy_j` that clients drew while they waited; None where that is not charged."""


@dataclass(frozen=True, slots=True)
class ClientColumns:
    """clients.parquet, column by column, all [N]."""

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
    """NaN for a mains-powered client; null in the table. So are the following, which are None
    unless batteries live."""
    battery_capacity_j: FloatArray | None = None
    battery_initial_j: FloatArray | None = None
    battery_charged_j: FloatArray | None = None
    battery_owner_j: FloatArray | None = None
    battery_loss_j: FloatArray | None = None
    battery_final_j: FloatArray | None = None
    energy_enlisted_idle_j: FloatArray | None = None
    """None where waiting is not charged."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, for whoever watches it."""

    round: int
    now_s: float
    accuracy: float | None
    energy_total_j: float
    num_delivered: int
    num_selected: int


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a run ended."""

    rule: str
    """rounds, accuracy, time_s, energy_j, or no_clients."""
    text: str
    """One sentence for people."""


class Recorder(Protocol):
    """Where rows go. The engine writes, nobody reads back."""

    def task(self, row: TaskRow) -> None:
        """Keep the row of a finished task."""

    def round(self, row: RoundRow) -> None:
        """Keep the row of a finished round."""

    def checkpoint(self, state: State, changed: ClientRows) -> None:
        """Called after every round with a way to go on; keeps it when one is due.

        Args:
            state: everything but the clients.
            changed: those clients that are not as they were at the call before.
        """


def latest_rows(parts: Sequence[ClientRows]) -> ClientRows:
    """One row of every client that is in any of the parts: the one in the last of them.

    >>> earlier = {"client": np.array([1, 4]), "energy_j": np.array([10.0, 40.0])}
    >>> later = {"client": np.array([0, 4]), "energy_j": np.array([5.0, 45.0])}
    >>> latest_rows([earlier, later])["energy_j"].tolist()
    [5.0, 10.0, 45.0]
    """
    rows = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    backwards = rows["client"][::-1]
    last = backwards.size - 1 - np.unique(backwards, return_index=True)[1]
    return {key: column[last] for key, column in rows.items()}


def with_clients(state: State, rows: ClientRows) -> State:
    """A way to go on, whole: keys of `rows` become `clients/KEY`."""
    return state | {f"clients/{key}": column for key, column in rows.items()}


@dataclass(slots=True)
class MemoryRecorder:
    """A Recorder that keeps everything in lists: for tests and for use from Python."""

    tasks: list[TaskRow] = field(default_factory=list)
    rounds: list[RoundRow] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    """After every round, each with all clients that have ever changed."""
    _clients: ClientRows | None = None

    def task(self, row: TaskRow) -> None:
        """Keep the row of a finished task."""
        self.tasks.append(row)

    def round(self, row: RoundRow) -> None:
        """Keep the row of a finished round."""
        self.rounds.append(row)

    def checkpoint(self, state: State, changed: ClientRows) -> None:
        """Keep every state."""
        known = [] if self._clients is None else [self._clients]
        self._clients = latest_rows([*known, changed])
        self.states.append(with_clients(state, self._clients))
