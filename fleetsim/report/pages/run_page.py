"""The page of one run, which opens offline, and its figures as files where these are asked for."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pandas as pd

from fleetsim.contracts import Outcome, Purpose
from fleetsim.record import atomic_files
from fleetsim.record.measures.ledger import energy_of
from fleetsim.record.prices import Prices
from fleetsim.record.prices import bill as bill_of
from fleetsim.record.saved_run import Run
from fleetsim.report import markup
from fleetsim.report.figures import style
from fleetsim.report.figures.device_groups import MAX_ROWS, Kinds
from fleetsim.report.figures.ledger import COMPONENT_NAMES
from fleetsim.report.figures.task_durations import ALL, COMPLETE, QUANTILES, Durations, by_device
from fleetsim.report.markup import Table
from fleetsim.report.pages import ledger_tables, measures, run_figures, summary
from fleetsim.report.pages.setup import VERSIONS, SetupBlock, facts_of_runs
from fleetsim.report.quantities import NOTHING, percent, target, text
from fleetsim.schema import strict_yaml

REPORT = "report.html"
FIGURES = "figures"
_SMALL = 0.1
"""Share of the energy or of a round below which a loss is called small."""


def write_report(
    run: Run,
    *,
    priced: Prices | None = None,
    targets: Sequence[float] = (),
    formats: Sequence[str] = (),
    dpi: int = style.PRINT_DPI,
) -> Path:
    """Write `report.html` into the run folder, and return the page.

    Targets are accuracies (fractions) besides the usual ones. Figures go into `figures/` in these
    formats, too; dpi is the resolution of PNG.
    """
    summary.check_targets(targets)
    run.require_unchanged()
    rounds, tasks = run.rounds, run.recorded_tasks
    clients, entries = run_figures.clients_of(run), run.ledger()
    shown_targets = sorted({*_usual_targets(rounds), *targets})
    folder = run.folder / FIGURES
    if formats:
        atomic_files.make_inner_folder(folder, hint="make the run folder writable")
    drawn = {heading: [*each] for heading, each in run_figures.sections(run, shown_targets)}
    all_drawn = chain(*drawn.values(), run_figures.ledger_figures(run, entries))
    pictures = iter(run_figures.saved(all_drawn, folder, formats, dpi=dpi))
    sections = {heading: [*islice(pictures, len(each))] for heading, each in drawn.items()}
    kinds, deadline_s = run.manifest.device_kinds, run.scenario["server"].get("deadline_s")
    tables = {
        run_figures.SELECTION: [(measures.CAPTION, measures.table(run))],
        run_figures.DURATIONS: duration_tables(tasks, kinds, deadline_s),
    }
    bill = None if priced is None else bill_of(run, priced)
    kind = (run.scenario["server"].get("selector") or {}).get("kind") or NOTHING
    path = run.folder / REPORT
    markup.write_static(
        path,
        "page.html.j2",
        manifest=run.manifest,
        title=f"{run.manifest.name} - fleetsim",
        subtitle=f"selector {kind}, seed {run.manifest.seed}, {summary.ending(run)}",
        num_rounds=len(rounds),
        is_trained=summary.is_trained(run),
        setup=SetupBlock(facts_of_runs([run])),
        overview=list(overview(run, tasks, entries)),
        numbers=summary.numbers(run, summary.totals(run)),
        notes=list(_notes(run)),
        targets=summary.targets_table(rounds, shown_targets),
        sections=[
            (heading, tables.get(heading, ()), shown)
            for heading, shown in sections.items()
            if shown
        ],
        ledger=ledger_tables.table(entries),
        ledger_pictures=[*pictures],
        device_figures=summary.device_figures_table(run.manifest),
        prices=priced,
        bill=None if bill is None else ledger_tables.bill_table(bill),
        price_sources=None if priced is None else ledger_tables.sources_table(priced),
        outcomes=summary.outcomes_table(tasks),
        devices=summary.devices_table(tasks, clients),
        formats=[name.upper() for name in dict.fromkeys(formats)],
        scenario=strict_yaml.dump(run.scenario),
        versions=_versions(run),
    )
    return path


def overview(run: Run, tasks: pd.DataFrame, entries: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield what a page shows and where to look next, each with a heading.

    There is nothing of a run that spent no energy.
    """
    joules = entries.groupby("component")["energy_j"].sum()
    if not joules.any():
        return
    shows = "This page shows the accuracy of a model, and what it cost in virtual time and energy"
    yield f"{shows}: {_accuracy(run)}; see", "Time and energy to accuracy"
    share = percent(joules.max() / joules.sum())
    most = COMPONENT_NAMES[str(joules.idxmax())]
    yield f"The largest part of the energy, {share}, is {most}; see", "Energy ledger"
    yield _largest_loss(run, tasks)


def _accuracy(run: Run) -> str:
    best, wanted = summary.totals(run).best_accuracy, run.scenario["stop"].get("accuracy")
    targets = [wanted] if wanted else summary.reached_targets([run.rounds])[-1:]
    if best is None:
        return "there is no accuracy"
    if not targets or best < targets[0]:
        missed = f"the target of {target(wanted)} was not reached, and " if wanted else ""
        return f"{missed}the best accuracy is {percent(best)}"
    ((accuracy, number, time, energy),) = summary.targets_table(run.rounds, targets).rows
    return f"{accuracy} was first reached after {time}, {energy} and {number} rounds"


