"""The verb `timeline`: a run as a trace for Perfetto."""

from pathlib import Path
from typing import Annotated

import typer

from fleetsim.cli.terminal import errors, note, output


def timeline(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; timeline.pftrace in the run folder unless given."),
    ] = None,
    clients: Annotated[
        str | None,
        typer.Option(
            help="Clients that have a track, such as 3,40:49; all with a task unless given."
            " Power is that of all clients.",
            metavar="N,A:B...",
        ),
    ] = None,
    rounds: Annotated[
        str | None, typer.Option(help="First and last round, such as 10:20.", metavar="A:B")
    ] = None,
) -> None:
    """Write the tasks, rounds and power of a run as a timeline that ui.perfetto.dev opens."""
    from fleetsim import progress
    from fleetsim.errors import ScenarioError
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.timeline.writing import parse_ranges, write_timeline

    shown = () if clients is None else parse_ranges(clients, "--clients")
    window = [] if rounds is None else parse_ranges(rounds, "--rounds")
    if len(window) > 1:
        raise ScenarioError(f"--rounds {rounds}: is more than one range; write FIRST:LAST")
    opened = open_run(run)
    with progress.share("timeline", errors) as show:
        path = write_timeline(
            opened, out, clients=shown, rounds=window[0] if window else None, on_progress=show
        )
    if opened.manifest.status != "done":
        note(
            f"{run}: the run is {opened.manifest.status}; its timeline ends with round"
            f" {opened.rounds['round'].max()}, the last that is saved"
        )
    output(f"timeline: {path}")
    note("open it at https://ui.perfetto.dev, which keeps it in your browser")
