"""A study as loaded: its conditions, the scenario of every cell, and its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from fleetsim import bundled
from fleetsim.errors import DataError, ScenarioError
from fleetsim.quoting import MAX_LINES, listed, quoted
from fleetsim.record import atomic_files, prices
from fleetsim.record.prices import Prices
from fleetsim.report.pages.scenario_differences import between
from fleetsim.scenario import Scenario, load
from fleetsim.scenario.settings import class_with
from fleetsim.schema import faults, overrides, strict_yaml
from fleetsim.schema.overrides import Override
from fleetsim.schema.python_data import Overrides, changes_of, document_of
from fleetsim.schema.spelling import did_you_mean
from fleetsim.schema.strict_yaml import Document, spelled
from fleetsim.studies.conditions import (
    StudyCondition,
    conditions_of,
    level_of,
    overrides_at,
    refuse_keys_without_quotes,
)
from fleetsim.studies.planned_run import PlannedRun, run_key
from fleetsim.studies.settings import MOST_RUNS, Metric, StudySettings
from fleetsim.user import Plugin, PluginNames, load_plugins
from fleetsim.user.loading import stand_in, stored

STUDY_FILE = "study.yaml"
_MOST_KEYS = 4
_OF_RUNS = {"scenario", "train", "overrides", "arms", "vary"}
"""Keys of a study that define its runs, beside the seeds."""


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
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of the costs: client updates, not rounds, if servers' modes differ."""
        modes = {scenario.server.mode for scenario in self.cells.values()}
        amounts = set(() if self.prices is None else self.prices.amounts)
        is_priced = {
            "dollars": not amounts.isdisjoint(("rent_run_usd", "electricity_usd")),
            "grams": "carbon_gram" in amounts,
        }
        left_out = "rounds" if len(modes) > 1 else "client updates"
        return tuple(
            metric
            for metric in get_args(Metric)
            if metric != left_out and is_priced.get(metric, True)
        )

    @property
    def baseline_level(self) -> str | None:
        """Label of the condition with which a sweep compares the others."""
        level = self.settings.baseline_level
        return None if level is None else level_of(level, self.conditions)

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
    study = Study(settings, document.source, plugins, priced, conditions, cells)
    return _with_its_primary_metric(study, document)


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
    study = Study(settings, document.source, (), priced, conditions, scenarios)
    return _with_its_primary_metric(study, document)


def _with_its_primary_metric(study: Study, document: Document) -> Study:
    primary = study.settings.primary
    if primary is not None and primary.metric not in study.metrics:
        is_priced = primary.metric in ("dollars", "grams")
        message = (
            f"is no cost of this study; its costs are {', '.join(study.metrics)}"
            f"{'; `prices` that give it add it' if is_priced else ''}"
        )
        raise ScenarioError(faults.line(document, ("primary", "metric"), message))
    return study


def _parts(
    path: str | Path | Mapping[str, Any] | Document, overrides_: Overrides
) -> tuple[StudySettings, Document, tuple[StudyCondition, ...], Prices | None]:
    """Read a study file; return its settings, itself, the conditions and the prices."""
    changes = changes_of(overrides_, {}, keys=(), call=load_study)
    document = overrides.apply(_read(path), changes)
    refuse_keys_without_quotes(document)
    settings = faults.check(StudySettings, document)
    conditions = tuple(conditions_of(settings, document))
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
    if level is not None and level_of(level, conditions) is None:
        labels = ", ".join(condition.label for condition in conditions)
        message = f"is no level; the levels are {labels}"
        raise ScenarioError(faults.line(document, ("baseline_level",), message))
    return settings.model_copy(update=places), document, conditions, priced


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


def _beside(name: str, kind: bundled.Kind, document: Document) -> str:
    """Return a name, as a path if it is that of a file beside the study file."""
    file = bundled.find(kind, name, beside=document.folder) if name else None
    return name if file is None or name in bundled.names(kind) else str(file)


def _absolute(name: str, kind: bundled.Kind, document: Document) -> str:
    """Return a name, as an absolute path if it is that of a file and YAML can hold the path."""
    path = str(Path(_beside(name, kind, document)).resolve())
    return name if name in bundled.names(kind) or not path.isprintable() else path


def _cells(
    settings: StudySettings,
    document: Document,
    conditions: Sequence[StudyCondition],
    base: str,
    plugins: Sequence[Plugin],
) -> dict[tuple[str, str], Scenario]:
    data = document.data
    shared = list(overrides_at(data.get("overrides", {}), ("overrides",), document))
    cells: dict[tuple[str, str], Scenario] = {}
    problems: dict[str, dict[str, None]] = {}
    unnamed = {plugin.label: plugin for plugin in plugins if plugin.kind.key_path is not None}
    for condition in conditions:
        for arm in settings.arms:
            of_arm = overrides_at(data["arms"][arm], ("arms", arm), document)
            changes = [*shared, *of_arm, *condition.overrides]
            try:
                used_plugins = _named(plugins, base, changes)
                for plugin in used_plugins:
                    unnamed.pop(plugin.label, None)
                cells[condition.label, arm] = load(
                    base, changes, seed=settings.seeds[0], plugin=used_plugins
                )
            except ScenarioError as fault:
                for line in fault.faults:
                    problems.setdefault(line, {})[arm] = None
    lines = [
        line
        if line.startswith(document.source) or len(arms) == len(settings.arms)
        else f"{document.where(('arms', first := next(iter(arms))))}: arm {quoted(first)}: {line}"
        for line, arms in problems.items()
    ]
    for plugin in unnamed.values():
        key = spelled((*(plugin.kind.key_path or ()), "kind"))
        raise ScenarioError(
            f"{plugin.label}: no arm has it; set {key}: {plugin.word} in one, or leave the plug-in"
            " out",
            *lines[: MAX_LINES - 1],
        )
    if lines:
        raise ScenarioError(*listed(lines))
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
            differing = between([base.data(), scenario.data()])
            keys = [spelled(one.path) for one in differing if one.is_of_world]
            raise ScenarioError(
                f"{document.where(('arms', arm))}: arms.{arm}: has another world than {first},"
                f" it differs in {', '.join(keys[:_MOST_KEYS])}; vary these keys instead, or"
                " set different_worlds: true"
            )
