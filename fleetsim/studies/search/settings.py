"""Settings of a search: keys with their ranges, the objective, and the number of trials."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from fleetsim.schema.ranges import PositiveFraction
from fleetsim.settings import Settings
from fleetsim.studies.settings import Metric, Seed, Target

Value = int | float | str
"""Number, or number of a choice as text."""


_Number = (
    Annotated[int, Field(ge=-(10**15), le=10**15)] | Annotated[float, Field(ge=-1e15, le=1e15)]
)


class SearchedKey(Settings):
    """Values that trials may give to a key: a range of numbers, or a list of choices."""

    low: _Number | None = None
    """Least value of a range; whole numbers are drawn if both ends are whole."""
    high: _Number | None = None
    """Highest value of a range; it belongs to it."""
    log: bool = False
    """True: values are drawn on a logarithmic scale, as suits learning rates."""
    step: _Number | None = None
    """Distance of neighbouring values, from `low` on; null: any."""
    choices: Annotated[list[Any], Field(min_length=1, max_length=100)] | None = None
    """Values in place of a range; mappings are whole blocks, such as a selector with its keys."""

    @property
    def ends(self) -> list[Any]:
        """Both ends of the range, or all choices."""
        return [self.low, self.high] if self.choices is None else self.choices

    @model_validator(mode="after")
    def _is_one_of_both(self) -> SearchedKey:
        of_range = [self.low is not None, self.high is not None]
        if self.choices is not None:
            of_range += [self.log, self.step is not None]
        if set(of_range) != {self.choices is None}:
            raise ValueError("give low and high of a range, or choices alone")
        return self


class Bound(Settings):
    """Limit of the costs in another metric."""

    metric: Metric
    """Metric of these costs: rounds, seconds, joules, dollars or grams."""
    most: Annotated[float, Field(ge=1e-9, le=1e15)]
    """Highest geometric mean over the seeds that is allowed."""


class Objective(Settings):
    """Costs that the search makes as low as it can: the geometric mean over the seeds."""

    metric: Metric = "joules"
    """Metric of the costs: rounds, seconds, joules, dollars or grams."""
    target: PositiveFraction | Target | None = None
    """Accuracy to which costs are counted, as in studies; null: costs of the whole run."""
    bound: Bound | None = None
    """Limit of the costs in another metric, such as seconds to the target."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics that are read of each run: that of the objective, and of the bound."""
        return (self.metric, *([] if self.bound is None else [self.bound.metric]))


class SearchSettings(Settings):
    """Part of a search file that a study file lacks."""

    search: Annotated[dict[str, SearchedKey], Field(min_length=1, max_length=50)]
    """Keys that are searched, by key path, with their ranges or choices."""
    objective: Objective
    """Costs that are to be low."""
    trials: Annotated[int, Field(ge=1, le=10_000)] = 30
    """Number of trials; it can be raised at any time."""
    batch: Annotated[int, Field(ge=1, le=100)] = 4
    """Trials that are chosen together, before the costs of any of them are known."""
    prune_ratio: Annotated[float, Field(ge=1.0, le=1e6)] | None = 1.5
    """A trial whose first seeds cost more than so many times what they cost in the best trial is
    ended; null: every trial has all seeds."""
    sampler_seed: Seed = 0
    """Seed of the draws of the search; with another one other trials are made."""
