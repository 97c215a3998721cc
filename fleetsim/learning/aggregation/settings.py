"""Settings of the aggregators that a scenario can name, without torch."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Lt
from pydantic import Field

from fleetsim.learning.aggregation.asynchronous import FedAsyncSettings, FedBuffSettings
from fleetsim.schema.ranges import LearningRate, StepFactor
from fleetsim.settings import Settings

ClientWeights = Literal["samples", "uniform"]
"""Whether a client counts by its number of samples, or every client the same."""
Decay = Annotated[float, Ge(0), Lt(1)]
"""Share of what was remembered that is kept."""
Positive = LearningRate
Tau = Annotated[StepFactor, Ge(1e-12)]


class FedAvgSettings(Settings):
    """Weighted mean of the delivered models (McMahan et al. 2017)."""

    kind: Literal["fedavg"] = "fedavg"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""


class FedAvgMSettings(Settings):
    """FedAvg with momentum on the server (Hsu, Qi, Brown 2019)."""

    kind: Literal["fedavgm"] = "fedavgm"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Positive = 1.0
    """Step size of the server along its velocity."""
    momentum: Decay = 0.9
    """Share of the velocity that is kept; with 0 and learning rate 1 this is FedAvg."""


class FedAdagradSettings(Settings):
    """Adagrad on the server (Reddi et al. 2021)."""

    kind: Literal["fedadagrad"] = "fedadagrad"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Annotated[Positive, Field(examples=[0.1])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.03 to 10."""
    beta1: Decay = 0.0
    """Share of the mean change m that is kept; 0 is Adagrad without momentum."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""


class FedAdamSettings(Settings):
    """Adam on the server, without bias correction (Reddi et al. 2021)."""

    kind: Literal["fedadam"] = "fedadam"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Annotated[Positive, Field(examples=[0.01])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.003 to 1."""
    beta1: Decay = 0.9
    """Share of the mean change m that is kept."""
    beta2: Decay = 0.99
    """Share of the mean square v that is kept."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""


class FedYogiSettings(Settings):
    """Yogi on the server (Reddi et al. 2021)."""

    kind: Literal["fedyogi"] = "fedyogi"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Annotated[Positive, Field(examples=[0.01])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.003 to 1."""
    beta1: Decay = 0.9
    """Share of the mean change m that is kept."""
    beta2: Decay = 0.99
    """One minus this is the share of a square by which v moves towards it."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""


AggregatorSettings = Annotated[
    FedAvgSettings
    | FedAvgMSettings
    | FedAdagradSettings
    | FedAdamSettings
    | FedYogiSettings
    | FedBuffSettings
    | FedAsyncSettings,
    Field(discriminator="kind"),
]
"""Settings of any aggregator, told apart by `kind`."""
