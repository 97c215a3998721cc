"""A search file with its settings: keys with their ranges, and the objective.

It is a study whose arms are trials, each with values of the keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.quoting import listed, quoted
from fleetsim.schema import faults, overrides, strict_yaml
from fleetsim.schema.overrides import Override
from fleetsim.schema.ranges import PositiveFraction
from fleetsim.schema.strict_yaml import Document, shown
from fleetsim.settings import Settings
from fleetsim.studies import settings as study_settings
from fleetsim.studies.settings import Metric, Seed, Target
from fleetsim.studies.study import Study, load_study
from fleetsim.user import PluginNames

Value = int | float | str
"""Number, or number of a choice as text."""
_OF_STUDY = ("name", "question", "scenario", "train", "overrides", "seeds", "prices")
"""Keys that a search file has in common with study files."""


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


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a search file, for editors."""
    of_study, result = study_settings.schema(), SearchSettings.model_json_schema()
    shared = {key: of_study["properties"][key] for key in _OF_STUDY}
    required = [key for key in of_study["required"] if key in shared]
    result["properties"] = shared | result["properties"]
    result["$defs"] = of_study["$defs"] | result["$defs"]
    result["required"] = [*required, *result["required"]]
    return result | {"$schema": of_study["$schema"], "title": "fleetsim search"}


@dataclass(frozen=True)
class Search:
    """A search file that has been checked."""

    settings: SearchSettings
    document: Document
    plugin: PluginNames

    @cached_property
    def scenario(self) -> Study:
        """Study of the scenario without any change of a searched key."""
        return self.trial("trial 0", {})

    @property
    def identity(self) -> str:
        """SHA-256 of everything that determines the trials, but not how many there are."""
        own = self.settings.model_dump(mode="json", exclude={"trials"})
        prices = None if self.scenario.prices is None else self.scenario.prices.stated()
        runs = [planned.key for planned in self.scenario.runs]
        return overrides.content_hash({"settings": own, "prices": prices, "runs": runs})

    def changes(self, parameters: Mapping[str, Value]) -> dict[str, Any]:
        """Return the overrides of a trial; a choice is given by its number, as text."""
        return {
            key: self.settings.search[key].ends[int(value)] if isinstance(value, str) else value
            for key, value in parameters.items()
        }

    def trial(self, name: str, changes: Mapping[str, Any]) -> Study:
        """Return the study of one trial.

        Raises:
            ScenarioError: the schema refuses it; the lines name those of the search file.
        """
        of_search, target = self.document, self.settings.objective.target
        data = {key: of_search.data[key] for key in _OF_STUDY if key in of_search.data}
        places = {at: line for at, line in of_search.places.items() if not at or at[0] in data}
        places |= {("arms", name, key): of_search.where(("search", key)) for key in changes}
        if target is not None:
            places["targets",] = of_search.where(("objective", "target"))
            data["targets"] = [self.document.data["objective"]["target"]]
        data["arms"] = {name: dict(changes)}
        return load_study(replace(of_search, data=data, places=places), plugin=self.plugin)

    def joined(self, studies: Sequence[Study], seeds: Sequence[int]) -> Study:
        """Return several trials, of which two may be the same, as one study with some seeds."""
        arms: dict[str, dict[str, Any]] = {arm: {} for study in studies for arm in study.arms}
        settings = self.scenario.settings.model_copy(update={"arms": arms, "seeds": list(seeds)})
        cells = {cell: scenario for study in studies for cell, scenario in study.cells.items()}
        return replace(self.scenario, settings=settings, cells=cells)


def load_search(
    path: str | Path, changes: Sequence[str | Override] = (), plugin: PluginNames = None
) -> Search:
    """Read and check a search file, and the scenario at both ends of each range.

    Raises:
        ScenarioError: one line per fault: place, key, value, what is allowed.
    """
    file = bundled.find("searches", str(path))
    if file is None:
        message = bundled.not_found("searches", str(path))
        raise ScenarioError(f"search {quoted(str(path))}: {message}")
    document = overrides.apply(strict_yaml.read(file), changes)
    own = {key: value for key, value in document.data.items() if key not in _OF_STUDY}
    settings = faults.check(SearchSettings, replace(document, data=own))
    search = Search(settings, document, plugin)
    for place, metric in zip(("metric", "bound"), settings.objective.metrics, strict=False):
        if metric in ("dollars", "grams") and search.scenario.prices is None:
            message = f"{metric} need prices; name a file of prices"
            raise ScenarioError(faults.line(document, ("objective", place), message))
    problems: dict[str, None] = {}
    for key, each in settings.search.items():
        try:
            for end in each.ends:
                search.trial(f"with {shown(end)}", {key: end})
        except ScenarioError as fault:
            problems |= dict.fromkeys(fault.faults)
    if problems:
        raise ScenarioError(*listed(list(problems)))
    return search
