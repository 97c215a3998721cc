"""What a scenario may say about the model, local training and aggregation.

No torch here, so that a scenario is validated without importing it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import Field, PositiveInt

from fleetsim.settings import Settings

Units = Annotated[int, Gt(0), Le(1_000_000)]
"""Units of a layer."""
StepFactor = Annotated[float, Le(1e30)]
"""What multiplies weights or gradients; bounded, because these are 32-bit floats."""

# --- models -------------------------------------------------------------------------------------


class LogisticSettings(Settings):
    """Multinomial logistic regression: one linear layer."""

    kind: Literal["logistic"] = "logistic"


class TwoNNSettings(Settings):
    """The "2NN" of McMahan et al. (2017): two hidden layers with ReLU."""

    kind: Literal["2nn"] = "2nn"
    hidden: tuple[Units, Units] = (200, 200)
    """Units of the first and of the second hidden layer."""


class FedGraCnnSettings(Settings):
    """The CNN of FedGRA (arXiv 2310.08147, table III): two 5x5 convolutions, 512 units."""

    kind: Literal["fedgra-cnn"] = "fedgra-cnn"


class LeNet5Settings(Settings):
    """LeNet-5 (LeCun et al. 1998) with ReLU and max-pooling."""

    kind: Literal["lenet5"] = "lenet5"


ModelSettings = Annotated[
    LogisticSettings | TwoNNSettings | FedGraCnnSettings | LeNet5Settings,
    Field(discriminator="kind"),
]

# --- local training -----------------------------------------------------------------------------


class SgdSettings(Settings):
    """Stochastic gradient descent; its momentum starts from nothing in every task."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: Annotated[StepFactor, Gt(0)]
    """Step size of the local updates."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Heavy-ball momentum, without dampening; 0 is plain SGD."""
    weight_decay: Annotated[StepFactor, Ge(0)] = 0.0
    """Factor of the L2 penalty's gradient that is added to every gradient."""


OptimizerSettings = SgdSettings


class LocalSettings(Settings):
    """What a client does with the model that it was sent."""

    epochs: PositiveInt
    """Passes over the client's own samples in one task."""
    batch_size: PositiveInt
    """Samples of one step; the last batch of an epoch may be smaller."""
    optimizer: OptimizerSettings
    proximal_mu: Annotated[StepFactor, Ge(0)] = 0.0
    """Weight of FedProx's pull towards the model that was sent; 0 is FedAvg's local objective."""


# --- aggregation --------------------------------------------------------------------------------


class FedAvgSettings(Settings):
    """Weighted mean of the delivered models (McMahan et al. 2017)."""

    kind: Literal["fedavg"] = "fedavg"
    weights: Literal["samples", "uniform"] = "samples"
    """Whether a client counts by its number of samples, or every client the same."""


AggregatorSettings = FedAvgSettings
