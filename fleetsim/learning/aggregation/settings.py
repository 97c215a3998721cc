"""Union of the settings of all aggregators, without torch."""

from typing import Annotated

from pydantic import Field

from fleetsim.learning.aggregation.asynchronous import FedAsyncSettings, FedBuffSettings
from fleetsim.learning.aggregation.robust_rules import (
    GeometricMedianSettings,
    KrumSettings,
    MedianSettings,
    TrimmedMeanSettings,
)
from fleetsim.learning.aggregation.server_optimizers import (
    FedAdagradSettings,
    FedAdamSettings,
    FedAvgMSettings,
    FedYogiSettings,
)
from fleetsim.learning.aggregation.weighted_mean import FedAvgSettings

AggregatorSettings = Annotated[
    FedAvgSettings
    | FedAvgMSettings
    | FedAdagradSettings
    | FedAdamSettings
    | FedYogiSettings
    | FedBuffSettings
    | FedAsyncSettings
    | MedianSettings
    | TrimmedMeanSettings
    | KrumSettings
    | GeometricMedianSettings,
    Field(discriminator="kind"),
]
"""Settings of any aggregator, told apart by `kind`; `build` returns the aggregator.

`build` takes `buffers` [P], true where the flat vector holds no trained parameter but a buffer,
such as the running variance of a BatchNorm. Buffers are averaged and take no optimizer step. None:
the model has no buffers.
"""
