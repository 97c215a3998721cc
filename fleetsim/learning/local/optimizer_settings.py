"""Settings of the clients' optimizers and of the schedules of their learning rate, without torch.

Equations, and what an optimizer keeps, are in `fleetsim.learning.local.optimizers`.

A task trains at the rate of the round in which the server dispatches it. A task of S steps trains
its step s = 1 .. S at that rate times `factor_at(s, S)`. S is the length of the scenario's own
training for this client, `task.local.epochs` or `steps`: a task that is shorter (interrupted, or
asked for less) takes the first steps of the schedule, so that its steps are those of the whole
training. Steps beyond S have the factor of the last.
"""

import math
from abc import abstractmethod
from bisect import bisect_left
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le, Lt
from pydantic import AfterValidator, Field, model_validator

from fleetsim.schema.explained_keys import USUAL_KIND
from fleetsim.schema.key_conditions import BEFORE_LAST_ROUND, TRAINING, by_key
from fleetsim.schema.ranges import LearningRate, Rounds, StepFactor, Steps
from fleetsim.settings import Settings


def _ascending(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if sorted(set(numbers)) != list(numbers):
        raise ValueError(f"must be ascending, got {list(numbers)}")
    return numbers


class NoDecaySettings(Settings):
    """Constant learning rate."""

    kind: Literal["none"] = "none"

    def factor_at(self, round_: int) -> float:
        """Return the factor of the learning rate in a round, 1 for the first."""
        return 1.0


class StepDecaySettings(Settings):
    """Multiplication of the learning rate by a factor after each of some rounds."""

    entries_act_if = by_key(after_rounds=(BEFORE_LAST_ROUND,))

    kind: Literal["steps"] = "steps"
    after_rounds: Annotated[tuple[Rounds, ...], Field(min_length=1), AfterValidator(_ascending)]
    """Rounds after which the rate is multiplied once more, ascending: the next round is the first
    with the new rate."""
    factor: Annotated[float, Ge(1e-30), Le(1)]
    """Factor of each multiplication."""

    def factor_at(self, round_: int) -> float:
        """Return the factor of the learning rate in a round, 1 for the first."""
        return float(self.factor ** bisect_left(self.after_rounds, round_))


class ExponentialDecaySettings(Settings):
    """Multiplication of the learning rate by a factor after every so many rounds."""

    kind: Literal["exponential"] = "exponential"
    factor: Annotated[float, Ge(1e-30), Le(1)]
    """Factor of each multiplication."""
    every_rounds: Rounds = 1
    """Rounds between two multiplications."""

    def factor_at(self, round_: int) -> float:
        """Return the factor of the learning rate in a round, 1 for the first; 0 is before it."""
        return float(self.factor ** (max(round_ - 1, 0) // self.every_rounds))


class CosineDecaySettings(Settings):
    """Half a cosine over the first rounds (Loshchilov, Hutter 2017, without restarts)."""

    kind: Literal["cosine"] = "cosine"
    over_rounds: Rounds
    """Rounds over which the rate falls; the next round is the first at the lowest rate."""
    floor_fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    """Lowest factor of the rate; with 0, training stands still after these rounds."""

    def factor_at(self, round_: int) -> float:
        """Return the factor of the learning rate in a round, 1 for the first; 0 is before it."""
        place = min(max(round_ - 1, 0) / self.over_rounds, 1.0)
        # Exact at the middle and at the end, where the cosine of a float is not.
        height = 0.5 - 0.5 * math.sin(math.pi * (place - 0.5))
        return self.floor_fraction + (1.0 - self.floor_fraction) * height


DecaySettings = Annotated[
    NoDecaySettings | StepDecaySettings | ExponentialDecaySettings | CosineDecaySettings,
    Field(discriminator="kind"),
]
"""Settings of any decay, told apart by `kind`."""


Factor = Annotated[float, Ge(1e-30), Le(1)]


class StepScheduleKind(Settings):
    """Settings of one kind of schedule within a task."""

    kind: str
    warm_up_steps: Annotated[int, Ge(0), Le(10_000_000)] = 0
    """Steps over which the rate grows linearly: step s has the factor min(1, s / warm_up_steps) as
    well."""

    def factor_at(self, step: int, num_steps: int) -> float:
        """Return the factor of the learning rate at a step, 1 for the first of a task."""
        factor = self._factor_at(step, num_steps)
        return factor * min(1.0, step / self.warm_up_steps) if self.warm_up_steps else factor

    @abstractmethod
    def _factor_at(self, step: int, num_steps: int) -> float:
        """Return the factor at a step without the warm-up."""


class ConstantRateSettings(Settings):
    """Same rate in every step of a task."""

    kind: Literal["none"] = "none"

    def factor_at(self, step: int, num_steps: int) -> float:
        """Return the factor of the learning rate at a step, 1 for the first of a task."""
        return 1.0


class WarmUpSettings(StepScheduleKind):
    """Same rate in every step after a warm-up."""

    kind: Literal["warm-up"] = "warm-up"
    warm_up_steps: Annotated[int, Ge(1), Le(10_000_000)]
    """Steps over which the rate grows linearly: step s has the factor min(1, s / warm_up_steps)."""

    def _factor_at(self, step: int, num_steps: int) -> float:
        return 1.0


class AfterStepsSettings(StepScheduleKind):
    """Multiplication of the rate by a factor after each of some steps."""

    kind: Literal["steps"] = "steps"
    after_steps: Annotated[tuple[Steps, ...], Field(min_length=1), AfterValidator(_ascending)]
    """Steps after which the rate is multiplied once more, ascending: the next step is the first
    with the new rate."""
    factor: Factor
    """Factor of each multiplication."""

    def _factor_at(self, step: int, num_steps: int) -> float:
        return float(self.factor ** bisect_left(self.after_steps, step))


class ExponentialSettings(StepScheduleKind):
    """Multiplication of the rate by a factor after every so many steps."""

    kind: Literal["exponential"] = "exponential"
    factor: Factor
    """Factor of each multiplication."""
    every_steps: Steps = 1
    """Steps between two multiplications."""

    def _factor_at(self, step: int, num_steps: int) -> float:
        return float(self.factor ** ((step - 1) // self.every_steps))


class CosineSettings(StepScheduleKind):
    """Half a cosine over the steps of a task (Loshchilov, Hutter 2017, without restarts)."""

    kind: Literal["cosine"] = "cosine"
    floor_fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    """Factor that the rate falls towards: it would be reached one step after the last."""

    def _factor_at(self, step: int, num_steps: int) -> float:
        place = min(step, num_steps) - 1
        height = 0.5 + 0.5 * math.cos(math.pi * place / num_steps)
        return self.floor_fraction + (1.0 - self.floor_fraction) * height


StepScheduleSettings = Annotated[
    ConstantRateSettings
    | WarmUpSettings
    | AfterStepsSettings
    | ExponentialSettings
    | CosineSettings,
    Field(discriminator="kind"),
]
"""Settings of any schedule within a task, told apart by `kind`."""


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
