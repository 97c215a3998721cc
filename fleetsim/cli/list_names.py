"""The verbs `list` and `schema`: names and keys that scenarios and commands may use."""

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from fleetsim.cli.scenario_options import PluginOption
from fleetsim.cli.terminal import output, wide


class Catalogue(StrEnum):
    """Subjects of `list`."""

    DEVICES = "devices"
    SELECTORS = "selectors"
    DATASETS = "datasets"
    MODELS = "models"
    TRACES = "traces"
    SCENARIOS = "scenarios"
    STUDIES = "studies"


def list_(
    what: Annotated[Catalogue, typer.Argument(metavar="WHAT", help="Subject to list.")],
) -> None:
    """List names that scenarios and commands may use."""
    from fleetsim import catalogue

    listing = catalogue.listing(what.value)
    table = Table(*listing.columns, box=None, pad_edge=False)
    for row in listing.rows:
        table.add_row(*row)
    shown = wide()
    shown.print(table)
    if listing.note:
        shown.print(f"\n{listing.note}", markup=False)


class FileKind(StrEnum):
    """Kinds of files that have a JSON Schema."""

    SCENARIO = "scenario"
    STUDY = "study"


def schema(
    what: Annotated[
        FileKind, typer.Argument(metavar="WHAT", help="Files: scenario or study.")
    ] = FileKind.SCENARIO,
    plugin: PluginOption = None,
) -> None:
    """Print the JSON Schema of scenarios, or of study files, for editors."""
    if what is FileKind.STUDY:
        from fleetsim.studies import settings

        if plugin:
            raise typer.BadParameter(
                "--plugin adds the keys of a plug-in to the schema of scenarios; leave it out"
                " with study"
            )
        found = settings.schema()
    else:
        from fleetsim import scenario

        found = scenario.schema(plugin)
    output(json.dumps(found, indent=2, sort_keys=True))
