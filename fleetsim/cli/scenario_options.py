"""The scenario argument and options that verbs share, and the loading of the scenario."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fleetsim import bundled
from fleetsim.cli.terminal import say

if TYPE_CHECKING:
    from fleetsim.scenario import Scenario
    from fleetsim.schema.overrides import Override

    Changes = Sequence[str | Override]

_MAX_SEED = 2**63 - 1


# Typer takes no list of literals.
FigureFormat = StrEnum("FigureFormat", ["PDF", "PNG", "SVG"])

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A YAML file or the name of a bundled scenario.",
        autocompletion=lambda: bundled.names("scenarios"),
    ),
]
SeedOption = Annotated[
    int | None, typer.Option(help="Replaces the scenario's seed.", min=0, max=_MAX_SEED)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be given many times."),
]
UnsetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unset",
        metavar="KEY",
        help="Remove a key of the file, so that its default holds; before --set; may be given many"
        " times.",
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print the result as JSON alone, for scripts: docs/commands.md."),
]
QuietOption = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress, no notes; on stdout alone what was written."),
]
FormatOption = Annotated[
    list[FigureFormat] | None,
    typer.Option(
        "--format", help="Write the figures as such files too, as --format pdf --format png."
    ),
]
DpiOption = Annotated[
    int,
    typer.Option(help="Dots per inch of PNG files, as --format png --dpi 600.", min=50, max=1200),
]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A part of your own, importable from here: a selector, an aggregator, ...; may be"
        " given many times. KIND=MODULE:NAME where its class does not tell its kind.",
        metavar="MODULE:NAME",
    ),
]


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
    from fleetsim import scenario as scenarios

    loaded = scenarios.load(scenario, overrides, seed=seed, plugin=plugin)
    for line in scenarios.scenario_warnings(loaded, train=train):
        say(f"warning: {line}")
    return loaded
