"""A search file as loaded: a study whose arms are trials, with the keys that they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.quoting import listed, quoted
from fleetsim.schema import faults, overrides, strict_yaml
from fleetsim.schema.overrides import Override
from fleetsim.schema.strict_yaml import Document, shown
from fleetsim.studies.search.settings import SearchSettings, Value
from fleetsim.studies.study import Study, load_study
from fleetsim.user import PluginNames

_OF_STUDY = ("name", "question", "scenario", "train", "overrides", "seeds", "prices")
"""Keys that a search file has in common with study files."""


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
