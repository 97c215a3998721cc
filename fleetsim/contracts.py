"""The nouns that time, choice, learning and recording share, and the Protocols between them.

Nothing here computes anything. A *device* is hardware; a *client* is a device with data; a *task*
is one piece of work for one client (train, probe or evaluate); a *report* is what the server
learns of a task; a *round* is one choice and what came of it; the *cohort* are the clients chosen.

Clients are numbered 0..N-1. Model parameters and updates travel as flat float32 vectors [P].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Parameters = NDArray[np.float32]
"""All parameters and buffers of a model in one flat vector [P]; never changed in place."""
State = dict[str, NDArray[np.generic]]
"""What a part must keep over a stop and a resume: named arrays (scalars as 0-d), no objects."""
ClientRows = dict[str, NDArray[np.generic]]
"""What is kept of some clients: `client` [k], ascending, and a row of each other array [k, ...]."""


class Purpose(StrEnum):
    """What a task is for."""

    TRAIN = "train"
    PROBE = "probe"
    EVALUATE = "evaluate"


class Outcome(StrEnum):
    """How a task ended. Everything but `DELIVERED` is wasted energy."""

    DELIVERED = "delivered"
    LATE = "late"
    """Still running at the deadline."""
    OFFLINE = "offline"
    """The client stopped being eligible: offline, unplugged or off Wi-Fi, as the rule says."""
    BATTERY = "battery"
    """The battery fell to the cut-off."""
    LINK = "link"
    """The transfer did not finish within the channel's give-up time."""
    CRASHED = "crashed"
    """The client's process died."""
    MEMORY = "memory"
    """The device had too little free memory for a step of training."""
    CANCELLED = "cancelled"
    """The server had enough reports, or the run ended."""
    STALE = "stale"
    """Delivered, but too late to be used: the model had moved on by too many versions."""
    REFUSED = "refused"
    """Delivered, but not to be aggregated: not finite, or too far from the model that was sent."""


class WorkKind(StrEnum):
    """What a client computes in a task."""

    NONE = "none"
    EVALUATE = "evaluate"
    """Forward passes over local samples: mean loss."""
    GRADIENT = "gradient"
    """One forward and backward pass over local samples: the mean gradient."""
    TRAIN = "train"
    """Local epochs or steps of SGD: new parameters."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one client is asked to compute."""

    kind: WorkKind
    epochs: int = 0
    """Local epochs; `TRAIN` only, and 0 where it counts in steps."""
    steps: int | None = None
    """`TRAIN` only: so many local steps instead, >= 1, through the data as often as that takes."""
    num_samples: int | None = None
    """`EVALUATE` and `GRADIENT`: on so many of the client's samples, drawn at random; None: all."""
    clock_fraction: float = 1.0
    """Share of its full clock, in (0, 1], at which the device is to compute: slower, for less."""
    tells_epoch_losses: bool = False
    """`TRAIN` only: whether the client is also to say what it lost in each of its epochs."""

    def __post_init__(self) -> None:
        if not 0.0 < self.clock_fraction <= 1.0:
            raise ValueError(f"clock_fraction must be in (0, 1], got {self.clock_fraction}")
        if self.steps is not None and (
            self.kind is not WorkKind.TRAIN or self.epochs or self.steps < 1
        ):
            raise ValueError(f"steps are at least 1, of training, and instead of epochs: {self}")


@dataclass(frozen=True, slots=True)
class StepMemory:
    """What a step of local training holds in memory, read off the real model."""

    state_byte: int
    """Weights, gradients, state of the optimizer and anchor of a proximal term."""
    sample_byte: int
    """What the forward pass of one sample keeps for the backward pass."""
    unfolded_byte: int
    """Patches under the convolutions' kernels for one sample, if an engine lays them out."""


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What a model costs a device, read off the real model."""

    forward_flop: Mapping[str, float]
    """FLOP of one sample's forward pass (2 per multiply-add) by operation class: conv, depthwise,
    gemm, rnn or tiny (spelt as in the `phi` table of the device profiles)."""
    num_parameters: int
    payload_byte: int
    """Bytes of one model on the wire, from its state dict."""
    memory: StepMemory | None = None
    """None in worlds where nobody's memory is looked at."""


