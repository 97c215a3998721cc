"""The page of one run, which opens offline, and its figures as files."""

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
    accuracy,
    batteries,
    coverage,
    device_costs,
    energy_inequality,
    gantt,
    ledger,
    opinions,
    selection,
    selection_ratio,
    style,
)
from fleetsim.report.markup import Picture, Table
from fleetsim.report.pages import ledger_tables, measures, prices, summary
from fleetsim.report.pages.prices import Prices
from fleetsim.report.quantities import NOTHING
from fleetsim.schema import strict_yaml

REPORT = "report.html"
FIGURES = "figures"

_SELECTION = "Selection"
_UNFINISHED = {
    "running": "It is still running, or it was killed. The page ends with its last checkpoint; go"
    " on with --resume.",
    "interrupted": "The page ends with the interruption; go on with --resume.",
    "failed": "The page ends with the fault:",
}
_NO_ACCURACY = (
    "There is no accuracy to show: the run was made without training, or no round was evaluated."
)


def write_report(run: Run, *, priced: Prices | None = None) -> Path:
    """Write `report.html` and `figures/` into the run folder.

    Args:
        run: the run.
        priced: prices of joules and hours; None: no costs.

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
            ("Time and energy by device", _costs(tasks)),
            (_SELECTION, _selection(run, clients)),
            ("Availability and waiting", _availability(run, tasks)),
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
            "Measures by which papers on client selection compare runs; a measure that does not"
            " apply to this run is left out."
        ),
        ledger=ledger_tables.table(entries),
        ledger_pictures=_saved(_ledger(entries, clients, is_whole_fleet=is_done), folder),
        prices=priced,
        bill=None if bill is None else prices.table(bill),
        price_sources=None if priced is None else prices.sources_table(priced),
        outcomes=summary.outcomes_table(tasks),
        devices=summary.devices_table(tasks, clients),
        devices_caption=(
            "By kind of device: time and energy to deliver are means of the delivered train tasks;"
            " energy counts all tasks, with probes."
            + ("" if is_done else " Clients without a task are left out.")
        ),
        digest=run.manifest.digest,
        scenario=strict_yaml.dump(run.scenario),
        versions=_versions(run),
    )
    return path


def summary_lines(run: Run) -> list[str]:
    """Return a run in a few aligned lines, for a terminal."""
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
"""Stem, figure, description, caption."""


def _saved(drawn: _Drawn, folder: Path) -> list[Picture]:
    """Return the figures, each saved as it is drawn."""
    return [
        Picture(stem, style.save(figure, folder, stem), says, caption)
        for stem, figure, says, caption in drawn
    ]


def _targets(rounds: pd.DataFrame) -> list[float]:
    """Return the usual target accuracies that were reached, and the next one."""
    reached = summary.reached_targets([rounds])
    usual = [*summary.LOW_TARGETS, *summary.TARGETS]
    return reached + [target for target in usual if reached and target > reached[-1]][:1]


def _accuracy(rounds: pd.DataFrame, targets: list[float]) -> _Drawn:
    if not rounds["accuracy"].notna().any():
        return
    captions: Mapping[accuracy.Against, str] = {
        "time": "Accuracy after each round, at its end. A dot marks where an accuracy of the table"
        " above was first reached.",
        "energy": "The same models against all joules that the fleet had spent by then, wasted ones"
        " included.",
        "rounds": "The same models by round, without regard to the duration of rounds.",
    }
    for against, caption in captions.items():
        figure = accuracy.accuracy({"run": rounds}, against=[against], targets=targets)
        yield f"accuracy-{against}", figure, f"test accuracy against {against}", caption


def _costs(tasks: pd.DataFrame) -> _Drawn:
    yield (
        "seconds-by-device",
        device_costs.seconds_by_device(tasks),
        "seconds of download, compute and upload by device",
        "Left, the sum over all tasks; right, the mean train task. A long bar on the right is a"
        " straggler, and its widest colour shows the reason.",
    )
    yield (
        "joules-by-device",
        device_costs.joules_by_device(tasks),
        "joules by component and device",
        "The same for joules. Idle is the power of an awake device from dispatch to the end of its"
        " task; all other components are added to it.",
    )
    yield (
        "waste",
        device_costs.waste(tasks),
        "wasted joules by cause and by device",
        "Energy of tasks that were not delivered: late at the deadline, lost (offline, battery,"
        " link, crashed, memory), cancelled because the server had enough, stale or refused.",
    )


def _selection(run: Run, clients: pd.DataFrame) -> _Drawn:
    if len(run.rounds) > 1:
        yield (
            "coverage",
            coverage.coverage({"run": run.share_seen()}, {"run": run.selection_counts()}),
            "share of the fleet selected at least once by round, and how often clients were"
            " selected",
            "Left, the share of the fleet that was ever selected; dots mark 90 % and 100 %. Right,"
            " the number of clients by times selected: clients far to the right are preferred.",
        )
    selected, devices = run.selection_ratio(), run.selected_devices()
    if selected is not None and devices is not None and len(run.rounds) > 1:
        yield (
            "selection-ratio",
            selection_ratio.ratios(selected, devices, _device_shares(run, clients)),
            "share of the fleet that each round selected, and its shares by kind of device",
            "Above, the share of the fleet that a round selects; below, by device: a band wider"
            " than the device's share of the fleet is a preference.",
        )
    yield (
        "selections",
        selection.selections(clients, is_whole_fleet=run.manifest.status == "done"),
        "how often clients were selected, by device",
        "Devices above the dashed mean of the fleet are selected more than their share. Numbers in"
        " brackets are clients.",
    )
    found = run.opinions()
    if len(found):
        yield (
            "opinions",
            opinions.opinions(found, run.rounds, run.selection_counts()),
            "accuracy of the model on the clients' own data after every slot",
            "The selector learns from each client's accuracy on its own data after a slot. Clients"
            " of some selectors form beliefs from it by messages to neighbours.",
        )


def _device_shares(run: Run, clients: pd.DataFrame) -> dict[str, float] | None:
    """Return the share of each device in the fleet; None if not all clients are known."""
    if run.manifest.status != "done":
        return None
    sizes = clients["device"].value_counts()
    return {str(device): number / len(clients) for device, number in sizes.items()}


def _availability(run: Run, tasks: pd.DataFrame) -> _Drawn:
    if batteries.has_batteries(run.rounds):
        yield (
            "batteries",
            batteries.levels(run.rounds),
            "battery levels, and clients that can take part or are off, over time",
            "Above, battery levels at the end of each round: the line is the median, and the area"
            " spans the 10th to the 90th percentile. Below, the clients that the server could"
            " select when the round began, and those that are off because they ran empty.",
        )
    deadline_s = _setting(run, "server", "deadline_s")
    yield (
        "stragglers",
        gantt.stragglers(run.rounds, tasks, deadline_s=deadline_s),
        "tasks of one round as a Gantt chart",
        "The round in which the first client waited longest for the last. A row is a client, a pale"
        " line is waiting, and the marker at the end of a bar is the task's outcome.",
    )


def _ledger(entries: pd.DataFrame, clients: pd.DataFrame, *, is_whole_fleet: bool) -> _Drawn:
    yield (
        "ledger",
        ledger.by_component_and_fate(entries),
        "joules by component and energy outcome",
        "A bar is the energy of one component, and its colours are energy outcomes. Each panel has"
        " its own scale.",
    )
    yield (
        "energy-inequality",
        energy_inequality.energy_by_client(entries, clients, is_whole_fleet=is_whole_fleet),
        "Lorenz curve of joules over clients, and the clients that spent most",
        "On the dashed line all clients spend the same. The further the curve is below it, the more"
        " energy a few clients spend. Right, the clients that spent most.",
    )


def _setting(run: Run, *keys: str) -> Any:
    """Return a value of the resolved scenario; None if it has no such key."""
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
    """Yield notes on the models behind the numbers."""
    cool = run.manifest.not_slowed_by_heat
    if not cool:
        return
    if _setting(run, "fleet", "thermal", "kind") == "none":
        why = "fleet.thermal.kind is none, so computations of minutes are too fast"
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
        yield "Warnings before the run:", "; ".join(manifest.warnings)


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