def _largest_loss(run: Run, tasks: pd.DataFrame) -> tuple[str, str]:
    """Compare wasted energy with waiting in rounds."""
    by_outcome = tasks.assign(energy_j=energy_of(tasks)).groupby("outcome")["energy_j"].sum()
    lost = by_outcome.drop(Outcome.DELIVERED, errors="ignore")
    wasted = lost.sum() / by_outcome.sum()
    rounds, waiting_s = run.rounds, run.average_waiting_s() or 0.0
    waiting = waiting_s / float((rounds["finished_at_s"] - rounds["started_at_s"]).mean())
    if max(wasted, waiting) < _SMALL:
        return "Wasted energy and waiting are small; look next at", "Time and energy by device"
    if wasted < waiting:
        words = f"the first client of a round waits {text(waiting_s, 's')} for the last"
        share = percent(waiting)
        return f"On average {words}, {share} of the round; look next at", run_figures.DURATIONS
    words = f"of the energy was wasted, most of it in tasks that were {lost.idxmax()}"
    return f"{percent(wasted)} {words}; look next at", "Task outcomes"


def duration_tables(
    tasks: pd.DataFrame, kinds: Kinds, deadline_s: float | None
) -> list[tuple[str, Table]]:
    """Return captions and tables of the durations of train tasks by device.

    They are quantiles, and the shares that deadlines at the quantiles of all tasks cut off.
    """
    devices = by_device(tasks, kinds, MAX_ROWS)
    train = tasks[tasks["purpose"] == Purpose.TRAIN]
    ended = train.loc[~train["outcome"].isin(COMPLETE), "outcome"].value_counts()
    caption = "Time from dispatch to delivery within which a share of the tasks ends."
    if len(ended):
        causes = ", ".join(f"{number:,} {outcome}" for outcome, number in ended.items())
        caption += (
            f" {ended.sum():,} of {len(train):,} tasks ended before ({causes}). They are censored"
            " at their end (Kaplan-Meier), as if it had nothing to do with the time still needed."
        )
    deadlines: dict[float, str] = {}
    if ALL in devices:  # the quantiles of a single device are in its row
        for share in QUANTILES:
            at_s = devices[ALL].quantile_s(share)
            deadlines |= {at_s: f"{text(at_s, 's')} ({target(share)})"} if at_s else {}
    if deadline_s is not None:
        deadlines[deadline_s] = f"{text(deadline_s, 's')} (server.deadline_s)"
    deadlines = dict(sorted(deadlines.items()))
    quantiles, shares = [], []
    for device, each in devices.items():
        within = (_within(each, share) for share in QUANTILES)
        quantiles.append((device, f"{each.num_tasks:,}", f"{each.num_censored:,}", *within))
        longer = (_bound(each, at_s) + percent(float(each.longer_than(at_s))) for at_s in deadlines)
        shares.append((device, *longer))
    columns = [f"{target(share)} within" for share in QUANTILES]
    cut_off = "Share of the tasks that a deadline cuts off: at quantiles of all, and the run's."
    return [
        (caption, Table(("device", "train tasks", "ended before", *columns), quantiles)),
        (cut_off, Table(("device", *deadlines.values()), shares if deadlines else [])),
    ]


def _within(each: Durations, share: float) -> str:
    at_s = each.quantile_s(share)
    if at_s is None:
        return f"over {text(float(each.end_s[-1]), 's')}"
    return _bound(each, at_s) + text(at_s, "s")


def _bound(each: Durations, at_s: float) -> str:
    return "up to " if at_s > each.bound_from_s else ""


def _usual_targets(rounds: pd.DataFrame) -> list[float]:
    """Return the usual target accuracies that were reached, and the next one."""
    reached = summary.reached_targets([rounds])
    usual = [*summary.LOW_TARGETS, *summary.TARGETS]
    return reached + [target for target in usual if reached and target > reached[-1]][:1]


def _notes(run: Run) -> Iterator[str]:
    """Yield notes on batteries, and on the models behind the numbers."""
    paid = summary.batteries_paid(run)
    if paid is not None:
        yield f"Batteries: the run took {paid}."
    cool = run.manifest.not_slowed_by_heat
    if not cool:
        return
    if (run.scenario["fleet"].get("thermal") or {}).get("kind") == "none":
        why = "fleet.thermal.kind is none, so computations of minutes are too fast"
    else:
        why = "no thermal model of them is known"
    yield f"Heat slows none of {', '.join(cool)}: {why}."


def _versions(run: Run) -> Table:
    manifest = run.manifest
    own: dict[str, Any] = {
        "trainer": manifest.trainer,
        "digest": manifest.digest or NOTHING,
        "scenario hash": manifest.scenario_hash,
        "world hash": manifest.world_hash,
    }
    for plugin in manifest.plugins:
        own[f"file of {plugin.kind} plug-in"] = plugin.source_sha256 or NOTHING
    own |= {name: known for name, known in manifest.versions.items() if name not in VERSIONS}
    rows = [(str(key), str(value)) for key, value in own.items()]
    return Table(("what", "value"), rows, is_text=True)
