"""The verbs `list`, `schema` and `data fetch`: what scenarios may name, and data sets to fetch."""

import json
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from fleetsim.cli import completion
from fleetsim.cli.scenario_options import PluginOption
from fleetsim.cli.terminal import console, output, wide
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

_BYTE_PER_MB = 1e6


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="Subject to list, in the plural or singular; without, the subjects.",
            autocompletion=completion.subjects,
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON, for scripts.")] = False,
) -> None:
    """List names that scenarios and commands may use."""
    from fleetsim import catalogue

    subject = catalogue.subject(what)
    if subject is None:
        if what:
            hint = did_you_mean(what, catalogue.SUBJECTS) or f"; {', '.join(catalogue.SUBJECTS)}"
            raise typer.BadParameter(f"{quoted(what)} is no subject to list{hint}")
        output(json.dumps(catalogue.SUBJECTS) if as_json else "\n".join(catalogue.SUBJECTS))
        return
    listing = catalogue.listing(subject)
    if as_json:
        records = [
            dict(zip(listing.columns, map(str.strip, row), strict=True)) for row in listing.rows
        ]
        output(json.dumps(records, indent=2))
        return
    table = Table(*listing.columns, box=None, pad_edge=False)
    for row in listing.rows:
        table.add_row(*row)
    shown = wide()
    shown.print(table)
    if listing.note:
        shown.print(f"\n{listing.note}", markup=False)


def schema(
    what: Annotated[
        Literal["scenario", "study"],
        typer.Argument(metavar="WHAT", help="Files: scenario or study."),
    ] = "scenario",
    plugin: PluginOption = None,
) -> None:
    """Print the JSON Schema of scenarios, or of study files, for editors."""
    if what == "study":
        from fleetsim.studies import settings

        if plugin:
            raise typer.BadParameter(
                "--plugin adds the keys of a plug-in to the schema of scenarios; leave it out"
                " with study"
            )
        json_schema = settings.schema()
    else:
        from fleetsim import scenario

        json_schema = scenario.schema(plugin)
    output(json.dumps(json_schema, indent=2, sort_keys=True))


def fetch(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Data set; --list shows them.", autocompletion=completion.datasets
        ),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option(
            "--list", help="List the data sets with their sizes, and the folders that have them."
        ),
    ] = False,
) -> None:
    """Download a data set from its official address and verify its checksums."""
    if (name is None) != list_:
        raise typer.BadParameter("give the NAME of a data set, or --list alone")
    from fleetsim.learning.data.loading import REGISTRY
    from fleetsim.learning.data.published import fetch as published

    if name is not None:
        output(published.fetch(name, progress=console.is_terminal, registry=REGISTRY))
        return
    table = Table("name", "title", "MB", "got", "found in", box=None, pad_edge=False)
    for known in REGISTRY.values():
        megabytes = sum(file.num_byte for file in known.files) / _BYTE_PER_MB
        home = published.folder_with(known)
        table.add_row(
            known.name,
            known.title,
            f"{megabytes:,.1f}",
            "by hand" if known.by_hand else "by fetch",
            "-" if home is None else escape(str(home)),
        )
    wide().print(table)
