"""Federated averaging (McMahan et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, Parameters, Report
from fleetsim.learning.aggregation.aggregator_kind import AggregatorKind, Stateless
from fleetsim.learning.aggregation.weighted_mean import ClientWeights, weighted_mean


class FedAvgSettings(AggregatorKind):
    """Weighted mean of the delivered models (McMahan et al. 2017)."""

    kind: Literal["fedavg"] = "fedavg"
    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""

    def build(self, *, buffers: BoolArray | None = None) -> FedAvg:
        """Return a new aggregator; `buffers` [P] are averaged like parameters."""
        return FedAvg(self)


class FedAvg(Stateless[FedAvgSettings]):
    """Aggregator whose next model is the weighted mean of the delivered models."""

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the mean of the delivered models [P], a new array without a share of `base`."""
        return weighted_mean(base, reports, self._settings.weights).astype(np.float32)
