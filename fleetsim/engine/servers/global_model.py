"""Server's side of learning: the global model, its versions and its evaluation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import (
    Accountant,
    Aggregator,
    Arrays,
    Evaluation,
    FloatArray,
    JobResult,
    ModelCost,
    Parameters,
    Report,
    Screen,
    SecureSum,
    State,
    Trainer,
    Uplink,
    Wire,
    Work,
)
from fleetsim.counts import Batching
from fleetsim.engine.servers.client_memory import ClientMemory
from fleetsim.engine.state_parts import joined, part_of
from fleetsim.errors import DivergenceError

_AGGREGATOR = "aggregator"


@dataclass(frozen=True, slots=True)
class Learning:
    """Server's side of the learning task: the model, its training and its aggregation."""

    parameters: Parameters
    """Initial model [P]."""
    cost: ModelCost
    training: Work
    """Local training of a selected client, unless the selector asks for another."""
    batching: Batching
    learning_rate_at: Callable[[int], float]
    """Learning rate of the clients' optimizer by the number of the round; 1 is the first."""
    upload_byte: int
    """Bytes of a whole trained model on its way up, compressed or not."""
    trainer: Trainer
    uplink: Uplink
    screen: Screen
    aggregator: Aggregator
    evaluate_every_rounds: int = 1
    partial_fraction: float = 0.0
    accountant: Accountant | None = None
    secure_sum: SecureSum | None = None
    memory: ClientMemory | None = None
    label_coverage: FloatArray | None = None
    """Share of all labels that each client's training samples have [N]; None: no single labels."""

    @property
    def wire(self) -> Wire:
        """Bytes of the arrays that travel with a model for the clients' own training."""
        return Wire() if self.memory is None else self.memory.wire


class GlobalModel:
    """Global model of the server, with a new version at every aggregation."""

    def __init__(self, learning: Learning) -> None:
        self.parameters = learning.parameters
        """Current model [P]; replaced, never changed in place."""
        self.version = 0
        self.accuracy: float | None = None
        self._aggregator = learning.aggregator
        self._trainer = learning.trainer
        self._memory = learning.memory
        self._evaluated: tuple[int, Evaluation] | None = None

    def aggregate(self, delivered: Sequence[Report], results: Sequence[JobResult] = ()) -> None:
        """Make the next version from delivered reports and results; no vectors, no change."""
        if any(report.vector is not None for report in delivered):
            parameters = self._aggregator.aggregate(self.parameters, delivered)
            server: Arrays = {}
            if self._memory is not None:
                parameters, server = self._memory.step(self.parameters, parameters, delivered)
            # One sum in the usual case: it is finite only if all weights are.
            with np.errstate(invalid="ignore"):  # infinity minus infinity: refused below
                total = parameters.sum(dtype=np.float64)
            if not np.isfinite(total):
                num_broken = int(np.count_nonzero(~np.isfinite(parameters)))
                raise DivergenceError(
                    f"{num_broken} of {parameters.size} weights of global model"
                    f" {self.version + 1} are not finite: training diverged; lower"
                    " task.local.optimizer.learning_rate, or that of server.aggregator"
                )
            self.parameters = parameters
            if self._memory is not None:
                clients = (report.client for report in delivered)
                self._memory.keep(server, zip(clients, results, strict=True))
        self.version += 1

    def replace(self, parameters: Parameters) -> None:
        """Replace the model [P]; this makes the next version."""
        self.parameters = parameters
        self.version += 1

    def evaluate(self) -> Evaluation:
        """Return accuracy and loss of this version; computed once per version."""
        if self._evaluated is None or self._evaluated[0] != self.version:
            self._evaluated = (self.version, self._trainer.evaluate(self.parameters))
        self.accuracy = self._evaluated[1].accuracy
        return self._evaluated[1]

    def validate(self) -> Evaluation | None:
        """Return the evaluation on the samples kept for selectors; None if none are kept."""
        return self._trainer.validate(self.parameters)

    def state(self) -> State:
        """Return the model, its version and the state of the aggregator."""
        parameters = self.parameters.view()  # never changed, so that no copy is needed
        parameters.flags.writeable = False
        state: State = {
            "parameters": parameters,
            "version": np.array(self.version, dtype=np.int64),
            "accuracy": np.array(np.nan if self.accuracy is None else self.accuracy),
        }
        return state | joined({_AGGREGATOR: self._aggregator.state()})

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        given = state["parameters"]
        if given.dtype != np.float32 or given.shape != self.parameters.shape:
            raise ValueError(f"the model is {given.dtype} {given.shape}")
        if not np.isfinite(given).all():
            raise ValueError("a weight of the model is not finite")
        self._aggregator.restore(part_of(state, _AGGREGATOR))
        self.parameters = given.astype(np.float32)
        self.version = int(state["version"])
        accuracy = float(state["accuracy"])
        self.accuracy = None if np.isnan(accuracy) else accuracy
