"""Decay of the clients' learning rate over rounds, without torch.

A task trains at the rate of the round in which the server dispatches it.
"""

import math
from bisect import bisect_left
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le
from pydantic import Field, model_validator

from fleetsim.schema.key_conditions import BEFORE_LAST_ROUND, by_key
from fleetsim.schema.ranges import Rounds
from fleetsim.settings import Settings


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
    after_rounds: Annotated[tuple[Rounds, ...], Field(min_length=1)]
    """Rounds after which the rate is multiplied once more, ascending: the next round is the first
    with the new rate."""
    factor: Annotated[float, Ge(1e-30), Le(1)]
    """Factor of each multiplication."""

    @model_validator(mode="after")
    def _rounds_ascend(self) -> Self:
        if sorted(set(self.after_rounds)) != list(self.after_rounds):
            raise ValueError(f"after_rounds must be ascending, got {list(self.after_rounds)}")
        return self

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
