"""Conditions of a study: combinations of the levels of its varied keys, as overrides."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetsim.errors import ScenarioError
from fleetsim.quoting import cut
from fleetsim.schema import faults
from fleetsim.schema.overrides import Override
from fleetsim.schema.strict_yaml import Document, KeyPath, shown, spelled
from fleetsim.studies.settings import Cell, RunRow, StudySettings


@dataclass(frozen=True, slots=True)
class StudyCondition:
    """One combination of levels of the varied keys."""

    label: str
    """Levels as text, such as `deadline_s=60`; empty if nothing varies."""
    levels: Mapping[str, str]
    """Labels of the levels by varied key."""
    overrides: tuple[Override, ...]


def conditions_of(settings: StudySettings, document: Document) -> Iterator[StudyCondition]:
    """Yield every combination of levels, the last key varying fastest."""
    short = {key: key.rpartition(".")[2] for key in settings.vary}
    names = short if len(set(short.values())) == len(short) else {key: key for key in short}
    levels = [list(_levels(key, document)) for key in settings.vary]
    for key, of_key in zip(settings.vary, levels, strict=True):
        if key in (*Cell._fields, *RunRow._fields):
            hint = "seeds names them" if key == "seed" else "name it otherwise"
            message = f"is a column of every study's tables; {hint}"
            raise ScenarioError(faults.line(document, ("vary", key), message))
        labels = [label for label, _ in of_key]
        for label in labels:
            if labels.count(label) > 1:
                message = f"{key} has the level {label} twice"
                raise ScenarioError(faults.line(document, ("vary", key), message))
    for combination in itertools.product(*levels):
        chosen = dict(zip(settings.vary, (label for label, _ in combination), strict=True))
        yield StudyCondition(
            label=", ".join(f"{names[key]}={label}" for key, label in chosen.items()),
            levels=chosen,
            overrides=tuple(override for _, of_level in combination for override in of_level),
        )


def level_of(level: Any, conditions: Sequence[StudyCondition]) -> str | None:
    """Return the label of the condition that a level names: its label, or the only value."""
    names: dict[str, str] = {}
    for condition in conditions:
        only = condition.levels.values() if len(condition.levels) == 1 else ()
        names |= dict.fromkeys((condition.label, *only), condition.label)
    return names.get(level if isinstance(level, str) else shown(level))


def _levels(key: str, document: Document) -> Iterator[tuple[str, list[Override]]]:
    values = document.data["vary"][key]
    if isinstance(values, dict):
        for label, changes in values.items():
            yield label, list(overrides_at(changes, ("vary", key, label), document))
        return
    for index, value in enumerate(values):
        place: KeyPath = ("vary", key, index)
        label = value if isinstance(value, str) else shown(value)
        yield cut(label), [Override(key, value, _name(document, place))]


def overrides_at(
    changes: Mapping[str, Any], place: KeyPath, document: Document
) -> Iterator[Override]:
    """Yield the overrides of a mapping in a study file, each with its place there."""
    for key, value in changes.items():
        yield Override(key, value, _name(document, (*place, key)))


def _name(document: Document, place: KeyPath) -> str:
    return f"{document.where(place)}: {spelled(place)}"


def refuse_keys_without_quotes(document: Document) -> None:
    """Refuse `overrides.server.cohort=5`, which would replace the whole server of the scenario."""
    for place, name in document.places.items():
        depth = {"overrides": 1, "arms": 2}.get(str(place[0]) if place else "", len(place))
        made_here = isinstance(document.places.get(place[: depth + 1]), str)
        if isinstance(name, str) and len(place) > depth + 1 and made_here:
            above = spelled(place[:depth])
            key = ".".join(map(str, place[depth:]))
            raise ScenarioError(f'{name}: a key with a dot needs quotes; write {above}."{key}"')
