"""How the models that clients delivered become the next global model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import Aggregator, BoolArray, Parameters, Report, State
from fleetsim.learning.aggregation.asynchronous import (
    FedAsync,
    FedAsyncSettings,
    FedBuff,
    FedBuffSettings,
)
from fleetsim.learning.aggregation.server_optimizers import FedAdagrad, FedAdam, FedAvgM, FedYogi
from fleetsim.learning.aggregation.settings import (
    AggregatorSettings,
    FedAdagradSettings,
    FedAdamSettings,
    FedAvgMSettings,
    FedAvgSettings,
    FedYogiSettings,
)
from fleetsim.learning.aggregation.weighted_mean import weighted_mean


class FedAvg:
    """The next model is the weighted mean of the delivered ones (McMahan et al. 2017)."""

    def __init__(self, settings: FedAvgSettings) -> None:
        self._weights = settings.weights

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Mean of the delivered models [P], a new array; the old model has no share in it.

        Reports that were not delivered or carry no vector are passed over.

        Raises:
            ValueError: nothing was delivered, nobody has a sample, or a vector has another shape
                than the global model or is not finite.
        """
        return weighted_mean(base, reports, self._weights).astype(np.float32)

    def state(self) -> State:
        """Nothing: every mean stands for itself."""
        return {}

    def restore(self, state: State) -> None:
        """Take back nothing."""


def build_aggregator(
    settings: AggregatorSettings, *, buffers: BoolArray | None = None
) -> Aggregator:
    """The aggregator that a scenario asks for.

    Args:
        settings: which one.
        buffers: true where the flat vector holds no trained parameter but a buffer, such as the
            running variance of a BatchNorm [P]; it is averaged and takes no steps. None: nowhere.
    """
    match settings:
        case FedAvgSettings():
            return FedAvg(settings)
        case FedAvgMSettings():
            return FedAvgM(settings, buffers=buffers)
        case FedAdagradSettings():
            return FedAdagrad(settings, buffers=buffers)
        case FedAdamSettings():
            return FedAdam(settings, buffers=buffers)
        case FedYogiSettings():
            return FedYogi(settings, buffers=buffers)
        case FedBuffSettings():
            return FedBuff(settings, buffers=buffers)
        case FedAsyncSettings():
            return FedAsync(settings)
