"""Kinds of values of options that verbs share, and the loading of the scenario."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from fleetsim import bundled
from fleetsim.cli.terminal import say
from fleetsim.host.collection import paused

if TYPE_CHECKING:
    from fleetsim.scenario import Scenario
    from fleetsim.schema.overrides import Override

    Changes = Sequence[str | Override]

# Typer takes no list of literals.
FigureFormat = StrEnum("FigureFormat", ["PDF", "PNG", "SVG"])

ScenarioName = Annotated[str, lambda: bundled.names("scenarios")]


def changes(set_: list[str] | None, unset: list[str] | None) -> Changes:
    """Return the overrides of a command line; keys are removed before others are set."""
    if not unset:
        return set_ or []
    from fleetsim.schema.overrides import removals

    return [*removals(unset), *(set_ or [])]


def load(
    scenario: str,
    overrides: Changes,
    seed: int | None,
    plugin: list[str] | None,
    *,
    train: bool = True,
) -> Scenario:
    """Load a scenario with the overrides of the command line, and print its warnings."""
    with paused():
        from fleetsim import scenario as scenarios

    loaded = scenarios.load(scenario, overrides, seed=seed, plugin=plugin)
    for line in scenarios.scenario_warnings(loaded, train=train):
        say(f"warning: {line}")
    return loaded