# --- what the engine knows of a task, and what the server learns of it ---------------------------


@dataclass(frozen=True, slots=True)
class Resources:
    """What a client says about itself when it is asked; true when it says it."""

    flop_per_s: float
    """Rate of convolutions in training on the idle device (the profile's figure)."""
    ram_byte: int
    load_fraction: float
    """Share of the processor that its owner uses at this moment."""
    is_charging: bool
    is_unmetered: bool
    battery_fraction: float | None
    """None: mains powered."""
    samples_per_s: float
    """Samples that an epoch of the scenario's training goes through in a second, at this load."""
    down_bit_per_s: float
    """Rate of its link at this moment."""
    up_bit_per_s: float
    free_ram_byte: float | None = None
    """Memory that is free; None in worlds where nobody's memory is looked at."""


class Report(NamedTuple):
    """What the server learns of one task; nothing that a real server could not know.

    `outcome` is coarse: a server sees an answer, silence until the deadline (late), a broken
    connection (offline stands for every cause of it), or a cancellation of its own.
    """

    client: int
    purpose: Purpose
    outcome: Outcome
    dispatched_at_s: float
    finished_at_s: float
    """When the answer arrived, or when the server gave up on it."""
    num_samples: int
    """Samples that the work ran over."""
    download_s: float = 0.0
    """Phase times as the client measured them; 0 where nothing was delivered."""
    compute_s: float = 0.0
    upload_s: float = 0.0
    loss: float | None = None
    """Mean local loss: over the last local epoch (train) or the samples asked for (evaluate).
    None if nothing was delivered or the run does not train."""
    loss_rms: float | None = None
    """Root mean square of the per-sample losses of the same samples."""
    accuracy: float | None = None
    """On the samples asked for (evaluate only)."""
    vector: Parameters | None = None
    """New parameters (train) or gradient (gradient), when delivered."""
    update_norm: float | None = None
    """Euclidean distance of the new parameters from `base`, as the client computes it; told where
    training was delivered and the parameters themselves are not uploaded."""
    energy_j: float | None = None
    """What the client says the task cost it; None if nothing was delivered."""
    resources: Resources | None = None
    """If the probe asked for them and was delivered."""
    base: Parameters | None = None
    """Model that the work started from [P], as the server sent it; train tasks only."""
    refused: str | None = None
    """Why the server refused what was delivered."""
    staleness: int = 0
    """Versions by which the global model has moved on since then; 0 in a synchronous round."""
    completed_fraction: float = 1.0
    """Whole local steps that the answer is made of over those asked for, as the client says; below
    1 where its owner interrupted it and it handed in what was done."""
    weight_fraction: float = 1.0
    """What the server multiplies the answer's weight in the aggregation by, whatever that is."""
    epoch_losses: tuple[float, ...] | None = None
    """Mean loss of each local epoch as far as it got, of which `loss` is the last. Told where
    training was delivered and the work asked for it. The first is what the samples lose under the
    model that the client received, as training sees it: it takes its steps meanwhile."""
    weight: float | None = None
    """What the answer counts in the aggregation, in place of the aggregator's own weight, if the
    selector chose the client with one."""
    is_share: bool = False
    """Whether `weight` is a share of the next model, to be taken as it is, and not in proportion to
    the others'."""

    @property
    def is_delivered(self) -> bool:
        """Whether the answer arrived in time."""
        return self.outcome is Outcome.DELIVERED

    @property
    def duration_s(self) -> float:
        """Seconds from dispatch to answer; a lower bound where there was no answer."""
        return self.finished_at_s - self.dispatched_at_s


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How good a model is on samples of the server's; None in a run without training."""

    accuracy: float | None
    loss: float | None


