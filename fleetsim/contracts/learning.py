"""Jobs, and who computes, receives and joins what they yield."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fleetsim.contracts.reports import Evaluation, Report
from fleetsim.contracts.work import Parameters, State, Work


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
