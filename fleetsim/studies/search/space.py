"""Space of a search: its keys with their values, and the scenario of a trial.

A choice is known by its label, its text as JSON, so that parameters are numbers and texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fleetsim.errors import ScenarioError
from fleetsim.quoting import listed
from fleetsim.record.prices import Prices
from fleetsim.scenario import Scenario, load, schema
from fleetsim.schema import faults, overrides
from fleetsim.schema.explained_keys import ExplainedKey, explained_keys, of_key
from fleetsim.schema.overrides import Override, steps_of
from fleetsim.schema.python_data import Overrides, changes_of
from fleetsim.schema.strict_yaml import Document
from fleetsim.studies.planned_run import run_key
from fleetsim.studies.search.settings import SearchedKey, SearchSettings
from fleetsim.studies.study import named_files, overrides_at, plugins_named_in, read
from fleetsim.user import Plugin, PluginNames, load_plugins

Value = int | float | str
Parameters = dict[str, Value]
"""Numbers, or labels of choices, by key path."""


@dataclass(frozen=True)
class Space:
    """A search file that has been checked, with what makes the scenario of a trial."""

    settings: SearchSettings
    document: Document
    base: str
    """Scenario of all trials: a bundled name or a path."""
    plugins: tuple[Plugin, ...]
    prices: Prices | None
    whole: frozenset[str]
    """Keys whose numbers are whole."""
    original: Scenario
    """Scenario with the overrides of all trials."""

    @property
    def source(self) -> str:
        """Search file as the user named it."""
        return self.document.source

    @property
    def own(self) -> Parameters | None:
        """Parameters that the scenario itself has; None if one is not in its range."""
        return self._own if len(self._own) == len(self.settings.search) else None

    @property
    def identity(self) -> str:
        """SHA-256 of everything that determines the trials, but not how many there are."""
        own = self.settings.model_dump(mode="json", exclude={"name", "question", "trials"})
        prices = None if self.prices is None else self.prices.model_dump(mode="json")
        key = run_key(self.original, train=self.settings.train)
        return overrides.content_hash({"settings": own, "prices": prices, "scenario": key})

    def scenario(self, parameters: Mapping[str, Value]) -> Scenario:
        """Return the scenario of a trial, with the first seed.

        Raises:
            ScenarioError: the schema refuses it; the lines name the keys of the search file.
        """
        return self._loaded(parameters, self.plugins)

    def changes(self, parameters: Mapping[str, Value]) -> list[Override]:
        """Return the overrides of a trial: those of all trials, then its own."""
        shared = self.document.data.get("overrides", {})
        own = [
            Override(
                key,
                chosen(self.settings.search[key], value),
                f"{self.document.where(('search', key))}: search.{key}",
            )
            for key, value in parameters.items()
        ]
        return [*overrides_at(shared, ("overrides",), self.document), *own]

    def check_ends(self) -> None:
        """Check the scenario at both ends of every range, and with every choice.

        The other keys have the scenario's own value, or their first one.
        """
        middle = {key: ends(each)[0] for key, each in self.settings.search.items()} | self._own
        problems: dict[str, None] = {}
        unnamed = {one.label: one for one in self.plugins if one.kind.key_path is not None}
        for key, each in self.settings.search.items():
            for end in ends(each):
                changes = self.changes(middle | {key: end})
                try:
                    used = plugins_named_in(self.plugins, self.base, changes)
                    unnamed = {name: one for name, one in unnamed.items() if one not in used}
                    self._loaded(middle | {key: end}, used)
                except ScenarioError as fault:
                    place = f"{self.document.where(('search', key))}: search.{key}"
                    problems |= {
                        one if one.startswith(place) else f"{place}: with {end}: {one}": None
                        for one in fault.faults
                    }
                    break  # the other end would often break the same rule
        if problems:
            raise ScenarioError(*listed(list(problems)))
        for plugin in unnamed.values():
            raise ScenarioError(f"{plugin.label}: no trial has it; name its kind, or leave it out")

    def _loaded(self, parameters: Mapping[str, Value], plugins: Sequence[Plugin]) -> Scenario:
        changes = self.changes(parameters)
        used = plugins_named_in(plugins, self.base, changes)
        return load(self.base, changes, seed=self.settings.seeds[0], plugin=used)

    @cached_property
    def _own(self) -> Parameters:
        """The scenario's own values of the keys, of those that are in their ranges."""
        data, result = self.original.data(), Parameters()
        for key, each in self.settings.search.items():
            value: Any = data
            for step in steps_of(key, key):
                value = value.get(step) if isinstance(value, dict) else None
            if each.choices is not None:
                for choice in ends(each):
                    with suppress(ScenarioError):  # reported with the other ends
                        # A choice need not state defaults.
                        if self.scenario({key: choice}).data() == data:
                            result[key] = choice
            elif type(value) in (int, float) and _is_in(each, value):
                result[key] = value
        return result


def label(choice: Any) -> str:
    """Return the text by which a choice is known.

    >>> label("oort"), label({"kind": "oort"}), label(None), label(2.0)
    ('oort', '{"kind": "oort"}', 'null', '2.0')
    """
    return choice if isinstance(choice, str) else json.dumps(choice, sort_keys=True)


def chosen(key: SearchedKey, value: Value) -> Any:
    """Return the value of a scenario's key for a parameter: a number, or the choice of a label."""
    if key.choices is None:
        return value
    return next(choice for choice in key.choices if label(choice) == value)


def ends(key: SearchedKey) -> list[Value]:
    """Return both ends of a range, or all choices."""
    if key.choices is not None:
        return [label(choice) for choice in key.choices]
    assert key.low is not None
    assert key.high is not None
    return [key.low, key.high]


@cache
def _explained(key: str) -> list[ExplainedKey]:
    return of_key(explained_keys(schema()), key)


def _is_in(key: SearchedKey, value: float) -> bool:
    low, high = (float(end) for end in ends(key))
    steps = 0.0 if key.step is None else (value - low) / key.step
    return low <= value <= high and abs(steps - round(steps)) < 1e-8


def load_space(
    path: str | Path | Mapping[str, Any], overrides_: Overrides = (), *, plugin: PluginNames = None
) -> Space:
    """Read and check a search file, and the scenarios at the ends of its ranges.

    Raises:
        ScenarioError: one line per fault: place, key, value, what is allowed.
        DataError: a file that the scenario names is wrong.
    """
    changes = changes_of(overrides_, {}, keys=(), call=load_space)
    document = overrides.apply(read(path, "searches"), changes)
    settings = faults.check(SearchSettings, document)
    base, priced = named_files(document, settings.scenario, settings.prices)
    for key in settings.search:
        steps_of(key, f"{document.where(('search', key))}: search")
    plugins = tuple(load_plugins(plugin))
    shared = list(overrides_at(document.data.get("overrides", {}), ("overrides",), document))
    used = plugins_named_in(plugins, base, shared)
    original = load(base, shared, seed=settings.seeds[0], plugin=used)
    whole = frozenset(
        key
        for key, each in settings.search.items()
        if all(isinstance(one, int) for one in (each.low, each.high, each.step or 1))
        and not any("number" in one.type.replace("whole number", "") for one in _explained(key))
    )
    space = Space(settings, document, base, plugins, priced, whole, original)
    space.check_ends()
    return space
