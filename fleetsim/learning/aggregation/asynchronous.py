"""Asynchronous aggregation: FedAsync and FedBuff, with weights for stale updates.

tau_k is the staleness of update k: the number of versions of the global model since its base w_k^0.
Its weight s(tau) is one of (Xie, Koyejo, Gupta, "Asynchronous federated optimization", 2019, 5.2;
the same in Xie's code, xcgoner/async_fl@4730eeb)

    constant    1
    polynomial  (tau + 1)^(-a)
    hinge       1 if tau <= b, else 1 / (a (tau - b) + 1)

* FedAsync (same paper): for each update in the order of arrival,
  w <- (1 - alpha s(tau)) w + alpha s(tau) w_k.
* FedBuff (Nguyen et al., "Federated learning with buffered asynchronous aggregation", 2022):
  w <- w + (eta / K) sum over the buffer of s(tau_k) (w_k - w_k^0), K the number of updates in it,
  s(tau) = 1 / sqrt(1 + tau), the polynomial of a = 0.5.

Three cases change these weights:

* Partial training: where the server weights an update by its completed share c_k
  (`Report.weight_fraction`), c_k s(tau_k) replaces s(tau_k).
* Weights v_k from the selector (`Report.weight`): FedBuff's mean is weighted,
  w <- w + eta sum v_k s(tau_k) (w_k - w_k^0) / sum v_k, without the divisor if they are shares.
  FedAsync computes no mean and refuses such weights.
* Buffers of the model (running statistics of a BatchNorm) take no step, because a variance must not
  become negative. FedBuff takes their mean over its buffer, weighted by s(tau_k). FedAsync mixes
  them like parameters, which is a mean already.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.weighted_mean import (
    LEAST_SUM,
    RuleKind,
    are_shares,
    check_finite,
    check_weights,
    delivered,
)
from fleetsim.schema.key_conditions import BUFFERED, by_key
from fleetsim.schema.ranges import Gain, PositiveFraction
from fleetsim.settings import Settings


class ConstantStaleness(Settings):
    """Weight 1 for every update."""

    kind: Literal["constant"] = "constant"

    def weight(self, staleness: int) -> float:
        """Return the weight s(tau) of an update."""
        return 1.0


class PolynomialStaleness(Settings):
    """Weight (tau + 1)^(-a)."""

    kind: Literal["polynomial"] = "polynomial"
    a: Gain = 0.5
    """Exponent."""

    def weight(self, staleness: int) -> float:
        """Return the weight s(tau) of an update.

        >>> PolynomialStaleness(a=0.5).weight(3)
        0.5
        """
        return float((staleness + 1) ** -self.a)


class HingeStaleness(Settings):
    """Weight 1 up to b versions, 1 / (a (tau - b) + 1) beyond.

    The defaults of a and b are those of WwZzz/easyFL@a8a7f05 (FLGo).
    """

    kind: Literal["hinge"] = "hinge"
    a: Gain = 10.0
    """Factor of the staleness beyond b."""
    b: Annotated[int, Field(ge=0, le=100_000_000)] = 6
    """Largest staleness with weight 1."""

    def weight(self, staleness: int) -> float:
        """Return the weight s(tau) of an update.

        >>> HingeStaleness(a=10.0, b=6).weight(7)
        0.09090909090909091
        """
        return 1.0 if staleness <= self.b else 1.0 / (self.a * (staleness - self.b) + 1.0)


StalenessSettings = Annotated[
    ConstantStaleness | PolynomialStaleness | HingeStaleness, Field(discriminator="kind")
]
"""Settings of any staleness weight, told apart by `kind`."""


class FedAsyncSettings(RuleKind):
    """Mixture of the model with each update on its arrival (Xie et al. 2019)."""

    acts_if = by_key(staleness=BUFFERED)

    kind: Literal["fedasync"] = "fedasync"
    sees_single_updates: ClassVar[bool] = True
    mixing: PositiveFraction = 0.6
    """Share alpha of a fresh update in the new model."""
    staleness: StalenessSettings = PolynomialStaleness()
    """Weight of an update by the versions of the model since its client received one."""

    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the model [P] after these updates, in the order of arrival."""
        model = base.astype(np.float64)
        for report, vector, _ in _updates(reports):
            if report.weight is not None:
                raise ScenarioError(
                    "server.aggregator.kind = 'fedasync' mixes updates in one by one and has no"
                    f" mean for the weights that the selector gives (client {report.client}:"
                    f" {report.weight:g}); use fedbuff or fedavg, or a selector without weights"
                )
            share = self.mixing * _weight(self.staleness, report)
            model = (1.0 - share) * model + share * vector
        return model.astype(np.float32)


class FedBuffSettings(RuleKind):
    """Step along the mean change of a buffer of updates, weighted by staleness (Nguyen 2022)."""

    acts_if = by_key(staleness=BUFFERED)

    kind: Literal["fedbuff"] = "fedbuff"
    server_learning_rate: Gain = 1.0
    """Step size eta along the mean change."""
    staleness: StalenessSettings = PolynomialStaleness()
    """Weight of an update by the versions of the model since its client received one."""

    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the model [P] after one step along the mean change of the updates."""
        updates = _updates(reports)
        given = [1.0 if report.weight is None else report.weight for report, _, _ in updates]
        check_weights(given, reports)
        weights: list[float] = []
        change = np.zeros(base.shape, dtype=np.float64)
        for weight, (report, vector, started_from) in zip(given, updates, strict=True):
            weights.append(weight * _weight(self.staleness, report))
            change += weights[-1] * (vector - started_from)
        divisor = 1.0 if are_shares(reports) else sum(given)
        step = self.server_learning_rate / divisor
        with np.errstate(over="ignore"):  # the server refuses what is not finite
            model: Parameters = (base + step * change).astype(np.float32)
        # Updates so stale that their weights are 0 move nothing.
        if buffers is not None and buffers.any() and sum(weights) >= LEAST_SUM:
            sent = [vector[buffers] for _, vector, _ in updates]
            model[buffers] = np.average(sent, axis=0, weights=weights)
        return model


def _weight(settings: StalenessSettings, report: Report) -> float:
    """Return the weight of an update: of its staleness, times its share of the training."""
    return settings.weight(report.staleness) * report.weight_fraction


def _updates(reports: Sequence[Report]) -> list[tuple[Report, FloatArray, FloatArray]]:
    """Return and check (report, new parameters, base) of delivered updates in arrival order."""
    updates = []
    for report, vector in delivered(reports, attrgetter("finished_at_s", "client")):
        if report.base is None:
            raise ValueError(f"client {report.client} does not say which model it started from")
        check_finite(report.client, vector)
        updates.append((report, vector.astype(np.float64), report.base.astype(np.float64)))
    return updates
