"""A study as loaded: its conditions, the scenario of every cell, and its runs."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fleetsim import bundled
from fleetsim.errors import DataError, ScenarioError
from fleetsim.quoting import MAX_LINES, cut, listed, quoted
from fleetsim.record import atomic_files, prices
from fleetsim.record.prices import Prices
from fleetsim.scenario import WORLD, Scenario, load
from fleetsim.scenario.settings import class_with
from fleetsim.schema import faults, overrides, strict_yaml
from fleetsim.schema.overrides import Override
from fleetsim.schema.python_data import Overrides, changes_of, document_of
from fleetsim.schema.spelling import did_you_mean
from fleetsim.schema.strict_yaml import Document, KeyPath, shown, spelled
from fleetsim.studies.planned_run import PlannedRun, run_key
from fleetsim.studies.settings import MOST_RUNS, Metric, StudySettings
from fleetsim.user import Plugin, PluginNames, load_plugins
from fleetsim.user.loading import stand_in, stored

STUDY_FILE = "study.yaml"
_MOST_KEYS = 4
_OF_RUNS = {"scenario", "train", "overrides", "arms", "vary"}
"""Keys of a study that define its runs, beside the seeds."""


@dataclass(frozen=True, slots=True)
class StudyCondition:
    """One combination of levels of the varied keys."""

    label: str
    """Levels as text, such as `deadline_s=60`; empty if nothing varies."""
    levels: Mapping[str, str]
    """Labels of the levels by varied key."""
    overrides: tuple[Override, ...]


@dataclass(frozen=True)
class Study:
    """A study file that has been checked, with the scenarios of its cells."""

    settings: StudySettings
    source: str
    """Study file as the user named it."""
    plugins: tuple[Plugin, ...]
    prices: Prices | None
    conditions: tuple[StudyCondition, ...]
    cells: Mapping[tuple[str, str], Scenario]
    """Scenarios by condition and arm, with the first seed."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in the order of the file."""
        return tuple(self.settings.arms)

    @property
    def levels(self) -> tuple[str, ...]:
        """Labels of the conditions, in the order of the file."""
        return tuple(condition.label for condition in self.conditions)

    def require_arms(self, names: Iterable[str]) -> None:
        """Check that the study has these arms."""
        for name in names:
            if name not in self.arms:
                raise ScenarioError(
                    f"study {quoted(self.settings.name)} has no arm {quoted(name)}; it has"
                    f" {', '.join(self.arms)}{did_you_mean(name, self.arms)}"
                )

    @property
    def left_out_metric(self) -> Metric:
        """Rounds if servers of different modes are compared, else client updates."""
        modes = {scenario.server.mode for scenario in self.cells.values()}
        return "rounds" if len(modes) > 1 else "client updates"

    @property
    def baseline_level(self) -> str | None:
        """Label of the condition with which a sweep compares the others."""
        level = self.settings.baseline_level
        return None if level is None else _level_of(level, self.conditions)

    @property
    def doubtful_conditions(self) -> frozenset[str]:
        """Labels of the conditions in which every seed draws errors of the devices' figures."""
        return frozenset(
            label
            for (label, _), scenario in self.cells.items()
            if scenario.fleet.seed is None
            and scenario.fleet.uncertainty.errors(scenario.seed) is not None
        )

    @cached_property
    def runs(self) -> tuple[PlannedRun, ...]:
        """All runs, seed by seed, so that the first seeds of all cells come first."""
        return tuple(
            self._planned(condition.label, arm, seed)
            for seed in self.settings.seeds
            for condition in self.conditions
            for arm in self.arms
        )

    def with_seeds(self, seeds: Sequence[int]) -> Study:
        """Return this study with other seeds."""
        data = self.settings.model_dump() | {"seeds": list(seeds)}
        return replace(self, settings=StudySettings.model_validate(data))

    def save(self, folder: Path) -> None:
        """Write the study as executed into the folder of its results, as `STUDY_FILE`."""
        atomic_files.write(folder / STUDY_FILE, self.to_yaml().encode())

    def to_yaml(self) -> str:
        """Return the study as executed, with every default, as YAML that makes the same runs."""
        plugins = [f" --plugin {plugin.kind.name}={plugin.name}" for plugin in self.plugins]
        again = f"fleetsim study run {STUDY_FILE}{''.join(plugins)}"
        data = self.settings.model_dump(mode="json") | {"baseline": self.settings.baseline_arm}
        return f"# The study as executed. Again: {again}\n{strict_yaml.dump(data)}"

    def _planned(self, condition: str, arm: str, seed: int) -> PlannedRun:
        scenario, train = self.cells[condition, arm].with_seed(seed), self.settings.train
        return PlannedRun(condition, arm, seed, scenario, train, run_key(scenario, train=train))


