"""The verbs `report`, `compare` and `timeline`: pages on runs, and traces for Perfetto."""

from pathlib import Path

from fleetsim.cli.scenario_options import FigureFormat
from fleetsim.cli.terminal import errors, note, output, output_json
from fleetsim.host.collection import paused


def report(
    runs: list[Path],
    *,
    target: list[float] | None = None,
    format_: list[FigureFormat] | None = None,
    dpi: int = 300,
    prices: str | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Write report.html into run folders, and the figures into their figures/ if asked."""
    del quiet  # there is neither progress nor a note, and stdout has the pages alone
    with paused():
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
    runs: list[Path],
    *,
    target: list[float] | None = None,
    out: Path = Path("comparison"),
    different_worlds: bool = False,
    format_: list[FigureFormat] | None = None,
    dpi: int = 300,
    prices: str | None = None,
    budget_s: float | None = None,
    budget_j: float | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Overlay runs and tabulate time- and energy-to-accuracy."""
    with paused():
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
    run: Path, *, out: Path | None = None, clients: str | None = None, rounds: str | None = None
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
