"""Views of a selector, its requests and answers, and its Protocol."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fleetsim.contracts.reports import Evaluation, Report
from fleetsim.contracts.work import (
    BoolArray,
    FloatArray,
    IntArray,
    Parameters,
    State,
    Work,
    WorkKind,
)
from fleetsim.counts import Batching, LastBatch


@dataclass(frozen=True, slots=True)
class FleetView:
    """Knowledge of a server before the first round: its registered clients and their data."""

    seed: int
    """Root seed for the selector's own streams: `rng.stream(seed, "select/<kind>", round)`."""
    num_samples: IntArray
    """Training samples of every client [N]."""
    cohort: int
    """Number of clients wanted in a round, without over-commitment."""
    epochs: int
    """Epochs of the scenario's local training; 0 where it counts in steps. See `training`."""
    batch_size: int
    learning_rate: float
    """Learning rate of the clients' optimizer in the first round."""
    planned_rounds: int | None
    """Number of rounds after which the run ends; None if another rule ends it."""
    parameters: Parameters
    """Initial global model [P]."""
    payload_byte: int = 0
    """Bytes of a model on the wire, with the arrays that clients' own training receives."""
    validation: Evaluation | None = None
    """Evaluation of the initial model on the samples kept for selectors, if any."""
    position_m: FloatArray | None = None
    """Registered positions of the clients, the antenna at the origin [N, 2], for selectors whose
    clients exchange messages with neighbours. None in a world without distances."""
    steps: int | None = None
    """Steps of the scenario's local training, where it counts in steps."""
    clients_hash: str | None = None
    """SHA-256 of who the clients are: fleet, data and partition, with their seed. What a selector
    has learned about clients by number holds for these alone. None in the check of a scenario."""
    layer_counts: Mapping[str, int] = field(default_factory=dict)
    """Number of the model's layers by operation class (conv, depthwise, gemm, rnn); empty in the
    check of a scenario."""
    label_coverage: FloatArray | None = None
    """Share of all labels that occur among each client's training samples, as the clients declare
    [N]. None where samples have no single label: next tokens, a blank data set."""

    last_batch: LastBatch = "keep"
    """Use of the samples that an epoch leaves after its full batches (`task.local.last_batch`)."""

    @property
    def batching(self) -> Batching:
        """Rule by which an epoch of the local training is cut into batches."""
        return Batching(self.batch_size, self.last_batch)

    @property
    def training(self) -> Work:
        """Local training of the scenario, for a probe at the full clock."""
        return Work(WorkKind.TRAIN, epochs=self.epochs, steps=self.steps)


@dataclass(frozen=True, slots=True)
class RoundView:
    """Knowledge of a server when it selects the cohort of a round."""

    round: int
    """Number of the round; 1 is the first."""
    now_s: float
    wanted: int
    """Largest number of clients to select (cohort times over-commitment)."""
    candidates: IntArray
    """Numbers of the clients that are eligible and idle, ascending [C]."""
    num_samples: IntArray
    """Training samples of each candidate [C]."""
    parameters: Parameters
    """Current global model [P]."""
    reports: tuple[Report, ...] = ()
    """Reports of all probes since the last selection, in the order of arrival."""
    stage: int = 0
    """Number of earlier calls of `probe` for this selection."""
    learning_rate: float | None = None
    """Learning rate of the clients' optimizer in this round; None: as in the first."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """Request of a selector to one client before the selection; it costs seconds and joules."""

    client: int
    work: Work
    needs_model: bool = True
    """True if the client must hold the model; a client that already does downloads nothing."""
    download_byte: int = 0
    """Bytes that the client receives besides the model, such as messages of other clients."""
    upload_byte: int = 8
    """Bytes of the answer: one scalar of 64 bit with framing by default."""
    uploads_vector: bool = True
    """True if a gradient or a model is uploaded too, at the cost of the model's payload."""
    asks_resources: bool = False
    """True if the client reports its resources; `upload_byte` must include them."""
    parameters: Parameters | None = None
    """Model [P] to work on instead of the global one. It is downloaded unless `needs_model` is
    False; then it must be the one that the client itself trained and delivered last."""
    is_opinion: bool = False
    """True if the reported accuracy is recorded as the client's opinion of the global model."""
    belief: float | None = None
    """Belief in the client's own value once it has answered; for the record alone."""


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """Outcome of a round."""

    round: int
    started_at_s: float
    finished_at_s: float
    selected: IntArray
    """Selected clients, in the order of the selection."""
    reports: tuple[Report, ...]
    """Report of each selected client, in the same order."""
    aggregated: bool
    """True if there is a new global model; False when too few clients delivered."""
    parameters: Parameters
    """Global model after the round [P]."""
    validation: Evaluation | None = None
    """Evaluation on the samples kept for selectors, if any; never on the test set."""