def load_study(
    path: str | Path | Mapping[str, Any] | Document,
    overrides_: Overrides = (),
    *,
    plugin: PluginNames = None,
) -> Study:
    """Read and check a study file, and the scenario of every arm in every condition.

    The arguments are those of `fleetsim.study`.
    """
    settings, document, conditions, priced = _parts(path, overrides_)
    named = document.data["scenario"]  # as the user wrote it
    base = _beside(named, "scenarios", document)
    if bundled.find("scenarios", base) is None:
        message = bundled.not_found("scenarios", named)
        raise ScenarioError(faults.line(document, ("scenario",), message))
    plugins = load_plugins(plugin)
    cells = _cells(settings, document, conditions, base, plugins)
    _check_cells(settings, document, cells)
    return Study(settings, document.source, plugins, priced, conditions, cells)


def stored_cells(study: Study) -> dict[str, Any]:
    """Return the scenarios of a study as plain data, for `recalled_study`."""
    return {
        "definition": study.settings.model_dump(mode="json", include=_OF_RUNS),
        "cells": [
            {
                "condition": condition,
                "arm": arm,
                "scenario": scenario.data(),
                "plugins": [stored(plugin) for plugin in scenario.plugins],
            }
            for (condition, arm), scenario in study.cells.items()
        ],
    }


def recalled_study(
    path: str | Path | Mapping[str, Any],
    overrides_: Overrides,
    cells_of: Callable[[str], Mapping[str, Any]],
) -> Study | None:
    """Read a study file with the scenarios of `stored_cells`, whose files and plug-ins may be gone.

    `cells_of` gives them by the study's name. None if they are those of other runs, or of another
    version; seeds, targets, prices and the like may differ. Its runs cannot be made.
    """
    settings, document, conditions, priced = _parts(path, overrides_)
    saved = cells_of(settings.name)
    if saved.get("definition") != settings.model_dump(mode="json", include=_OF_RUNS):
        return None
    scenarios: dict[tuple[str, str], Scenario] = {}
    try:
        for cell in saved["cells"]:
            plugins = [stand_in(identity) for identity in cell["plugins"]]
            scenario = class_with(plugins).model_validate(cell["scenario"])
            scenarios[cell["condition"], cell["arm"]] = scenario
    except (LookupError, TypeError, ValueError):
        return None
    return Study(settings, document.source, (), priced, conditions, scenarios)


def _parts(
    path: str | Path | Mapping[str, Any] | Document, overrides_: Overrides
) -> tuple[StudySettings, Document, tuple[StudyCondition, ...], Prices | None]:
    """Read a study file; return its settings, itself, the conditions and the prices."""
    changes = changes_of(overrides_, {}, keys=(), call=load_study)
    document = overrides.apply(_read(path), changes)
    _refuse_keys_without_quotes(document)
    settings = faults.check(StudySettings, document)
    conditions = tuple(_conditions(settings, document))
    num_runs = len(conditions) * len(settings.arms) * len(settings.seeds)
    if num_runs > MOST_RUNS:
        raise ScenarioError(
            f"{document.source}: has {num_runs:,} runs, more than {MOST_RUNS:,}; leave out arms,"
            " levels or seeds"
        )
    priced = None
    if settings.prices is not None:
        try:
            priced = prices.load(_beside(settings.prices, "prices", document))
        except DataError as fault:
            raise ScenarioError(faults.line(document, ("prices",), str(fault))) from None
    # So that the study can be executed from another folder.
    places = {"scenario": _absolute(settings.scenario, "scenarios", document)}
    if settings.prices is not None:
        places["prices"] = _absolute(settings.prices, "prices", document)
    level = settings.baseline_level
    if level is not None and _level_of(level, conditions) is None:
        labels = ", ".join(condition.label for condition in conditions)
        message = f"is no level; the levels are {labels}"
        raise ScenarioError(faults.line(document, ("baseline_level",), message))
    return settings.model_copy(update=places), document, conditions, priced


