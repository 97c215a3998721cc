"""Jobs of training and evaluation, and the Protocols of trainer, uplink and aggregator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fleetsim.contracts.reports import Evaluation, Report
from fleetsim.contracts.work import Parameters, State, Work


class Job(NamedTuple):
    """Arguments of a pure function: what one client computes from one model."""

    client: int
    work: Work
    base: Parameters
    """Model from which it starts [P]; shared between jobs, never changed."""
    address: tuple[int, ...]
    """Address of its random stream (order of batches, draw of samples), without the client."""
    learning_rate: float | None = None
    """Learning rate of training; None: that of the first round."""
    most_steps: int | None = None
    """`TRAIN` only: number of SGD steps after which it stops, >= 1; None: all epochs."""


class JobResult(NamedTuple):
    """Result of a job; None where its kind of work does not yield a value."""

    num_samples: int
    loss: float | None = None
    loss_rms: float | None = None
    accuracy: float | None = None
    vector: Parameters | None = None
    epoch_losses: tuple[float, ...] | None = None
    """Mean loss of each epoch that was begun, if the work asks for it."""


class Trainer(Protocol):
    """Computation of jobs, at any moment between `submit` and `results`."""

    def submit(self, job: Job) -> int:
        """Accept a job and return its ticket; nothing needs to be computed yet."""

    def start(self, tickets: Sequence[int]) -> None:
        """Announce the tickets of the next `results`, in this order; computation may begin."""

    def results(self, tickets: Sequence[int]) -> list[JobResult]:
        """Return the results of several jobs, in the order of the tickets.

        A ticket is valid for one call. Many tickets at once are faster than single ones. Which
        tickets are asked for together must follow from the run alone: it may affect the rounding.
        """

    def cancel(self, ticket: int) -> None:
        """Forget a job whose result is not needed."""

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Return accuracy and loss of a model [P] on the server's test set."""

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """Return the same on the samples kept for selectors; None if none are kept."""


class Uplink(Protocol):
    """Way of models from clients to the server, possibly compressed."""

    def receive(
        self,
        client: int,
        base: Parameters,
        vector: Parameters,
        address: tuple[int, ...],
        fraction: float = 1.0,
    ) -> Parameters:
        """Return the model [P] that the server receives from an upload of this share."""

    def state(self) -> State:
        """Return everything that `restore` needs, such as residuals that clients keep."""

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""


Screen = Callable[[Sequence[Parameters], Sequence[Parameters]], Sequence[str | None]]
"""Screening of delivered models (second argument) against the models that were sent (first): the
reason for which each is refused, or None."""


class Aggregator(Protocol):
    """Aggregation of updates into the next global model."""

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model, a new array, from delivered reports with vectors.

        Raises:
            ValueError: no report, a vector that is not finite, or weights of different kinds.
            ScenarioError: weights of a selector that the aggregator does not use.
        """

    def state(self) -> State:
        """Return everything that `restore` needs, such as moments of a server optimizer."""

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