# --- selection ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FleetView:
    """What a server knows before the first round: who is registered, and with how much data."""

    seed: int
    """Root seed for the selector's own streams: `rng.stream(seed, "select/<kind>", round)`."""
    num_samples: IntArray
    """Training samples of every client [N]."""
    cohort: int
    """Clients wanted in a round, without over-commitment."""
    epochs: int
    """Of the scenario's local training; 0 where it counts in steps. See `training`."""
    batch_size: int
    learning_rate: float
    """Of the clients' local optimizer, in the first round."""
    planned_rounds: int | None
    """Rounds after which the run ends; None if another rule ends it."""
    parameters: Parameters
    """Initial global model [P]."""
    payload_byte: int = 0
    """Bytes of a model on the wire."""
    validation: Evaluation | None = None
    """Of the initial model, on the samples that the server keeps for selectors, if any."""
    position_m: FloatArray | None = None
    """Where clients registered that they stand, the antenna at the origin [N, 2]; for selectors
    whose clients talk to their neighbours. None in a world without distances."""
    steps: int | None = None
    """Of the scenario's local training, where it counts in steps."""

    @property
    def training(self) -> Work:
        """The scenario's local training, for a probe at the full clock."""
        return Work(WorkKind.TRAIN, epochs=self.epochs, steps=self.steps)


@dataclass(frozen=True, slots=True)
class RoundView:
    """What a server knows when it chooses the cohort of a round."""

    round: int
    """1 for the first."""
    now_s: float
    wanted: int
    """At most so many may be chosen (cohort times over-commitment)."""
    candidates: IntArray
    """Ids of the clients that checked in as eligible and idle, ascending [C]."""
    num_samples: IntArray
    """Training samples of each candidate [C]."""
    parameters: Parameters
    """Current global model [P]."""
    reports: tuple[Report, ...] = ()
    """Every probe report since the last choice, in the order in which they arrived."""
    stage: int = 0
    """How many times `probe` was already called for this choice."""
    learning_rate: float | None = None
    """Of the clients' local optimizer in this round; None: as in the first."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Something that a selector asks one client for; it costs seconds and joules on the clock."""

    client: int
    work: Work
    needs_model: bool = True
    """Whether the client must hold the model; a client that already does downloads nothing."""
    download_byte: int = 0
    """What the client is sent besides the model, such as messages of other clients."""
    upload_byte: int = 8
    """Size of the answer: one scalar of 64 bit with framing by default."""
    uploads_vector: bool = True
    """Whether a gradient or a model comes back too, at the cost of the model's payload."""
    asks_resources: bool = False
    """Whether the client is to say how it stands; `upload_byte` must allow for it."""
    parameters: Parameters | None = None
    """Work on this model instead of the global one. It is downloaded unless `needs_model` is False;
    then it must be what the client itself trained and delivered last."""
    is_opinion: bool = False
    """Whether the accuracy that it tells goes on record, as its opinion of the global model."""
    belief: float | None = None
    """What the client believes of its own worth once it has answered; for the record alone."""


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """What came of a round."""

    round: int
    started_at_s: float
    finished_at_s: float
    selected: IntArray
    """Everybody dispatched, in the order of the choice."""
    reports: tuple[Report, ...]
    """One per selected client, in the same order."""
    aggregated: bool
    """False when too few delivered and the model stayed as it was."""
    parameters: Parameters
    """Global model after the round [P]."""
    validation: Evaluation | None = None
    """On the samples that the server keeps for selectors, if it keeps any; never the test set."""


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Whom a selector chose, where it asks other work of them than the scenario's."""

    clients: IntArray
    """Distinct candidate ids, most wanted first [n]."""
    epochs: IntArray | None = None
    """Local epochs of each, >= 1 [n], those of a probe that it goes on from among them; None: those
    of the scenario."""
    steps: IntArray | None = None
    """Local steps of each, >= 1 [n], instead of `epochs`; None: those of the scenario."""
    clock_fraction: FloatArray | None = None
    """Share of its full clock, in (0, 1], at which each computes [n]; None: the scenario's."""
    upload_fraction: FloatArray | None = None
    """Share of its update, in (0, 1], that each sends [n]; None: all of it. The server takes what
    is not sent for unchanged."""
    asks_epoch_losses: bool = False
    """Whether everybody is to say what it lost in each of its epochs (`Report.epoch_losses`)."""
    weights: FloatArray | None = None
    """What the update of each counts in the aggregation, above 0 [n]; None: what the aggregator
    takes, such as its samples. Updates count in proportion to the weights of those delivered."""
    are_shares: bool = False
    """Whether the weights are shares of the next model (or of the next change, as the aggregator
    goes by) and are taken as they are, whatever their sum and whoever delivers."""
    continues: BoolArray | None = None
    """Who goes on from what it trained in a delivered probe of this round, on the global model,
    instead of starting anew [n]: it computes the epochs that are left, of the same training; None:
    nobody."""
    start: Parameters | None = None
    """Model [P] that replaces the global one before they train; None: it stays."""


