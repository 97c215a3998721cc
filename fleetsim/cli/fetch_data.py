"""The verb `data fetch`: download a published data set, or list them."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fleetsim.cli import completion
from fleetsim.cli.terminal import console, output, wide

_BYTE_PER_MB = 1e6


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
