"""The server's side of learning: the global model, its versions, and how good it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import (
    Aggregator,
    Evaluation,
    ModelCost,
    Parameters,
    Report,
    State,
    Trainer,
    Work,
    WorkKind,
)
from fleetsim.errors import DivergenceError


@dataclass(frozen=True, slots=True)
class Learning:
    """What the server needs to know of the learning task."""

    parameters: Parameters
    """Initial model [P]."""
    cost: ModelCost
    epochs: int
    """Of a client's training; 0 where it counts in steps."""
    batch_size: int
    learning_rate_at: Callable[[int], float]
    """Of the clients' optimizer, by the number of the round; 1 is the first."""
    upload_byte: int
    """Bytes of a trained model on its way up, compressed or not."""
    evaluate_every_rounds: int = 1
    clock_fraction: float = 1.0
    """Share of its full clock at which a client trains."""
    steps: int | None = None
    """Of a client's training, where it counts in steps."""
    partial_fraction: float = 0.0
    """Chance that a client trains only a part of it."""

    @property
    def training(self) -> Work:
        """What a client that was chosen is to do, unless the selector says otherwise."""
        return Work(
            WorkKind.TRAIN,
            epochs=self.epochs,
            steps=self.steps,
            clock_fraction=self.clock_fraction,
        )


class GlobalModel:
    """The model that the server hands out; a new version with every aggregation."""

    def __init__(self, parameters: Parameters, *, aggregator: Aggregator, trainer: Trainer) -> None:
        self.parameters = parameters
        """Current model [P]; replaced, never changed in place."""
        self.version = 0
        self.accuracy: float | None = None
        """As of the last evaluation."""
        self._aggregator = aggregator
        self._trainer = trainer
        self._evaluated: tuple[int, Evaluation] | None = None

    def aggregate(self, delivered: Sequence[Report]) -> None:
        """Make the next version from delivered reports (without vectors: the same model again).

        Raises:
            ValueError: an update is not finite.
            DivergenceError: the new model is not finite.
        """
        if any(report.vector is not None for report in delivered):
            parameters = self._aggregator.aggregate(self.parameters, delivered)
            # In one step in the usual case: with a weight that is not finite no sum is, either.
            if not np.isfinite(parameters.sum(dtype=np.float64)):
                num_broken = int(np.count_nonzero(~np.isfinite(parameters)))
                raise DivergenceError(
                    f"{num_broken} of {parameters.size} weights of global model"
                    f" {self.version + 1} are not finite: training diverged; lower"
                    " task.local.optimizer.learning_rate, or that of server.aggregator"
                )
            self.parameters = parameters
        self.version += 1

    def replace(self, parameters: Parameters) -> None:
        """Go on with another model [P], as the next version."""
        self.parameters = parameters
        self.version += 1

    def evaluate(self) -> Evaluation:
        """Accuracy and loss of this version; computed once per version."""
        if self._evaluated is None or self._evaluated[0] != self.version:
            self._evaluated = (self.version, self._trainer.evaluate(self.parameters))
        self.accuracy = self._evaluated[1].accuracy
        return self._evaluated[1]

    def validate(self) -> Evaluation | None:
        """How this version does on the samples kept for selectors; None if none are kept."""
        return self._trainer.validate(self.parameters)

    def state(self) -> State:
        """Everything that `restore` needs."""
        parameters = self.parameters.view()  # never changed: nobody needs a copy
        parameters.flags.writeable = False
        own: State = {
            "parameters": parameters,
            "version": np.array(self.version, dtype=np.int64),
            "accuracy": np.array(np.nan if self.accuracy is None else self.accuracy),
        }
        parts = self._aggregator.state()
        return own | {f"aggregator/{key}": value for key, value in parts.items()}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        prefix = "aggregator/"
        self._aggregator.restore(
            {key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)}
        )
        self.parameters = state["parameters"].astype(np.float32)
        self.version = int(state["version"])
        accuracy = float(state["accuracy"])
        self.accuracy = None if np.isnan(accuracy) else accuracy
