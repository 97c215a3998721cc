"""Settings of local training, without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from annotated_types import Ge, Le, Lt
from pydantic import Field, model_validator

from fleetsim.schema.effects import BEFORE_LAST_ROUND, TRAINING, by_key
from fleetsim.schema.ranges import Epochs, LearningRate, Rounds, Samples, StepFactor, Steps
from fleetsim.settings import Settings

Precision = Literal["float32", "mixed"]
"""Precision of training; `mixed` is bfloat16 arithmetic on float32 weights."""


class NoDecaySettings(Settings):
    """The same learning rate in every round."""

    kind: Literal["none"] = "none"


class StepDecaySettings(Settings):
    """The learning rate is multiplied by a factor after each of some rounds."""

    entries_act_if = by_key(after_rounds=(BEFORE_LAST_ROUND,))

    kind: Literal["steps"] = "steps"
    after_rounds: Annotated[tuple[Rounds, ...], Field(min_length=1)]
    """Rounds after which it is multiplied once more, ascending: the next one is the first with the
    new rate."""
    factor: Annotated[float, Ge(1e-30), Le(1)]
    """What it is multiplied by each time."""

    @model_validator(mode="after")
    def _rounds_ascend(self) -> Self:
        if sorted(set(self.after_rounds)) != list(self.after_rounds):
            raise ValueError(f"after_rounds must be ascending, got {list(self.after_rounds)}")
        return self


class ExponentialDecaySettings(Settings):
    """The learning rate is multiplied by a factor after every so many rounds."""

    kind: Literal["exponential"] = "exponential"
    factor: Annotated[float, Ge(1e-30), Le(1)]
    """What it is multiplied by each time."""
    every_rounds: Rounds = 1
    """Rounds between two multiplications."""


DecaySettings = Annotated[
    NoDecaySettings | StepDecaySettings | ExponentialDecaySettings, Field(discriminator="kind")
]


class SgdSettings(Settings):
    """Stochastic gradient descent; its momentum starts from nothing in every task."""

    acts_if = by_key(
        decay=TRAINING,
        weight_decay=TRAINING,
    )

    kind: Literal["sgd"] = "sgd"
    learning_rate: LearningRate
    """Step size of the local updates, in the first round."""
    decay: DecaySettings = NoDecaySettings()
    """How the step size falls from round to round."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Heavy-ball momentum, without dampening; 0 is plain SGD."""
    weight_decay: Annotated[StepFactor, Ge(0)] = 0.0
    """Factor of the L2 penalty's gradient that is added to every gradient."""


OptimizerSettings = SgdSettings


class LocalSettings(Settings):
    """What a client does with the model that it was sent."""

    epochs: Epochs | None = None
    """Passes over the client's own samples in one task; this or `steps`."""
    steps: Steps | None = None
    """Steps of SGD in one task, for every client as many, through its samples as often as that
    takes; this or `epochs`."""
    batch_size: Samples
    """Samples of one step; the last batch of an epoch may be smaller."""
    optimizer: OptimizerSettings
    proximal_mu: Annotated[StepFactor, Ge(0)] = 0.0
    """Weight of FedProx's pull towards the model that was sent; 0 is FedAvg's local objective."""
    partial_fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    """Chance that a client trains only a part in a task, as FedProx's stragglers do: any number of
    epochs (or steps) below the full one, all as likely, at least one."""
    clock_fraction: Annotated[float, Ge(0.001), Le(1)] = 1.0
    """Share of its full clock at which a device trains: slower in proportion, at the square of it
    in power."""

    @model_validator(mode="after")
    def _counts_one_way(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(
                "give either epochs or steps, how much a client trains in one task; null takes one"
                " back"
            )
        if self.partial_fraction and (self.epochs or self.steps or 0) < 2:
            raise ValueError(
                "partial_fraction needs at least 2 epochs or steps; raise them, or leave it out"
            )
        return self
