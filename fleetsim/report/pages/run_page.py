"""The report of one run: a page that opens offline, and its figures as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from fleetsim.record import atomic_files
from fleetsim.record.saved_run import Run
from fleetsim.report import markup, quantities
from fleetsim.report.figures import (
    batteries,
    coverage,
    curves,
    energy_inequality,
    gantt,
    ledger,
    opinions,
    selection,
    selection_ratio,
    style,
)
from fleetsim.report.markup import Picture, Table
from fleetsim.report.pages import measures, prices, summary
from fleetsim.report.pages.prices import Prices
from fleetsim.report.quantities import NOTHING
from fleetsim.schema import strict_yaml

REPORT = "report.html"
FIGURES = "figures"

_SELECTION = "Selection"
_UNFINISHED = {
    "running": "It is still running, or it was killed. What follows goes up to its last checkpoint;"
    " go on with --resume.",
    "interrupted": "What follows goes up to the interruption; go on with --resume.",
    "failed": "What follows goes up to the fault:",
}
_NO_ACCURACY = (
    "There is no accuracy to show: the run was made without training, or no round was evaluated."
)


def write_report(run: Run, *, priced: Prices | None = None) -> Path:
    """Write `report.html` and `figures/` into the run folder.

    Args:
        run: the run.
        priced: what its joules and hours cost; None: that is not asked.

    Returns:
        The page.

    Raises:
        DataError: a table is missing, damaged or was changed after the run, the energy ledger does
            not balance, or a file cannot be written.
    """
    run.require_unchanged()
    rounds, tasks = run.rounds, run.recorded_tasks
    is_done = run.manifest.status == "done"
    clients = run.clients if is_done else selection.counts_from_tasks(tasks)
    entries = run.ledger()
    totals = summary.totals(run)
    targets = _targets(rounds)
    folder = run.folder / FIGURES
    atomic_files.make_folder(folder, way_out="make the run folder writable")
    sections = {
        heading: _saved(drawn, folder)
        for heading, drawn in (
            ("Accuracy", _accuracy(rounds, targets)),
            ("Where time and energy went", _costs(tasks)),
            (_SELECTION, _selection(run, clients)),
            ("Who was there, and who was waited for", _people(run, tasks)),
        )
    }
    bill = None if priced is None else prices.bill(run, priced)
    path = run.folder / REPORT
    markup.write(
        path,
        "page.html.j2",
        title=f"{run.manifest.name} - fleetsim",
        name=run.manifest.name,
        subtitle=_subtitle(run),
        banners=list(_banners(run)),
        numbers=summary.numbers(run, totals),
        notes=list(_notes(run)),
        targets=summary.targets_table(rounds, targets),
        no_targets=(
            "No accuracy of 10 % or more was reached." if summary.is_trained(run) else _NO_ACCURACY
        ),
        sections=[
            (heading, measures.table(run) if heading == _SELECTION else None, pictures)
            for heading, pictures in sections.items()
            if pictures
        ],
        measures_caption=(
            "What papers on client selection compare runs by; a measure that means nothing for this"
            " run is not there."
        ),
        ledger=ledger.table(entries),
        ledger_pictures=_saved(_ledger(entries, clients, is_whole_fleet=is_done), folder),
        prices=priced,
        bill=None if bill is None else prices.table(bill),
        price_sources=None if priced is None else prices.sources_table(priced),
        outcomes=summary.outcomes_table(tasks),
        devices=summary.devices_table(tasks, clients),
        devices_caption=(
            "By kind of device: time and energy to deliver are means of the train tasks that were"
            " delivered; energy counts all tasks, probes too."
            + ("" if is_done else " Clients that were never sent a task are not in it.")
        ),
        digest=run.manifest.digest,
        scenario=strict_yaml.dump(run.scenario),
        versions=_versions(run),
    )
    return path


def summary_lines(run: Run) -> list[str]:
    """A run in a few aligned lines, for a terminal."""
    totals = summary.totals(run)
    manifest = run.manifest
    accuracy = "none: the run was made without training, or nothing was evaluated"
    if totals.final_accuracy is not None:
        accuracy = (
            f"{quantities.percent(totals.final_accuracy)} final,"
            f" {quantities.percent(totals.best_accuracy)} best"
        )
    waiting = ""
    if totals.waiting_mean_s is not None:
        waiting = f", {quantities.text(totals.waiting_mean_s, 's')} mean waiting"
    lines = [
        *(("FAILED", f"{failure.what} {failure.cause}") for failure in manifest.failures),
        ("folder", str(run.folder)),
        (
            "rounds",
            f"{totals.num_rounds:,} in {quantities.text(totals.virtual_s, 's')} of virtual time,"
            f" {_ending(run)}",
        ),
        ("accuracy", accuracy),
        (
            "energy",
            f"{quantities.text(totals.energy_j, 'j')},"
            f" {quantities.percent(totals.wasted_fraction)} of it wasted",
        ),
        (
            "tasks",
            f"{totals.num_delivered:,} of {totals.num_selected:,} train tasks delivered{waiting}",
        ),
        ("digest", manifest.digest or f"{NOTHING} (the run is not done)"),
    ]
    return [f"{label:<10}{words}" for label, words in lines]


_Drawn = Iterator[tuple[str, Figure, str, str]]
"""Stem, figure, what it shows, how to read it."""


def _saved(drawn: _Drawn, folder: Path) -> list[Picture]:
    """The figures, each saved as it is drawn."""
    return [
        Picture(stem, style.save(figure, folder, stem), says, caption)
        for stem, figure, says, caption in drawn
    ]


def _targets(rounds: pd.DataFrame) -> list[float]:
    """The accuracies that were reached, and the next one."""
    reached = summary.reached_targets([rounds])
    ladder = [*summary.LOW_TARGETS, *summary.TARGETS]
    return reached + [target for target in ladder if reached and target > reached[-1]][:1]


def _accuracy(rounds: pd.DataFrame, targets: list[float]) -> _Drawn:
    if not rounds["accuracy"].notna().any():
        return
    captions: Mapping[curves.Against, str] = {
        "time": "How fast: a step up is a better model at the end of a round; a dot is where an"
        " accuracy of the table above was first reached.",
        "energy": "How dear: the same models against all joules that the fleet had spent by then,"
        " wasted ones too.",
        "rounds": "How many rounds: the same models as an algorithm sees them, blind to what a"
        " round takes.",
    }
    for against, caption in captions.items():
        figure = curves.accuracy({"run": rounds}, against=[against], targets=targets)
        yield f"accuracy-{against}", figure, f"test accuracy against {against}", caption


def _costs(tasks: pd.DataFrame) -> _Drawn:
    yield (
        "seconds-by-device",
        curves.seconds_by_device(tasks),
        "seconds of download, compute and upload by device",
        "Left, what the fleet's devices spent in all; right, what one train task takes: a long bar"
        " is a straggler, its widest colour the reason.",
    )
    yield (
        "joules-by-device",
        curves.joules_by_device(tasks),
        "joules by component and device",
        "The same for joules: idle is what a device draws for being awake from dispatch to the end"
        " of its task, all other components come on top of it.",
    )
    yield (
        "waste",
        curves.waste(tasks),
        "wasted joules by cause and by device",
        "Energy of tasks whose answer nobody used: late at the deadline, lost (offline, battery,"
        " link, crashed, memory), cancelled because the server had enough, stale or refused.",
    )


def _selection(run: Run, clients: pd.DataFrame) -> _Drawn:
    if len(run.rounds) > 1:
        yield (
            "coverage",
            coverage.coverage({"run": run.share_seen()}, {"run": run.selection_counts()}),
            "share of the fleet selected at least once by round, and how often clients were"
            " selected",
            "Left, how fast everybody is tried: a dot is where 90 % and all of the fleet had been"
            " selected. Right, how many clients were selected so and so often: a tail to the right"
            " is a favourite.",
        )
    selected, devices = run.selection_ratio(), run.selected_devices()
    if selected is not None and devices is not None and len(run.rounds) > 1:
        yield (
            "selection-ratio",
            selection_ratio.ratios(selected, devices, _device_shares(run, clients)),
            "share of the fleet that each round selected, and its shares by kind of device",
            "Above, how much of the fleet a round takes; below, of which devices: a band that is"
            " wider than its share of the fleet is a preference.",
        )
    yield (
        "selections",
        selection.selections(clients, is_whole_fleet=run.manifest.status == "done"),
        "how often clients were selected, by device",
        "Who carries the load: devices above the dashed mean of the fleet are asked more than"
        " their share. The numbers in brackets are clients.",
    )
    told = run.opinions()
    if len(told):
        yield (
            "opinions",
            opinions.opinions(told, run.rounds, run.selection_counts()),
            "accuracy of the model on the clients' own data after every slot",
            "What the selector learns from: every client's accuracy on its own data after a slot."
            " Beliefs, where there are any, are what clients make of it among neighbours.",
        )


def _device_shares(run: Run, clients: pd.DataFrame) -> dict[str, float] | None:
    """Share of each device in the fleet, where all clients are known."""
    if run.manifest.status != "done":
        return None
    sizes = clients["device"].value_counts()
    return {str(device): number / len(clients) for device, number in sizes.items()}


def _people(run: Run, tasks: pd.DataFrame) -> _Drawn:
    if batteries.is_told(run.rounds):
        yield (
            "batteries",
            batteries.levels(run.rounds),
            "battery levels, and clients that can take part or are off, over time",
            "Above, how full batteries are at the end of each round: the line is the middle one, a"
            " tenth lie below the area and a tenth above. Below, how many clients the server could"
            " choose from when the round began, and how many are off because they ran empty.",
        )
    deadline_s = _setting(run, "server", "deadline_s")
    yield (
        "stragglers",
        gantt.stragglers(run.rounds, tasks, deadline_s=deadline_s),
        "tasks of one round as a Gantt chart",
        "The round in which the first answer waited longest for the last: a row is a client, pale"
        " is done and waiting, the mark at the end of a bar says how it ended.",
    )


def _ledger(entries: pd.DataFrame, clients: pd.DataFrame, *, is_whole_fleet: bool) -> _Drawn:
    yield (
        "ledger",
        ledger.by_component_and_fate(entries),
        "joules by component and by what came of them",
        "A bar is what one component took, its colours say what came of it; each panel has a scale"
        " of its own.",
    )
    yield (
        "payers",
        energy_inequality.who_paid(entries, clients, is_whole_fleet=is_whole_fleet),
        "Lorenz curve of joules over clients, and the clients that paid most",
        "The further the curve sags below the dashed line, the more of the energy a few clients"
        " bore: on the dashed line all paid the same. On the right, those who bore most.",
    )


def _setting(run: Run, *keys: str) -> Any:
    """A value of the resolved scenario; None where the scenario has no such key."""
    value: Any = run.scenario
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _ending(run: Run) -> str:
    manifest = run.manifest
    how = "stopped" if manifest.status == "done" else manifest.status
    return f"{how}: {manifest.stop_text}" if manifest.stop_text else how


def _subtitle(run: Run) -> str:
    kind = _setting(run, "server", "selector", "kind") or NOTHING
    return f"selector {kind}, seed {run.manifest.seed}, {_ending(run)}"


def _notes(run: Run) -> Iterator[str]:
    """What a reader of the numbers should know of the models behind them."""
    cool = run.manifest.not_slowed_by_heat
    if not cool:
        return
    if _setting(run, "fleet", "thermal", "kind") == "none":
        why = "fleet.thermal.kind is none, so what computes for minutes is too fast"
    else:
        why = "no thermal model of them is known"
    yield f"Heat slows none of {', '.join(cool)}: {why}."


def _banners(run: Run) -> Iterator[tuple[str, str]]:
    manifest = run.manifest
    if manifest.status != "done":
        words = _UNFINISHED[manifest.status]
        if manifest.status == "failed":
            words += f" {manifest.stop_text}"
        yield f"This run is not complete ({manifest.status}).", words
    if run.rounds.empty:
        yield "No round was recorded.", manifest.stop_text or ""
    yield from ((failure.what, failure.cause) for failure in manifest.failures)
    if not run.rounds.empty and not summary.is_trained(run):
        yield "No accuracy.", "The run was made without training, or no round was evaluated."
    if manifest.warnings:
        yield "Warned of before the run:", "; ".join(manifest.warnings)


def _versions(run: Run) -> Table:
    manifest = run.manifest
    own: dict[str, Any] = {
        "trainer": manifest.trainer,
        "digest": manifest.digest or NOTHING,
        "scenario hash": manifest.scenario_hash,
        "world hash": manifest.world_hash,
    }
    if manifest.platforms:
        own["numerical platform"] = ", ".join(platform.id for platform in manifest.platforms)
    if manifest.plugin is not None:
        own["plug-in"] = manifest.plugin.name
        own["plug-in's file"] = manifest.plugin.source_sha256 or NOTHING
    rows = [(str(key), str(value)) for key, value in {**own, **manifest.versions}.items()]
    return Table(("what", "value"), rows, is_text=True)
