"""The verb `data fetch`: download a published data set."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetsim.cli.terminal import console


def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Data set; see `fleetsim list datasets`.")
    ],
) -> None:
    """Download a data set from its official address and verify its checksums."""
    from fleetsim.learning.data.loading import REGISTRY
    from fleetsim.learning.data.published import fetch as published

    typer.echo(published.fetch(name, progress=console.is_terminal, registry=REGISTRY))
