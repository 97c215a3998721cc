"""The verbs `report` and `compare`: pages on finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from fleetsim.cli.scenario_options import FigureFormat
from fleetsim.cli.terminal import output

RunsArgument = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]
PricesOption = Annotated[
    str | None,
    typer.Option(help="Prices of joules and hours: a YAML file or a bundled name.", metavar="FILE"),
]


FormatOption = Annotated[
    list[FigureFormat] | None,
    typer.Option(
        "--format", help="Write the figures as such files too, as --format pdf --format png."
    ),
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
    prices: PricesOption = None,
) -> None:
    """Write report.html into run folders, and the figures into their figures/ if asked."""
    from fleetsim.record.prices import load
    from fleetsim.record.saved_run import open_run
    from fleetsim.report.pages import run_page

    priced = None if prices is None else load(prices, named_by="--prices")
    for folder in runs:
        path = run_page.write_report(
            open_run(folder), priced=priced, targets=target or (), formats=_names(format_)
        )
        output(path)


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
    path = comparison.write(result, out, _names(format_))
    output(comparison.text_table(result))
    output(f"comparison: {path}")


def _names(formats: list[FigureFormat] | None) -> list[str]:
    return [chosen.value for chosen in formats or ()]
