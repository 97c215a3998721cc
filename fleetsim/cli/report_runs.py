"""The verbs `report` and `compare`: pages on finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]
PricesOption = Annotated[
    str | None,
    typer.Option(help="Prices of joules and hours: a YAML file or a bundled name.", metavar="FILE"),
]


def report(runs: RunsArgument, prices: PricesOption = None) -> None:
    """Write report.html and figures into run folders."""
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.pages import run_page
    from fleetsim.report.pages.prices import load

    priced = None if prices is None else load(prices)
    for folder in runs:
        typer.echo(run_page.write_report(open_run(folder), priced=priced))


def compare(
    runs: RunsArgument,
    target: Annotated[
        list[float] | None,
        typer.Option(help="Accuracy to reach, 0 to 1; may be given many times.", min=0.0, max=1.0),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the comparison.")] = Path("comparison"),
    different_worlds: Annotated[
        bool,
        typer.Option(
            "--different-worlds", help="Compare although seed, task or fleet differ; says so."
        ),
    ] = False,
    prices: PricesOption = None,
    budget_s: Annotated[
        float | None,
        typer.Option("--budget-s", help="Time budget of a run; with --budget-j, a score (FedGCS)."),
    ] = None,
    budget_j: Annotated[
        float | None,
        typer.Option("--budget-j", help="Energy budget of a run; with --budget-s, a score."),
    ] = None,
) -> None:
    """Overlay runs and tabulate time- and energy-to-accuracy."""
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.pages import comparison
    from fleetsim.report.pages.measures import budgets
    from fleetsim.report.pages.prices import load

    allowed = budgets(budget_s, budget_j)
    result = comparison.compare(
        [open_run(folder) for folder in runs],
        targets=target,
        different_worlds=different_worlds,
        priced=None if prices is None else load(prices),
        budgets=allowed,
    )
    path = comparison.write(result, out)
    typer.echo(comparison.text_table(result))
    typer.echo(f"comparison: {path}")
