"""Server optimizers: the clients' mean change is a gradient that the server steps along.

The pseudo-gradient of an aggregation is the weighted mean of what the clients changed,

    Delta = sum_k a_k (w_k - w_k^0) / sum_k a_k,

or the sum alone where a selector gives shares (see `weighted_mean`), w_k^0 the model that client k
was sent: the current model w, but where an update is stale. The next
model is w + (a step made of Delta and of what is remembered of earlier ones). A server that
remembers nothing and steps by Delta is FedAvg.

FedAvgM: Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated
visual classification", arXiv:1909.06335, 2019. FedAdagrad, FedAdam, FedYogi: Reddi et al.,
"Adaptive federated optimization", ICLR 2021, algorithm 2; without bias correction, as there (its
authors' experiments, google-research/federated, start v at 0 and correct the bias).

What is remembered is float64: no change of float32 weights can overflow when it is squared, and
FedAdagrad's ever-growing sum loses no small addend. It is never changed in place, so `state` need
not copy. Where nothing was aggregated it stays as it was.

Running means and variances of normalisation layers are no parameters: a step along a remembered
direction would make a variance negative. The `buffers` of a model take the plain mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report, State
from fleetsim.learning.aggregation.settings import (
    ClientWeights,
    FedAdagradSettings,
    FedAdamSettings,
    FedAvgMSettings,
    FedYogiSettings,
)
from fleetsim.learning.aggregation.weighted_mean import mean_change, weighted_mean


class FedAvgM:
    """Momentum on the server: u <- momentum u + Delta, w <- w + learning_rate u; u starts as 0.

    With momentum 0 and learning rate 1 it is FedAvg.
    """

    def __init__(self, settings: FedAvgMSettings, *, buffers: BoolArray | None = None) -> None:
        """Remember nothing yet; `buffers` [P] are true where the model has no parameter."""
        self._settings = settings
        self._buffers = buffers
        self._velocity: FloatArray | None = None

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Next model [P], a new array.

        Raises:
            ValueError: as of `mean_change`, or the step leaves the range of float32; nothing is
                remembered of such an aggregation.
        """
        velocity = mean_change(base, reports, self._settings.weights)
        if self._velocity is not None:
            velocity += self._settings.momentum * self._velocity
        moved = _moved(base, self._settings.learning_rate * velocity)
        _average_buffers(moved, self._buffers, reports, self._settings.weights)
        self._velocity = velocity
        return moved

    def state(self) -> State:
        """The velocity u [P]; nothing before the first aggregation."""
        return {} if self._velocity is None else {"velocity": self._velocity}

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self._velocity = state["velocity"].astype(np.float64) if state else None


class _Adaptive(ABC):
    """Algorithm 2 of Reddi et al. but for its line on v.

    m <- beta1 m + (1 - beta1) Delta;  v <- (see the subclass);
    w <- w + learning_rate m / (sqrt(v) + tau);  m starts as 0 and v as tau^2.
    """

    def __init__(
        self,
        settings: FedAdagradSettings | FedAdamSettings | FedYogiSettings,
        *,
        buffers: BoolArray | None = None,
    ) -> None:
        """Remember nothing yet; `buffers` [P] are true where the model has no parameter."""
        self._settings = settings
        self._buffers = buffers
        self._moments: tuple[FloatArray, FloatArray] | None = None

    @abstractmethod
    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        """The next v [P] from the last one and the squares of the pseudo-gradient; a new array."""

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Next model [P], a new array.

        Raises:
            ValueError: as of `mean_change`, or the step leaves the range of float32; nothing is
                remembered of such an aggregation.
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
        """The moments m and v, each [P]; nothing before the first aggregation."""
        return {} if self._moments is None else dict(zip("mv", self._moments, strict=True))

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self._moments = None
        if state:
            self._moments = state["m"].astype(np.float64), state["v"].astype(np.float64)


class FedAdagrad(_Adaptive):
    """v <- v + Delta^2: what has changed much already changes less and less."""

    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        return v + squared


class FedAdam(_Adaptive):
    """v <- beta2 v + (1 - beta2) Delta^2: a moving average of the squares."""

    def __init__(self, settings: FedAdamSettings, *, buffers: BoolArray | None = None) -> None:
        super().__init__(settings, buffers=buffers)
        self._beta2 = settings.beta2

    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        return self._beta2 * v + (1.0 - self._beta2) * squared


class FedYogi(_Adaptive):
    """v <- v - (1 - beta2) Delta^2 sign(v - Delta^2): v moves by squares, not by its distance."""

    def __init__(self, settings: FedYogiSettings, *, buffers: BoolArray | None = None) -> None:
        super().__init__(settings, buffers=buffers)
        self._beta2 = settings.beta2

    def _next_v(self, v: FloatArray, squared: FloatArray) -> FloatArray:
        return v - (1.0 - self._beta2) * squared * np.sign(v - squared)


def _moved(base: Parameters, step: FloatArray) -> Parameters:
    """Model after a step, both [P], in float32."""
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
    """Put the mean of the delivered models where `model` [P] has buffers."""
    if buffers is not None:
        mean = weighted_mean(model, reports, weights, takes_shares=False)
        model[buffers] = mean[buffers]
