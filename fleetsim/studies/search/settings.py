"""Settings of a search file: keys with their ranges, the objective, and the number of trials."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from fleetsim.schema import faults
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.ranges import PositiveFraction
from fleetsim.settings import Settings
from fleetsim.studies.settings import Overrides, Seed, Target
from fleetsim.studies.study_tables import Currency

_MOST_STEPS_OFF = 1e-9


class SearchedKey(Settings):
    """Values that trials may give to a key: a range of numbers, or a list of choices."""

    low: int | float | None = None
    """Least value of a range."""
    high: int | float | None = None
    """Highest value of a range; it belongs to it."""
    log: bool = False
    """True: values are drawn on a logarithmic scale, as suits learning rates."""
    step: int | float | None = None
    """Distance of neighbouring values, from `low` on; null: any, or 1 for whole numbers."""
    choices: Annotated[list[Any], Field(min_length=1, max_length=100)] | None = None
    """Values in place of a range; mappings are whole blocks, such as a selector with its keys."""

    @model_validator(mode="after")
    def _consistent(self) -> SearchedKey:
        if (self.choices is None) == (self.low is None and self.high is None):
            raise ValueError("give low and high of a range, or a list of choices")
        if self.choices is not None:
            labels = [json.dumps(choice, sort_keys=True) for choice in self.choices]
            if len(set(labels)) < len(labels):
                raise faults.at(("choices",), "has a choice twice; name each once")
            if self.log or self.step is not None:
                raise ValueError("choices have neither log nor step; leave these out")
        else:
            self._check_range()
        return self

    def _check_range(self) -> None:
        low, high, step = self.low, self.high, self.step
        if low is None or high is None:
            raise ValueError("a range needs low and high")
        if not low < high:
            raise faults.at(("high",), f"must be more than low = {low:g}")
        if self.log and (low <= 0 or step is not None):
            raise _fault_of_log(low)
        if step is not None:
            num = (high - low) / step if step > 0 else 0.0
            if num < 1 or abs(num - round(num)) > _MOST_STEPS_OFF * num:
                raise faults.at(("step",), "must be above 0 and divide high - low")


def _fault_of_log(low: float) -> PydanticCustomError:
    if low <= 0:
        return faults.at(("low",), "must be above 0 with log: true")
    return faults.at(("step",), "does not go with log: true; leave out one of the two")


class Bound(Settings):
    """Limit of the costs in another metric."""

    metric: Currency
    """Metric of these costs: rounds, seconds, joules, dollars or grams."""
    most: Annotated[float, Field(gt=0.0, le=1e15)]
    """Highest geometric mean over the seeds that is allowed."""


class Objective(Settings):
    """Costs that the search makes as low as it can: the geometric mean over the seeds."""

    metric: Currency = "joules"
    """Metric of the costs: rounds, seconds, joules, dollars or grams."""
    target: PositiveFraction | Target | None = None
    """Accuracy to which costs are counted, as in studies; null: costs of the whole run."""
    bound: Bound | None = None
    """Limit of the costs in another metric, such as seconds to the target."""

    @property
    def targets(self) -> list[Target]:
        """The target with all its settings, if there is one."""
        if self.target is None:
            return []
        is_whole = isinstance(self.target, Target)
        return [self.target if is_whole else Target(accuracy=self.target)]

    @property
    def metrics(self) -> tuple[Currency, ...]:
        """Metrics that are read of each run: that of the objective, and of the bound."""
        return (self.metric, *([] if self.bound is None else [self.bound.metric]))

    @property
    def words(self) -> str:
        """The objective as a noun phrase, such as `joules to 90 %`."""
        return f"{self.metric} {f'to {self.targets[0].label}' if self.targets else 'of a run'}"


class SearchSettings(Settings):
    """Search over keys of a scenario for the lowest costs, several seeds a trial."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    """Letters, digits, dot, dash and underscore; the search's folder is named after it."""
    question: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    """Question that the search answers, for its page."""
    scenario: str
    """Scenario of all trials: a path, also from the folder of this file, or a bundled name."""
    train: bool = True
    """False: no training; costs of whole runs alone."""
    overrides: Overrides = Field(default_factory=dict)
    """Overrides of the scenario for all trials."""
    search: Annotated[dict[str, SearchedKey], Field(min_length=1, max_length=50)]
    """Keys that are searched, by key path, with their ranges or choices."""
    objective: Objective
    """Costs that are to be low."""
    seeds: Annotated[list[Seed], Distinct(), Field(min_length=1, max_length=1000)]
    """Seeds of every trial, in the order in which they are run."""
    trials: Annotated[int, Field(ge=1, le=10_000)] = 30
    """Number of trials; it can be raised at any time."""
    batch: Annotated[int, Field(ge=1, le=100)] = 4
    """Trials that are chosen together, before the costs of any of them are known."""
    prune_ratio: Annotated[float, Field(ge=1.0, le=1e6)] | None = 1.5
    """A trial whose first seeds cost more than so many times what they cost in the best trial is
    ended; null: every trial has all seeds."""
    sampler_seed: Seed = 0
    """Seed of the draws of the search; with another one other trials are made."""
    prices: str | None = None
    """File of prices, or a bundled name, for costs in dollars and grams of CO2e."""

    @model_validator(mode="after")
    def _consistent(self) -> SearchSettings:
        objective = self.objective
        if objective.target is not None and not self.train:
            raise faults.at(
                ("objective", "target"),
                "without training there is no accuracy; leave out one of the two",
            )
        places = [("objective", "metric"), ("objective", "bound", "metric")]
        for metric, place in zip(objective.metrics, places, strict=False):
            if metric in ("dollars", "grams") and self.prices is None:
                raise faults.at(place, "needs prices; name a file of prices")
        if len(set(objective.metrics)) < len(objective.metrics):
            raise faults.at(places[1], "is the metric of the objective; bound another one")
        for key in self.search:
            if key == "seed":
                raise faults.at(("search", key), "is set by seeds; leave it out")
            if above := [one for one in self.search if key.startswith((f"{one}.", f"{one}["))]:
                raise faults.at(("search", key), f"lies within {above[0]}, which is searched too")
        return self