def _level_of(level: Any, conditions: Sequence[StudyCondition]) -> str | None:
    """Return the label of the condition that a level names: its label, or the only value."""
    names: dict[str, str] = {}
    for condition in conditions:
        only = condition.levels.values() if len(condition.levels) == 1 else ()
        names |= dict.fromkeys((condition.label, *only), condition.label)
    return names.get(level if isinstance(level, str) else shown(level))


def _read(path: str | Path | Mapping[str, Any] | Document) -> Document:
    if isinstance(path, Document):
        return path
    if isinstance(path, Mapping):
        return document_of(path, "study")
    name = str(path)
    file = bundled.find("studies", name) if name else None
    if file is None:
        raise ScenarioError(f"study {quoted(name)}: {bundled.not_found('studies', name)}")
    return strict_yaml.read(file)


def _refuse_keys_without_quotes(document: Document) -> None:
    """Refuse `overrides.server.cohort=5`, which would replace the whole server of the scenario."""
    for place, name in document.places.items():
        depth = {"overrides": 1, "arms": 2}.get(str(place[0]) if place else "", len(place))
        made_here = isinstance(document.places.get(place[: depth + 1]), str)
        if isinstance(name, str) and len(place) > depth + 1 and made_here:
            above = spelled(place[:depth])
            key = ".".join(map(str, place[depth:]))
            raise ScenarioError(f'{name}: a key with a dot needs quotes; write {above}."{key}"')


def _beside(name: str, kind: bundled.Kind, document: Document) -> str:
    """Return a name, as a path if it is that of a file beside the study file."""
    file = bundled.find(kind, name, beside=document.folder) if name else None
    return name if file is None or name in bundled.names(kind) else str(file)


def _absolute(name: str, kind: bundled.Kind, document: Document) -> str:
    """Return a name, as an absolute path if it is that of a file and YAML can hold the path."""
    path = str(Path(_beside(name, kind, document)).resolve())
    return name if name in bundled.names(kind) or not path.isprintable() else path


def _conditions(settings: StudySettings, document: Document) -> Iterator[StudyCondition]:
    """Yield every combination of levels, the last key varying fastest."""
    short = {key: key.rpartition(".")[2] for key in settings.vary}
    is_unique = len(set(short.values())) == len(short)
    levels = [list(_levels(key, document)) for key in settings.vary]
    for key, of_key in zip(settings.vary, levels, strict=True):
        labels = [label for label, _ in of_key]
        for label in labels:
            if labels.count(label) > 1:
                message = f"{key} has the level {label} twice"
                raise ScenarioError(faults.line(document, ("vary", key), message))
    for combination in itertools.product(*levels):
        chosen = dict(zip(settings.vary, (label for label, _ in combination), strict=True))
        yield StudyCondition(
            label=", ".join(
                f"{short[key] if is_unique else key}={label}" for key, label in chosen.items()
            ),
            levels=chosen,
            overrides=tuple(override for _, of_level in combination for override in of_level),
        )


def _levels(key: str, document: Document) -> Iterator[tuple[str, list[Override]]]:
    values = document.data["vary"][key]
    if isinstance(values, dict):
        for label, changes in values.items():
            yield label, list(_overrides(changes, ("vary", key, label), document))
        return
    for index, value in enumerate(values):
        place: KeyPath = ("vary", key, index)
        label = value if isinstance(value, str) else shown(value)
        yield cut(label), [Override(key, value, _name(document, place))]


