"""The verb `trace import`: convert a published trace into fleetsim's own form."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class UnknownTimes(StrEnum):
    """Treatment of times without data in a trace."""

    HOLD = "hold"
    OFFLINE = "offline"


class OnlinePhones(StrEnum):
    """Phones of an event log that count as online."""

    LOCKED = "locked"
    ALWAYS = "always"


def import_(
    format_: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="Usage: states, intervals, flhetbench, extrasensory, flash or fedscale."
            " Network: irish-5g, norway-3g or rates.",
        ),
    ],
    source: Annotated[Path, typer.Argument(help="Folder or file of the source.")],
    dest: Annotated[Path, typer.Argument(help="New folder for the trace.")],
    unknown: Annotated[
        UnknownTimes | None,
        typer.Option(help="Times without data in the source; hold unless given."),
    ] = None,
    online: Annotated[
        OnlinePhones | None,
        typer.Option(help="flash: phones that count as online; locked unless given."),
    ] = None,
    utc_offset_h: Annotated[
        float | None,
        typer.Option(help="Hours by which the users' clock is ahead of the source's."),
    ] = None,
    whole_days: Annotated[
        bool, typer.Option("--whole-days", help="Cut records down to their whole days.")
    ] = False,
    app_name: Annotated[
        str | None,
        typer.Option(
            "--app", help="irish-5g: application whose logs to take; Download unless given."
        ),
    ] = None,
) -> None:
    """Convert a trace of usage or of a network into fleetsim's own form."""
    from fleetsim.fleet.traces.formats import import_any
    from fleetsim.fleet.traces.usage.importing import ImportOptions

    options = ImportOptions(
        unknown=None if unknown is None else unknown.value,
        online=None if online is None else online.value,
        utc_offset_h=utc_offset_h,
        whole_days=whole_days,
    )
    for line in import_any(format_, source, dest, options, app=app_name):
        typer.echo(line)
    typer.echo(dest)
