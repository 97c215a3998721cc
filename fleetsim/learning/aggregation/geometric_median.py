"""Geometric median of updates by the smoothed Weiszfeld algorithm (RFA, Pillutla et al. 2022).

The geometric median of updates x_k with weights a_k, sum a_k = 1, minimises

    g(v) = sum_k a_k |v - x_k|.

From the weighted mean on, each iteration takes the mean with weights that are smaller the further
an update is from the present v:

    b_k = a_k / max(nu, |v - x_k|),      v <- sum_k b_k x_k / sum_k b_k.

nu > 0 avoids a division by zero where v meets an update; v then tends to a point whose g exceeds
the least one by at most nu / 2.

Source: Pillutla, Kakade, Harchaoui, "Robust aggregation for federated learning", IEEE Transactions
on Signal Processing, 2022; arXiv:1912.13445. The paper's server runs three iterations, because each
is one secure sum over the clients. Here the server sees the updates, so that it may run many.

a_k are those of the weighted mean: samples or ones, or the weights that a selector gives. Distances
are over the parameters alone; buffers (statistics of a BatchNorm) take the mean of the last b_k.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.aggregator_kind import RuleKind
from fleetsim.learning.aggregation.robust_updates import Updates
from fleetsim.learning.aggregation.weighted_mean import ClientWeights, check_weights, weight_of
from fleetsim.schema.ranges import Gain


class GeometricMedianSettings(RuleKind):
    """Point of the least sum of distances to the updates (Pillutla et al. 2022)."""

    kind: Literal["geometric-median"] = "geometric-median"
    sees_single_updates: ClassVar[bool] = True
    weights: ClientWeights = "samples"
    """Weight of a client's distance: its number of samples, or the same for all clients."""
    smoothing: Gain = 1e-6
    """Distance nu below which an update has the same weight as at this distance."""
    iterations: Annotated[int, Field(ge=1, le=100_000, examples=[20])] = 3
    """Number of iterations of the smoothed Weiszfeld algorithm."""

    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the next model [P]."""
        updates = Updates.of(base, reports, buffers)
        for report in updates.reports:
            if report.is_share:
                raise ScenarioError(
                    "server.aggregator.kind = 'geometric-median' divides weights by their sum and"
                    f" cannot use the shares that the selector gives (client {report.client}:"
                    f" {report.weight:g}); use fedavg, or a selector without shares"
                )
        given = [weight_of(report, self.weights) for report in updates.reports]
        check_weights(given, reports)
        weights = np.array(given, dtype=np.float64)
        weights /= weights.sum()
        middle = _mean(updates, weights)
        for _ in range(self.iterations):
            apart = np.maximum(self.smoothing, _distances(updates, middle))
            middle = _mean(updates, weights / apart)
        return updates.model(middle)


def _mean(updates: Updates, weights: FloatArray) -> FloatArray:
    """Return the weighted mean of the values of updates [P]."""
    mean = np.empty(updates.base.shape, dtype=np.float64)
    share = weights / weights.sum()
    for part, values in updates.blocks():
        mean[part] = np.einsum("k,kp->p", share, values)
    return mean


def _distances(updates: Updates, middle: FloatArray) -> FloatArray:
    """Return the distances of updates from a point [P], over the parameters alone [K]."""
    squares = np.zeros(len(updates.reports), dtype=np.float64)
    for part, values in updates.blocks():
        trained = ~updates.buffers[part]
        apart = values[:, trained] - middle[part][trained]
        squares += np.einsum("kp,kp->k", apart, apart)
    return np.sqrt(squares)
