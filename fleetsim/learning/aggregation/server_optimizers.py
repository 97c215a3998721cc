"""Server optimizers: the clients' mean change is a pseudo-gradient for a step of the server.

The pseudo-gradient of an aggregation is the weighted mean of the clients' changes,

    Delta = sum_k a_k (w_k - w_k^0) / sum_k a_k,

or the sum alone where a selector gives shares (see `weighted_mean`). w_k^0 is the model that was
sent to client k: the current model w, or an earlier one for a stale update. The next model is
w plus a step computed from Delta and from the optimizer state. A stateless optimizer with step
Delta is FedAvg.

FedAvgM: Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated
visual classification", arXiv:1909.06335, 2019. FedAdagrad, FedAdam, FedYogi: Reddi et al.,
"Adaptive federated optimization", ICLR 2021, algorithm 2, without bias correction. (The authors'
experiments, google-research/federated, start v at 0 and correct the bias.)

The optimizer state is float64: no change of float32 weights overflows when it is squared, and
FedAdagrad's growing sum loses no small addend. It is never changed in place, so `state` need not
copy. A failed aggregation leaves it unchanged.

Running means and variances of normalisation layers (the `buffers` of a model) take the plain mean:
a step with momentum could make a variance negative.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report, State
from fleetsim.errors import DivergenceError
from fleetsim.learning.aggregation.weighted_mean import (
    AggregatorKind,
    ClientWeights,
    mean_change,
    weighted_mean,
)
from fleetsim.schema.ranges import LearningRate, StepFactor

Decay = Annotated[float, Ge(0), Lt(1)]
"""Factor of a moving average's previous value."""
Tau = Annotated[StepFactor, Ge(1e-12)]
Moments = Mapping[str, FloatArray]
"""Optimizer state by name, [P] each: the velocity u, or the moments m and v."""


class OptimizerKind(AggregatorKind):
    """Settings of one kind of server optimizer, which compute its step."""

    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""

    def build(self, *, buffers: BoolArray | None = None) -> ServerOptimizer:
        """Return a new aggregator; `buffers` [P] are true where the model has no parameter."""
        return ServerOptimizer(self, buffers=buffers)

    @abstractmethod
    def step(self, delta: FloatArray, state: Moments) -> tuple[FloatArray, Moments]:
        """Return the server's step [P] along a pseudo-gradient [P], and the next optimizer state.

        Both are new arrays. The state is empty before the first aggregation.
        """


class FedAvgMSettings(OptimizerKind):
    """FedAvg with momentum on the server (Hsu, Qi, Brown 2019)."""

    kind: Literal["fedavgm"] = "fedavgm"
    learning_rate: LearningRate = 1.0
    """Step size of the server along its velocity."""
    momentum: Decay = 0.9
    """Share of the velocity that is kept; with 0 and learning rate 1 this is FedAvg."""

    def step(self, delta: FloatArray, state: Moments) -> tuple[FloatArray, Moments]:
        """Return the step: u <- momentum u + Delta, w <- w + learning_rate u; u_0 = 0."""
        velocity = delta + self.momentum * state["velocity"] if state else delta
        return self.learning_rate * velocity, {"velocity": velocity}


class AdaptiveKind(OptimizerKind):
    """Settings of a server optimizer of Reddi et al., whose step adapts to each weight."""

    learning_rate: Annotated[LearningRate, Field(examples=[0.01])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.003 to 1."""
    beta1: Decay = 0.9
    """Share of the mean change m that is kept."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""

    def step(self, delta: FloatArray, state: Moments) -> tuple[FloatArray, Moments]:
        """Return a step of algorithm 2 of Reddi et al.

        m <- beta1 m + (1 - beta1) Delta;  v <- next_v(v, Delta^2);
        w <- w + learning_rate m / (sqrt(v) + tau);  m starts as 0 and v as tau^2.
        """
        m, v = state.get("m"), state.get("v")
        if m is None or v is None:
            m, v = np.zeros_like(delta), np.full_like(delta, self.tau**2)
        m = self.beta1 * m + (1.0 - self.beta1) * delta
        v = self.next_v(v, np.square(delta))
        return self.learning_rate * m / (np.sqrt(v) + self.tau), {"m": m, "v": v}

    @abstractmethod
    def next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        """Return the next v [P] from v and Delta^2."""


class FedAdagradSettings(AdaptiveKind):
    """Adagrad on the server (Reddi et al. 2021)."""

    kind: Literal["fedadagrad"] = "fedadagrad"
    learning_rate: Annotated[LearningRate, Field(examples=[0.1])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.03 to 10."""
    beta1: Decay = 0.0
    """Share of the mean change m that is kept; 0 is Adagrad without momentum."""

    def next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        """Return v + Delta^2: steps of weights that changed much get smaller."""
        return v + squared


class FedAdamSettings(AdaptiveKind):
    """Adam on the server, without bias correction (Reddi et al. 2021)."""

    kind: Literal["fedadam"] = "fedadam"
    beta2: Decay = 0.99
    """Share of the mean square v that is kept."""

    def next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        """Return beta2 v + (1 - beta2) Delta^2, a moving average."""
        return self.beta2 * v + (1.0 - self.beta2) * squared


class FedYogiSettings(AdaptiveKind):
    """Yogi on the server (Reddi et al. 2021)."""

    kind: Literal["fedyogi"] = "fedyogi"
    beta2: Decay = 0.99
    """One minus this is the share of a square by which v moves towards it."""

    def next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        """Return v - (1 - beta2) Delta^2 sign(v - Delta^2).

        v moves by the square itself, not by its distance to it.
        """
        return v - (1.0 - self.beta2) * squared * np.sign(v - squared)


class ServerOptimizer:
    """Aggregator that takes a step of a server optimizer."""

    def __init__(self, settings: OptimizerKind, *, buffers: BoolArray | None = None) -> None:
        """Start without state; `buffers` [P] are true where the model has no parameter."""
        self._settings = settings
        self._buffers = buffers
        self._state: Moments = {}

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P], a new array."""
        weights = self._settings.weights
        step, state = self._settings.step(mean_change(base, reports, weights), self._state)
        with np.errstate(over="ignore"):  # refused below
            moved: Parameters = (base + step).astype(np.float32)
        if not np.isfinite(moved).all():
            raise DivergenceError(
                "the server's step leaves the range of float32 weights: its learning rate is too"
                " high; lower server.aggregator.learning_rate"
            )
        if self._buffers is not None:
            mean = weighted_mean(moved, reports, weights, takes_shares=False)
            moved[self._buffers] = mean[self._buffers]
        self._state = state
        return moved

    def state(self) -> State:
        """Return the optimizer state; it is empty before the first aggregation."""
        return {**self._state}

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        self._state = {name: value.astype(np.float64) for name, value in state.items()}
