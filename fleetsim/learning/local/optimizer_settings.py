"""Settings of the clients' optimizers, without torch.

Equations, and what an optimizer keeps, are in `fleetsim.learning.local.optimizers`.
"""

from abc import abstractmethod
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le, Lt
from pydantic import Field, model_validator

from fleetsim.learning.local.rate_schedules import (
    ConstantRateSettings,
    DecaySettings,
    NoDecaySettings,
    StepScheduleSettings,
)
from fleetsim.schema.explained_keys import USUAL_KIND
from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.schema.ranges import LearningRate, StepFactor
from fleetsim.settings import Settings

Share = Annotated[float, Ge(0), Lt(1)]
"""Share of a moving average's previous value."""
Epsilon = Annotated[float, Ge(1e-30), Le(1e6)]
"""Small number that is added to a divisor."""
WeightDecay = Annotated[StepFactor, Ge(0)]


class LocalOptimizerKind(Settings):
    """Settings of one kind of optimizer; its state is 0 at the start of every task."""

    acts_if = by_key(
        decay=TRAINING, warm_up_rounds=TRAINING, within_task=TRAINING, weight_decay=TRAINING
    )

    kind: str
    learning_rate: LearningRate
    """Step size of local training, before schedules."""
    decay: DecaySettings = NoDecaySettings()
    """Decay of the step size over rounds."""
    warm_up_rounds: Annotated[int, Ge(0), Le(100_000_000)] = 0
    """Rounds over which the step size grows linearly: in round t it is multiplied by
    min(1, t / warm_up_rounds)."""
    within_task: StepScheduleSettings = ConstantRateSettings()
    """Schedule of the step size over the steps of a task, on top of that over rounds."""
    weight_decay: WeightDecay = 0.0
    """Factor of the L2 penalty's gradient, which is added to every gradient."""

    def learning_rate_at(self, round_: int) -> float:
        """Return the learning rate of a task that is dispatched in a round, 1 for the first."""
        rate = self.learning_rate * self.decay.factor_at(round_)
        return rate * min(max(round_, 1) / max(self.warm_up_rounds, 1), 1.0)

    @property
    @abstractmethod
    def num_moments(self) -> int:
        """Numbers that the optimizer keeps for each weight."""


class SgdSettings(LocalOptimizerKind):
    """Stochastic gradient descent."""

    acts_if = by_key(dampening=TRAINING, nesterov=TRAINING)

    kind: Literal["sgd"] = "sgd"
    momentum: Share = 0.0
    """Heavy-ball momentum; 0 is plain SGD."""
    dampening: Annotated[float, Ge(0), Le(1)] = 0.0
    """Share by which a gradient's part in the velocity is reduced, from the second step on."""
    nesterov: bool = False
    """If true, the step is along the gradient plus momentum times the new velocity."""

    @model_validator(mode="after")
    def _momentum_is_there(self) -> Self:
        if self.momentum == 0.0 and (self.nesterov or self.dampening):
            key = "nesterov" if self.nesterov else "dampening"
            raise ValueError(f"{key} changes momentum, which is 0; set momentum, or leave it out")
        if self.nesterov and self.dampening:
            raise ValueError("nesterov is defined without dampening; leave one of them out")
        return self

    @property
    def num_moments(self) -> int:
        """The velocity, with momentum alone."""
        return int(self.momentum > 0.0)

    @property
    def is_heavy_ball(self) -> bool:
        """True if steps are those of plain SGD or heavy-ball momentum, at one rate in a task."""
        is_constant = isinstance(self.within_task, ConstantRateSettings)
        return is_constant and not self.nesterov and not self.dampening


class AdamOptions(LocalOptimizerKind):
    """Settings of Adam's moments."""

    acts_if = by_key(beta1=TRAINING, beta2=TRAINING, epsilon=TRAINING)

    beta1: Share = 0.9
    """Share of the mean gradient that is kept."""
    beta2: Share = 0.999
    """Share of the mean square that is kept."""
    epsilon: Epsilon = 1e-8
    """Added to the root of the mean square."""

    @property
    def num_moments(self) -> int:
        """Mean and mean square of the gradients."""
        return 2


class AdamSettings(AdamOptions):
    """Adam (Kingma, Ba 2015), with the L2 penalty in its gradient."""

    kind: Literal["adam"] = "adam"


class AdamWSettings(AdamOptions):
    """Adam whose weights decay apart from the gradient (Loshchilov, Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    weight_decay: WeightDecay = 0.01
    """Share of a weight, times the learning rate, that each step takes off."""


class AdagradSettings(LocalOptimizerKind):
    """AdaGrad (Duchi, Hazan, Singer 2011)."""

    acts_if = by_key(initial_sum=TRAINING, epsilon=TRAINING)

    kind: Literal["adagrad"] = "adagrad"
    initial_sum: Annotated[float, Ge(0), Le(1e12)] = 0.0
    """Sum of squares at the start of a task."""
    epsilon: Epsilon = 1e-10
    """Added to the root of the sum of squares."""

    @property
    def num_moments(self) -> int:
        """The sum of squares."""
        return 1


class RmsPropSettings(LocalOptimizerKind):
    """RMSprop (Tieleman, Hinton 2012)."""

    acts_if = by_key(alpha=TRAINING, epsilon=TRAINING)

    kind: Literal["rmsprop"] = "rmsprop"
    alpha: Share = 0.99
    """Share of the mean square that is kept."""
    epsilon: Epsilon = 1e-8
    """Added to the root of the mean square."""
    centered: bool = False
    """If true, the mean square is replaced by an estimate of the variance."""
    momentum: Share = 0.0
    """Momentum of the scaled gradients."""

    @property
    def num_moments(self) -> int:
        """The mean square; the mean if centered; the velocity with momentum."""
        return 1 + self.centered + (self.momentum > 0.0)


OptimizerSettings = Annotated[
    SgdSettings | AdamSettings | AdamWSettings | AdagradSettings | RmsPropSettings,
    Field(discriminator="kind", json_schema_extra={USUAL_KIND: "sgd"}),
]
"""Settings of any optimizer of clients, told apart by `kind`."""
