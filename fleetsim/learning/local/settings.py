"""Settings of local training, without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from annotated_types import Ge, Le, Lt
from pydantic import model_validator

from fleetsim.learning.local.learning_rate_decay import DecaySettings, NoDecaySettings
from fleetsim.schema.effects import TRAINING, by_key
from fleetsim.schema.ranges import Epochs, LearningRate, Samples, StepFactor, Steps
from fleetsim.settings import Settings

Precision = Literal["float32", "mixed"]
"""Precision of training; `mixed` is bfloat16 arithmetic on float32 weights."""


class SgdSettings(Settings):
    """Stochastic gradient descent; its velocity is 0 at the start of every task."""

    acts_if = by_key(
        decay=TRAINING,
        weight_decay=TRAINING,
    )

    kind: Literal["sgd"] = "sgd"
    learning_rate: LearningRate
    """Step size of local SGD in the first round."""
    decay: DecaySettings = NoDecaySettings()
    """Decay of the step size over rounds."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Heavy-ball momentum, without dampening; 0 is plain SGD."""
    weight_decay: Annotated[StepFactor, Ge(0)] = 0.0
    """Factor of the L2 penalty's gradient, which is added to every gradient."""

    def learning_rate_at(self, round_: int) -> float:
        """Return the learning rate of a task that is dispatched in a round, 1 for the first.

        >>> SgdSettings(learning_rate=0.004).learning_rate_at(7)
        0.004
        """
        return self.learning_rate * self.decay.factor_at(round_)


OptimizerSettings = SgdSettings


class LocalSettings(Settings):
    """Local training of a client, from the model that the server sent."""

    epochs: Epochs | None = None
    """Passes over the client's own samples in one task; this or `steps`."""
    steps: Steps | None = None
    """SGD steps in one task, the same number for every client, in as many passes as needed; this or
    `epochs`."""
    batch_size: Samples
    """Samples of one SGD step; the last batch of an epoch may be smaller."""
    optimizer: OptimizerSettings
    proximal_mu: Annotated[StepFactor, Ge(0)] = 0.0
    """Weight of FedProx's proximal term, which holds the weights near the model that the server
    sent; 0 is FedAvg's local objective."""
    partial_fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    """Probability that a client trains only partly in a task, as FedProx's stragglers do. The
    number of epochs (or steps) is then uniform between 1 and one less than the full number."""
    clock_fraction: Annotated[float, Ge(0.001), Le(1)] = 1.0
    """Share of its full clock at which a device trains. Speed falls in proportion, power with the
    square."""

    @model_validator(mode="after")
    def _has_one_length(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(
                "give either epochs or steps, the length of a client's training in one task; null"
                " takes one back"
            )
        if self.partial_fraction and (self.epochs or self.steps or 0) < 2:
            raise ValueError(
                "partial_fraction needs at least 2 epochs or steps; raise them, or leave it out"
            )
        return self