@dataclass(frozen=True, slots=True, eq=False)
class Cohort:
    """Selected clients, with their work where it differs from the scenario's."""

    clients: IntArray
    """Distinct numbers of candidates, most wanted first [n]."""
    epochs: IntArray | None = None
    """Local epochs of each, >= 1 [n], including those of a probe that it continues; None: those of
    the scenario."""
    steps: IntArray | None = None
    """Local steps of each, >= 1 [n], instead of `epochs`; None: those of the scenario."""
    clock_fraction: FloatArray | None = None
    """Share of its full clock, in (0, 1], at which each computes [n]; None: the scenario's."""
    upload_fraction: FloatArray | None = None
    """Share of its update, in (0, 1], that each sends [n]; None: all of it. What is not sent counts
    as unchanged."""
    asks_epoch_losses: bool = False
    """True if each client reports the loss of each of its epochs (`Report.epoch_losses`)."""
    weights: FloatArray | None = None
    """Weight of each update in the aggregation, above 0 [n]; None: that of the aggregator, such as
    its samples. Updates count in proportion to the weights of those delivered."""
    are_shares: bool = False
    """True if the weights are shares of the next model (or of its change, as the aggregator works).
    They are then used as they are, whatever their sum and whichever clients deliver."""
    continues: BoolArray | None = None
    """Clients that continue their training of the global model from a delivered probe of this round
    instead of starting anew [n]: they compute the epochs that are left. None: no client."""
    start: Parameters | None = None
    """Model [P] that replaces the global one before they train; None: it stays."""


class Selector(Protocol):
    """Policy that selects clients. One object per run; all its random draws are addressed.

    Order of calls: `setup` once; then for each round `probe` until it returns nothing, `select`,
    and `observe`. Reports of set-up and probes are in the next view's `reports`. For feedback from
    clients outside the cohort, probe before the next selection: the model is the same.

    A subclass needs `select` alone: it then asks no client and keeps nothing between rounds. One
    that keeps something has `state` and `restore` too.
    """

    needs_losses: bool = False
    """True if it needs real losses, which runs without training do not have."""

    needs_probes: bool = False
    """True if it asks clients before it selects, which a buffered server does not support."""

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Receive the fleet; return requests for what must be known before the first round."""
        return ()

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Return requests to candidates before the selection; none ends the probing."""
        return ()

    @abstractmethod
    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return distinct candidates, at most `view.wanted` and possibly fewer, best first."""

    def observe(self, outcome: RoundOutcome) -> None:
        """Receive the outcome of a finished round."""

    def state(self) -> State:
        """Return everything that `restore` needs to continue with the same results."""
        return {}

    def restore(self, state: State) -> None:
        """Restore what `state` returned; `setup` was called before, its probes were not sent."""


Diagnostics = Mapping[str, float | Sequence[float] | FloatArray]
"""Finite numbers, or lists of them, by name; a name is an identifier."""


class DiagnosedSelector(Selector, Protocol):
    """Selector that tells numbers of its own about its rounds, for the record alone."""

    def diagnostics(self) -> Diagnostics:
        """Return numbers on the round that `observe` has just received; none if none are known.

        The call changes nothing. `expected` and `realised` are numbers on one scale: the value that
        the selector gave its choice, and that of the outcome. Reports draw them together.
        """


class LearningSelector(Selector, Protocol):
    """Selector that learns over runs: what it has learned outlasts the run.

    Training is a sequence of runs, its episodes. Each is a new object, which takes up what the last
    one has learned.
    """

    def learned(self) -> State:
        """Return everything with which learning goes on in another run.

        That is weights, moments of the optimizer, stored transitions and counters, but nothing that
        belongs to this run.
        """

    def take_up(self, learned: State) -> None:
        """Continue from what `learned` returned; called after `setup`, before the first round."""

    def policy(self) -> State:
        """Return the part of `learned` that choices without further learning need."""