def _overrides(
    changes: Mapping[str, Any], place: KeyPath, document: Document
) -> Iterator[Override]:
    for key, value in changes.items():
        yield Override(key, value, _name(document, (*place, key)))


def _name(document: Document, place: KeyPath) -> str:
    return f"{document.where(place)}: {spelled(place)}"


def _cells(
    settings: StudySettings,
    document: Document,
    conditions: Sequence[StudyCondition],
    base: str,
    plugins: Sequence[Plugin],
) -> dict[tuple[str, str], Scenario]:
    data = document.data
    shared = list(_overrides(data.get("overrides", {}), ("overrides",), document))
    cells: dict[tuple[str, str], Scenario] = {}
    problems: dict[str, None] = {}
    unnamed = {plugin.label: plugin for plugin in plugins if plugin.kind.key_path is not None}
    for condition in conditions:
        for arm in settings.arms:
            of_arm = _overrides(data["arms"][arm], ("arms", arm), document)
            changes = [*shared, *of_arm, *condition.overrides]
            try:
                used_plugins = _named(plugins, base, changes)
                for plugin in used_plugins:
                    unnamed.pop(plugin.label, None)
                cells[condition.label, arm] = load(
                    base, changes, seed=settings.seeds[0], plugin=used_plugins
                )
            except ScenarioError as fault:
                problems |= dict.fromkeys(fault.faults)
    for plugin in unnamed.values():
        key = spelled((*(plugin.kind.key_path or ()), "kind"))
        raise ScenarioError(
            f"{plugin.label}: no arm has it; set {key}: {plugin.word} in one, or leave the plug-in"
            " out",
            *list(problems)[: MAX_LINES - 1],
        )
    if problems:
        raise ScenarioError(*listed(list(problems)))
    return cells


def _named(plugins: Sequence[Plugin], base: str, changes: Sequence[Override]) -> list[Plugin]:
    """Return the plug-ins whose kinds a scenario with these overrides names.

    Those that stand nowhere in a scenario, such as trackers, watch every run.
    """
    file = bundled.find("scenarios", base)
    assert file is not None
    document = overrides.apply(strict_yaml.read(file), changes)
    return [
        plugin for plugin in plugins if plugin.kind.key_path is None or plugin.is_named_in(document)
    ]


def _check_cells(
    settings: StudySettings, document: Document, cells: Mapping[tuple[str, str], Scenario]
) -> None:
    """Check that cells differ, and that the arms of a condition share their world."""
    known: dict[str, str] = {}
    for (label, arm), scenario in cells.items():
        name = ", ".join(filter(None, (label, arm)))
        same = known.setdefault(run_key(scenario, train=settings.train), name)
        if same != name:
            raise ScenarioError(
                f"{document.where(('arms', arm))}: {name} and {same} are the same scenario; leave"
                " one out, or correct its overrides"
            )
    if settings.different_worlds:
        return
    first = settings.baseline_arm
    for (label, arm), scenario in cells.items():
        base = cells[label, first]
        if scenario.world_hash != base.world_hash:
            keys = list(_differences(base.data(), scenario.data()))
            raise ScenarioError(
                f"{document.where(('arms', arm))}: arms.{arm}: has another world than {first},"
                f" it differs in {', '.join(keys[:_MOST_KEYS])}; vary these keys instead, or"
                " set different_worlds: true"
            )


def _differences(one: dict[str, Any], two: dict[str, Any]) -> Iterator[str]:
    """Yield the key paths of the worlds of two scenarios that differ."""

    def walk(a: Any, b: Any, path: KeyPath) -> Iterator[KeyPath]:
        if isinstance(a, dict) and isinstance(b, dict) and a.get("kind") == b.get("kind"):
            for key in dict.fromkeys([*a, *b]):
                yield from walk(a.get(key), b.get(key), (*path, key))
        elif a != b:
            yield path

    for part in WORLD:
        a, b = (functools.reduce(operator.getitem, part, data) for data in (one, two))
        yield from (spelled(path) for path in walk(a, b, part))