class Selector(Protocol):
    """Who takes part. One object per run; all its randomness comes from addressed streams.

    Order of calls: `setup` once; then for each round `probe` until it returns nothing, `select`,
    and `observe`. What set-up and probes bring back is in the next view's `reports`. Feedback from
    clients outside the cohort is a probe before the next choice: the model is the same.
    """

    needs_losses: bool
    """Whether it is useless without real losses, as in runs without training."""

    needs_probes: bool
    """Whether it asks clients before it chooses, for which a buffered server has no moment."""

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Learn of the fleet; ask for what must be known before the first round."""

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Ask candidates for something before the choice; nothing ends the probing."""

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Distinct candidate ids, at most `view.wanted`, most wanted first; may be fewer."""

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""

    def state(self) -> State:
        """Everything that `restore` needs to go on as if nothing had happened."""

    def restore(self, state: State) -> None:
        """Take back what `state` gave; `setup` was called before, its probes were not."""


# --- learning -----------------------------------------------------------------------------------


class Job(NamedTuple):
    """A pure function's arguments: what one client computes from one model."""

    client: int
    work: Work
    base: Parameters
    """Model that it starts from [P]; shared between jobs, never changed."""
    address: tuple[int, ...]
    """Indices of its random stream (batch order, sample draw), without the client."""
    learning_rate: float | None = None
    """Step size of training; None: that of the first round."""
    most_steps: int | None = None
    """`TRAIN` only: stop after so many steps of SGD, >= 1; None: after all epochs."""


class JobResult(NamedTuple):
    """What a job yields; None where its kind of work yields nothing of the sort."""

    num_samples: int
    loss: float | None = None
    loss_rms: float | None = None
    accuracy: float | None = None
    vector: Parameters | None = None
    epoch_losses: tuple[float, ...] | None = None
    """Mean loss of each epoch of training as far as it got, if the work asks for it."""


class Trainer(Protocol):
    """What training yields. Jobs may be computed at any moment between submit and results."""

    def submit(self, job: Job) -> int:
        """Take a job; returns its ticket. Nothing need be computed yet."""

    def start(self, tickets: Sequence[int]) -> None:
        """These results will be asked for next, in this order; computing them may begin."""

    def results(self, tickets: Sequence[int]) -> list[JobResult]:
        """Results of several jobs, in the order of the tickets; computed together where not yet.

        A ticket is good for one call. Who asks for much at once waits less; what is asked for at
        once must follow from the run alone, because it may show in the rounding.
        """

    def cancel(self, ticket: int) -> None:
        """Forget a job whose result nobody will use."""

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy and loss of a model [P] on the server's test set."""

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """The same on the samples kept for selectors; None if none are kept."""


class Uplink(Protocol):
    """What reaches the server of the models that clients send: all of it, or a compressed form."""

    def receive(
        self,
        client: int,
        base: Parameters,
        vector: Parameters,
        address: tuple[int, ...],
        fraction: float = 1.0,
    ) -> Parameters:
        """Model [P] that the server makes of a delivered upload of this share of the update."""

    def state(self) -> State:
        """Everything that `restore` needs (what clients hold back)."""

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""


Screen = Callable[[Sequence[Parameters], Sequence[Parameters]], Sequence[str | None]]
"""Why delivered models (second) must not be aggregated, each, given the models that were sent
(first); None where it may be."""


class Aggregator(Protocol):
    """How updates become the next global model."""

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Next model from delivered reports with vectors; a new array.

        Raises:
            ValueError: no report, a vector that is not finite, or weights of different kinds.
            ScenarioError: weights of a selector, for which it has no use.
        """

    def state(self) -> State:
        """Everything that `restore` needs (server optimizer moments and the like)."""

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""


# --- recording ----------------------------------------------------------------------------------


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

    @property
    def energy_j(self) -> float:
        """Joules of the task, all components."""
        return (
            self.energy_compute_j
            + self.energy_receive_j
            + self.energy_transmit_j
            + self.energy_tail_j
            + self.energy_idle_j
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
