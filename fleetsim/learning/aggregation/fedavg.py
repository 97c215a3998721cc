"""Federated averaging (McMahan et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, Parameters, Report
from fleetsim.learning.aggregation.aggregator_kind import AggregatorKind
from fleetsim.learning.aggregation.stateless import Stateless
from fleetsim.learning.aggregation.weighted_mean import ClientWeights, weighted_mean


class FedAvgSettings(AggregatorKind):
    """Weighted mean of the delivered models (McMahan et al. 2017)."""

    kind: Literal["fedavg"] = "fedavg"
    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""

    def build(self, *, buffers: BoolArray | None = None) -> FedAvg:
        """Return a new aggregator; `buffers` [P] are averaged like parameters."""
        return FedAvg(self)


class FedAvg(Stateless):
    """Aggregator whose next model is the weighted mean of the delivered models."""

    def __init__(self, settings: FedAvgSettings) -> None:
        self._weights = settings.weights

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the mean of the delivered models [P], a new array without a share of `base`.

        Reports that were not delivered or carry no vector are ignored.

        Raises:
            ValueError: nothing was delivered, no client has a sample, or a vector has another shape
                than the global model or is not finite.
        """
        return weighted_mean(base, reports, self._weights).astype(np.float32)
