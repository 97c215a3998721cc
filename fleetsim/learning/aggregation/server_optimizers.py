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

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report, State
from fleetsim.learning.aggregation.weighted_mean import ClientWeights, mean_change, weighted_mean
from fleetsim.schema.ranges import LearningRate, StepFactor
from fleetsim.settings import Settings

Decay = Annotated[float, Ge(0), Lt(1)]
"""Factor of a moving average's previous value."""
Tau = Annotated[StepFactor, Ge(1e-12)]


class FedAvgMSettings(Settings):
    """FedAvg with momentum on the server (Hsu, Qi, Brown 2019)."""

    kind: Literal["fedavgm"] = "fedavgm"
    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""
    learning_rate: LearningRate = 1.0
    """Step size of the server along its velocity."""
    momentum: Decay = 0.9
    """Share of the velocity that is kept; with 0 and learning rate 1 this is FedAvg."""

    def build(self, *, buffers: BoolArray | None = None) -> FedAvgM:
        """Return a new aggregator; `buffers` [P] are true where the model has no parameter."""
        return FedAvgM(self, buffers=buffers)


class FedAdagradSettings(Settings):
    """Adagrad on the server (Reddi et al. 2021)."""

    kind: Literal["fedadagrad"] = "fedadagrad"
    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""
    learning_rate: Annotated[LearningRate, Field(examples=[0.1])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.03 to 10."""
    beta1: Decay = 0.0
    """Share of the mean change m that is kept; 0 is Adagrad without momentum."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""

    def build(self, *, buffers: BoolArray | None = None) -> FedAdagrad:
        """Return a new aggregator; `buffers` [P] are true where the model has no parameter."""
        return FedAdagrad(self, buffers=buffers)


class FedAdamSettings(Settings):
    """Adam on the server, without bias correction (Reddi et al. 2021)."""

    kind: Literal["fedadam"] = "fedadam"
    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""
    learning_rate: Annotated[LearningRate, Field(examples=[0.01])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.003 to 1."""
    beta1: Decay = 0.9
    """Share of the mean change m that is kept."""
    beta2: Decay = 0.99
    """Share of the mean square v that is kept."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""

    def build(self, *, buffers: BoolArray | None = None) -> FedAdam:
        """Return a new aggregator; `buffers` [P] are true where the model has no parameter."""
        return FedAdam(self, buffers=buffers)


class FedYogiSettings(Settings):
    """Yogi on the server (Reddi et al. 2021)."""

    kind: Literal["fedyogi"] = "fedyogi"
    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""
    learning_rate: Annotated[LearningRate, Field(examples=[0.01])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.003 to 1."""
    beta1: Decay = 0.9
    """Share of the mean change m that is kept."""
    beta2: Decay = 0.99
    """One minus this is the share of a square by which v moves towards it."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""

    def build(self, *, buffers: BoolArray | None = None) -> FedYogi:
        """Return a new aggregator; `buffers` [P] are true where the model has no parameter."""
        return FedYogi(self, buffers=buffers)


class FedAvgM:
    """FedAvg with server momentum: u <- momentum u + Delta, w <- w + learning_rate u; u_0 = 0.

    With momentum 0 and learning rate 1 it is FedAvg.
    """

    def __init__(self, settings: FedAvgMSettings, *, buffers: BoolArray | None = None) -> None:
        """Start without state; `buffers` [P] are true where the model has no parameter."""
        self._settings = settings
        self._buffers = buffers
        self._velocity: FloatArray | None = None

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P], a new array.

        Raises:
            ValueError: as of `mean_change`, or the step leaves the range of float32; the optimizer
                state is then unchanged.
        """
        velocity = mean_change(base, reports, self._settings.weights)
        if self._velocity is not None:
            velocity += self._settings.momentum * self._velocity
        moved = _moved(base, self._settings.learning_rate * velocity)
        _average_buffers(moved, self._buffers, reports, self._settings.weights)
        self._velocity = velocity
        return moved

    def state(self) -> State:
        """Return the velocity u [P]; an empty state before the first aggregation."""
        return {} if self._velocity is None else {"velocity": self._velocity}

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        self._velocity = state["velocity"].astype(np.float64) if state else None


class _Adaptive(ABC):
    """Algorithm 2 of Reddi et al.; subclasses define its line on v.

    m <- beta1 m + (1 - beta1) Delta;  v <- (see the subclass);
    w <- w + learning_rate m / (sqrt(v) + tau);  m starts as 0 and v as tau^2.
    """

    def __init__(
        self,
        settings: FedAdagradSettings | FedAdamSettings | FedYogiSettings,
        *,
        buffers: BoolArray | None = None,
    ) -> None:
        """Start without state; `buffers` [P] are true where the model has no parameter."""
        self._settings = settings
        self._buffers = buffers
        self._moments: tuple[FloatArray, FloatArray] | None = None

    @abstractmethod
    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        """Return the next v [P], a new array, from v and the squared pseudo-gradient."""

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P], a new array.

        Raises:
            ValueError: as of `mean_change`, or the step leaves the range of float32; the optimizer
                state is then unchanged.
        """
        own = self._settings
        delta = mean_change(base, reports, own.weights)
        m, v = self._moments or (np.zeros(base.shape), np.full(base.shape, own.tau**2))
        m = own.beta1 * m + (1.0 - own.beta1) * delta
        v = self._next_v(v, np.square(delta))
        moved = _moved(base, own.learning_rate * m / (np.sqrt(v) + own.tau))
        _average_buffers(moved, self._buffers, reports, own.weights)
        self._moments = m, v
        return moved

    def state(self) -> State:
        """Return the moments m and v, each [P]; an empty state before the first aggregation."""
        return {} if self._moments is None else dict(zip("mv", self._moments, strict=True))

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        self._moments = None
        if state:
            self._moments = state["m"].astype(np.float64), state["v"].astype(np.float64)


class FedAdagrad(_Adaptive):
    """Server Adagrad: v <- v + Delta^2, so steps of weights that changed much get smaller."""

    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        return v + squared


class FedAdam(_Adaptive):
    """Server Adam: v <- beta2 v + (1 - beta2) Delta^2, a moving average of the squares."""

    def __init__(self, settings: FedAdamSettings, *, buffers: BoolArray | None = None) -> None:
        super().__init__(settings, buffers=buffers)
        self._beta2 = settings.beta2

    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        return self._beta2 * v + (1.0 - self._beta2) * squared


class FedYogi(_Adaptive):
    """Server Yogi: v <- v - (1 - beta2) Delta^2 sign(v - Delta^2).

    v moves by the square itself, not by its distance to it.
    """

    def __init__(self, settings: FedYogiSettings, *, buffers: BoolArray | None = None) -> None:
        super().__init__(settings, buffers=buffers)
        self._beta2 = settings.beta2

    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        return v - (1.0 - self._beta2) * squared * np.sign(v - squared)


def _moved(base: Parameters, step: FloatArray) -> Parameters:
    """Return `base` plus `step`, both [P], in float32."""
    with np.errstate(over="ignore"):  # refused below
        moved = (base + step).astype(np.float32)
    if not np.isfinite(moved).all():
        raise ValueError(
            "the server's step leaves the range of float32 weights: its learning rate is too high"
        )
    return moved


def _average_buffers(
    model: Parameters, buffers: BoolArray | None, reports: Sequence[Report], weights: ClientWeights
) -> None:
    """Overwrite the buffers of `model` [P] with their mean over the delivered models."""
    if buffers is not None:
        mean = weighted_mean(model, reports, weights, takes_shares=False)
        model[buffers] = mean[buffers]
