"""Own training of clients: Protocols of an algorithm's client, and of its part on the server.

torch is learning's alone, so networks, tensors and settings of training are `Any` here.
docs/models/own-training.md is the manual, with an example.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from fleetsim.contracts.reports import Report
from fleetsim.contracts.work import Arrays, BoolArray, Parameters


class ClientUpdate(NamedTuple):
    """Result of a client's own training beside the network, which holds the new weights."""

    loss: float
    """Mean loss of the samples in training, which the client reports."""
    loss_rms: float | None = None
    """Root mean square of the samples' losses; None: as if all were equal to the mean."""
    state: Arrays | None = None
    """Arrays that the client keeps until its next task, in the place of the former ones; None: it
    keeps the same. Names, shapes and number types are the same for all clients."""
    sent: Arrays | None = None
    """Arrays that the client uploads beside the model; None: nothing."""
    metrics: Mapping[str, float] | None = None
    """Numbers of the task for its row in tasks.parquet, column `train_metrics`; None: no number."""
    epoch_losses: tuple[float, ...] | None = None
    """Mean loss of each epoch, for selectors that ask for them."""


class ClientTraining(Protocol):
    """Training of a client, written by its user instead of the built-in local training.

    It has no memory of its own: what a client keeps is in `data.state` and `ClientUpdate.state`,
    because a training may be computed late, in another process, or never. It must depend on its
    arguments alone: every random number comes from `generator`, and the weights of `model`
    are the only thing that it changes.

    Optional attributes:
        train_factor: float, work of a step divided by that of a plain one, which multiplies
            seconds, joules and FLOP of training; 1.0 unless given.
        num_copies: int, copies of the weights that a step holds in the device's memory beside those
            of the optimizer; 0 unless given.
    """

    def train_client(
        self, model: Any, data: Any, generator: np.random.Generator, settings: Any
    ) -> ClientUpdate:
        """Train the network in place; its weights and buffers afterwards are what is uploaded.

        Args:
            model: `torch.nn.Module` in training mode, with the weights that the server sent.
            data: `fleetsim.learning.local.algorithms.client_data.ClientData`: the client's
                samples, the batches of this task, `state` that the client kept and `received`
                arrays.
            generator: random numbers of this task, of address (seed, client, dispatch).
            settings: `LocalSettings` of the scenario, at the learning rate of the round.
        """


@dataclass(frozen=True, slots=True)
class Wire:
    """Bytes on the wire of the arrays that an algorithm adds to a model."""

    download_byte: int = 0
    """Bytes that a client receives with every model."""
    upload_byte: int = 0
    """Bytes that a client sends with every trained model; never compressed."""

    def __post_init__(self) -> None:
        if self.download_byte < 0 or self.upload_byte < 0:
            raise ValueError(f"bytes on the wire are at least 0, got {self}")


class ServerStart(NamedTuple):
    """Facts that the server knows before the first round."""

    parameters: Parameters
    """Initial model [P]."""
    buffers: BoolArray
    """True where the flat vector holds a buffer of the model, not a trained parameter [P]."""
    num_clients: int
    """Size of the fleet N."""


class ServerStep(NamedTuple):
    """An aggregation, as the server's part of an algorithm sees it."""

    start: ServerStart
    before: Parameters
    """Global model before it [P]."""
    after: Parameters
    """Model that the scenario's aggregator makes [P]."""
    reports: Sequence[Report]
    """Reports that are aggregated, by client; `sent` holds what came beside the model."""


@runtime_checkable
class ServerPart(Protocol):
    """Server's part of an algorithm that sends arrays beside the model, or changes the mean.

    A class of `ClientTraining` may have these four methods, all or none. They are pure functions:
    arrays are never changed in place.
    """

    def wire(self, num_parameters: int) -> Wire:
        """Return the bytes of the arrays, for a model of so many trained parameters.

        Tasks are timed with them before any training is computed. What is sent later must not
        exceed them.
        """

    def start_server(self, start: ServerStart) -> Arrays:
        """Return the arrays that the server keeps, at their initial values."""

    def broadcast(self, server: Arrays) -> Arrays:
        """Return the arrays that a client receives with the model, as `data.received`."""

    def server_step(self, server: Arrays, step: ServerStep) -> tuple[Parameters, Arrays]:
        """Return the next global model and the server's next arrays, after an aggregation."""
