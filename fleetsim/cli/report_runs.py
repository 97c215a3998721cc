"""The verbs `report`, `compare` and `timeline`: pages on runs, and traces for Perfetto."""

from pathlib import Path
from typing import Annotated

import typer

from fleetsim.cli.scenario_options import DpiOption, FormatOption, JsonOption, QuietOption
from fleetsim.cli.terminal import errors, note, output, output_json

RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]
PricesOption = Annotated[
    str | None,
    typer.Option(help="Prices of joules and hours: a YAML file or a bundled name.", metavar="FILE"),
]
TargetOption = Annotated[
    list[float] | None,
    typer.Option(
        help="Accuracy to reach, 0 to 1, such as 0.8; may be given many times.", min=0.0, max=1.0
    ),
]


def report(
    runs: RunsArgument,
    target: TargetOption = None,
    format_: FormatOption = None,
    dpi: DpiOption = 300,
    prices: PricesOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write report.html into run folders, and the figures into their figures/ if asked."""
    del quiet  # there is neither progress nor a note, and stdout has the pages alone
    from fleetsim.record.prices import load
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.pages import run_page

    priced = None if prices is None else load(prices, named_by="--prices")
    opened = [open_run(folder) for folder in runs]
    paths = [
        run_page.write_report(
            run, priced=priced, targets=target or (), formats=format_ or (), dpi=dpi
        )
        for run in opened
    ]
    if as_json:
        from fleetsim.report.pages.summary import run_record

        pages = zip(opened, paths, strict=True)
        output_json([run_record(run, target) | {"report": path} for run, path in pages])
        return
    output("\n".join(map(str, paths)))


def compare(
    runs: RunsArgument,
    target: TargetOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the comparison.")] = Path("comparison"),
    different_worlds: Annotated[
        bool,
        typer.Option(
            "--different-worlds", help="Compare although seed, task or fleet differ; says so."
        ),
    ] = False,
    format_: FormatOption = None,
    dpi: DpiOption = 300,
    prices: PricesOption = None,
    budget_s: Annotated[
        float | None,
        typer.Option("--budget-s", help="Time budget of a run; with --budget-j, a score (FedGCS)."),
    ] = None,
    budget_j: Annotated[
        float | None,
        typer.Option("--budget-j", help="Energy budget of a run; with --budget-s, a score."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Overlay runs and tabulate time- and energy-to-accuracy."""
    from fleetsim.record.prices import load
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.pages import comparison
    from fleetsim.report.pages.measures import budgets

    allowed = budgets(budget_s, budget_j)
    result = comparison.compare(
        [open_run(folder) for folder in runs],
        targets=target,
        different_worlds=different_worlds,
        priced=None if prices is None else load(prices, named_by="--prices"),
        budgets=allowed,
    )
    path = comparison.write(result, out, format_ or (), dpi=dpi)
    if as_json:
        output_json(comparison.record(result) | {"comparison": path})
    else:
        output(path if quiet else f"{comparison.text_table(result)}\ncomparison: {path}")


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
    from fleetsim.errors import ScenarioError
    from fleetsim.progress import bar
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.timeline.writing import parse_ranges, write_timeline

    shown = () if clients is None else parse_ranges(clients, "--clients")
    window = [] if rounds is None else parse_ranges(rounds, "--rounds")
    if len(window) > 1:
        raise ScenarioError(f"--rounds {rounds}: is more than one range; write FIRST:LAST")
    opened = open_run(run)
    with bar("timeline", errors) as update:
        path = write_timeline(
            opened,
            out,
            clients=shown,
            rounds=window[0] if window else None,
            on_progress=lambda done: update(done, ""),
        )
    if opened.manifest.status != "done":
        note(
            f"{run}: the run is {opened.manifest.status}; its timeline ends with round"
            f" {opened.rounds['round'].max()}, the last that is saved"
        )
    output(f"timeline: {path}")
    note("open it at https://ui.perfetto.dev, which keeps it in your browser")
