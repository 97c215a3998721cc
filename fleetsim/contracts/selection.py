"""What a selector sees, and what it can ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
