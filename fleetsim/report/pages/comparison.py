"""The page of runs side by side: accuracy against time, energy and rounds, and costs of targets.

docs/reports.md says which runs can be compared.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from fleetsim.errors import ScenarioError
from fleetsim.host import paths
from fleetsim.record import atomic_files
from fleetsim.record.manifest import platform_differences
from fleetsim.record.prices import Prices, bill
from fleetsim.record.saved_run import Run
from fleetsim.report import csv_text, markup
from fleetsim.report.figures import accuracy, ledger, opinions, style
from fleetsim.report.pages import ledger_tables, regret, run_figures, scenario_differences, summary
from fleetsim.report.pages.comparison_tables import (
    MAX_KEYS,
    NO_EVIDENCE,
    Entry,
    RunComparison,
    cost_tables,
    detail_tables,
    differences_table,
    frame,
    record,
    runs_table,
    text_table,
    worlds_message,
)
from fleetsim.report.pages.measures import ScoreBudgets
from fleetsim.report.pages.run_figures import Drawn
from fleetsim.report.pages.setup import SetupBlock, facts_of_runs
from fleetsim.report.quantities import some, text

__all__ = ["Entry", "RunComparison", "compare", "frame", "record", "text_table", "write"]

STEM = "comparison"
LEDGER = f"{STEM}-ledger"

_MAX_TARGETS = 6


def compare(
    runs: Sequence[Run],
    *,
    targets: Sequence[float] | None = None,
    different_worlds: bool = False,
    priced: Prices | None = None,
    budgets: ScoreBudgets | None = None,
) -> RunComparison:
    """Compare runs, also those of different worlds if that is asked for.

    Targets are fractions; unless given, usual ones that any run reached. Costs need prices, and
    comprehensive scores budgets.
    """
    if not runs:
        raise ScenarioError("nothing to compare; name one or more run folders")
    places = [run.folder.resolve() for run in runs]
    for index, run in enumerate(runs):
        if places[index] in places[:index]:
            raise ScenarioError(f"{run.folder}: is given twice; name each run once")
    for run in runs:
        run.require_unchanged()
    world = scenario_differences.world_differences(runs)
    if world and not different_worlds:
        raise ScenarioError(
            f"the runs have different worlds, they differ in {some(world, MAX_KEYS)}; compare runs"
            " that share them, or give --different-worlds"
        )
    summary.check_targets(targets or ())
    reached = summary.reached_targets([run.rounds for run in runs])
    labels = scenario_differences.labels(runs)
    entries = []
    for label, run in zip(labels, runs, strict=True):
        costs = None if priced is None else bill(run, priced)
        entries.append(Entry(label, run, summary.totals(run), run.ledger(), costs))
    return RunComparison(
        entries=tuple(entries),
        targets=tuple(sorted(set(targets)) if targets else reached[-_MAX_TARGETS:]),
        differences=tuple(scenario_differences.differences(runs)),
        world_differences=tuple(world),
        notes=tuple(_notes(entries)),
        prices=priced,
        budgets=budgets,
        # Regret is not defined between worlds.
        regrets=None if world else regret.regrets(dict(zip(labels, runs, strict=True))),
    )


def write(
    comparison: RunComparison,
    folder: str | Path,
    formats: Sequence[str] = (),
    *,
    dpi: int = style.PRINT_DPI,
) -> Path:
    """Write comparison.html, two .csv, and figures as files of these formats; return the page."""
    folder, hint = paths.local(folder), "choose another place with --out"
    atomic_files.make_folder(folder, hint=hint)
    for name, table in (
        (f"{STEM}.csv", frame(comparison)),
        (f"{LEDGER}.csv", ledger_tables.frame(comparison.ledgers)),
    ):
        atomic_files.write(folder / name, csv_text.encoded(table), hint=hint)
    number = len(comparison.entries)
    names = ", ".join(dict.fromkeys(run.manifest.name for run in comparison.runs.values()))
    heading = f"{names}: {'one run' if number == 1 else f'{number} runs side by side'}"
    differing, keys_table = [*map(str, comparison.differences)], differences_table(comparison)
    keys = "Keys of the resolved scenarios that differ; - is a key that a run does not have."
    regrets, budgets = regret.caption(comparison.regrets), comparison.budgets
    path = folder / f"{STEM}.html"
    markup.write_static(
        path,
        "compare.html.j2",
        title=f"{heading} - fleetsim",
        heading=heading,
        question=f"The scenarios differ in {some(differing, MAX_KEYS) or 'no key'}.",
        setup=SetupBlock(
            facts_of_runs(comparison.runs.values()), {keys: keys_table} if keys_table.rows else {}
        ),
        worlds=worlds_message(comparison) if comparison.world_differences else "",
        evidence=NO_EVIDENCE if comparison.evidence else "",
        notes=comparison.notes,
        first_tables=cost_tables(comparison),
        pictures=run_figures.saved(_figures(comparison), folder, formats, dpi=dpi, regret=regrets),
        tables=detail_tables(comparison),
        regret=regrets,
        budgets=[text(budgets.time_s, "s"), text(budgets.energy_j, "j")] if budgets else [],
        prices=comparison.prices and comparison.prices.title,
        formats=[f".{name}" for name in dict.fromkeys(formats)],
        runs=runs_table(comparison),
    )
    return path


def _figures(comparison: RunComparison) -> Drawn:
    """Yield accuracy, selections, regret and opinions if there are any, and ledgers."""
    runs = comparison.runs
    rounds = {label: run.rounds for label, run in runs.items()}
    against = get_args(accuracy.Against)
    yield STEM, partial(accuracy.accuracy, rounds, against=against, targets=comparison.targets)
    yield f"{STEM}-selection", partial(run_figures.coverage_figure, runs)
    if comparison.regrets is not None:
        yield f"{STEM}-regret", partial(regret.figure, comparison.regrets, list(runs))
    by_run = {label: run.opinions() for label, run in runs.items()}
    if any(map(len, by_run.values())):
        yield f"{STEM}-opinions", partial(opinions.side_by_side, by_run)
    yield LEDGER, partial(ledger.side_by_side, comparison.ledgers)


def _notes(entries: Sequence[Entry]) -> list[str]:
    notes = []
    for entry in entries:
        status = entry.run.manifest.status
        if status != "done":
            notes.append(
                f"{entry.label} is not complete ({status}): its numbers go up to round"
                f" {entry.totals.num_rounds:,}, and it may still reach further targets"
            )
        if not entry.totals.num_rounds:
            notes.append(f"{entry.label} has no rounds")
        elif not summary.is_trained(entry.run):
            notes.append(
                f"{entry.label} has no accuracy: it was run without training, or never evaluated"
            )
        for failure in entry.run.manifest.failures:
            notes.append(f"{entry.label}: {failure.what.removesuffix('.')}")
    versions = dict.fromkeys(entry.run.manifest.versions.get("fleetsim") for entry in entries)
    if len(versions) > 1:
        notes.append(
            f"the runs were made by different versions of fleetsim: {', '.join(map(str, versions))}"
        )
    return [*notes, *_platform_notes(entries)]


def _platform_notes(entries: Sequence[Entry]) -> Iterator[str]:
    by_entry = [entry.run.manifest.platforms for entry in entries]
    for entry, platforms in zip(entries, by_entry, strict=True):
        if len(platforms) > 1:
            ids = ", ".join(platform.id for platform in platforms)
            yield f"{entry.label} was resumed on another numerical platform ({ids})"
    unknown = [entry.label for entry in entries if not entry.run.manifest.platforms]
    if unknown and len(unknown) < len(entries):
        yield f"it is not known on which numerical platform these ran: {', '.join(unknown)}"
    firsts = list({platforms[0].id: platforms[0] for platforms in by_entry if platforms}.values())
    if len(firsts) > 1:
        differ = some(platform_differences(firsts), MAX_KEYS)
        yield (
            "the runs ran on different numerical platforms, so their last bits differ too, and"
            f" where two clients are almost equal, choices: {differ}"
        )
