"""Figures of the page of one run, with descriptions and captions."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fleetsim.contracts import Outcome, Purpose
from fleetsim.record.saved_run import Run
from fleetsim.report import quantities
from fleetsim.report.figures import (
    accuracy,
    batteries,
    coverage,
    dark_scheme,
    device_costs,
    diagnostics,
    energy_inequality,
    gantt,
    ledger,
    opinions,
    selection,
    selection_ratio,
    style,
    task_durations,
)
from fleetsim.report.figures.device_groups import Kinds
from fleetsim.report.markup import Picture

DrawnFigure = tuple[str, Figure | str, str, str]
"""Stem, figure, description, caption; in place of a figure of a single fact a sentence."""
Drawn = Iterator[DrawnFigure]

SELECTION, DURATIONS = "Selection", "Task durations"


def saved(
    drawn: Drawn, folder: Path, formats: Sequence[str], *, dpi: int = style.PRINT_DPI
) -> list[Picture | str]:
    """Return sentences and figures, each written as files of these formats as it is drawn."""
    shown: list[Picture | str] = []
    for stem, figure, description, caption in drawn:
        if isinstance(figure, str):
            shown.append(figure)
        else:
            svg = style.save(figure, folder, stem, formats, dpi=dpi)
            shown.append(Picture(dark_scheme.in_both_schemes(svg), description, caption))
    return shown


def clients_of(run: Run) -> pd.DataFrame:
    """Return the clients of a run; of one that is not done those with a task."""
    if run.manifest.status == "done":
        return run.clients
    return selection.counts_from_tasks(run.recorded_tasks)


def sections(run: Run, targets: list[float]) -> Iterator[tuple[str, Drawn]]:
    """Yield headings of a report with their figures, which are drawn one at a time."""
    yield "Accuracy", accuracy_figures(run.rounds, targets)
    tasks = run.recorded_tasks
    yield "Time and energy by device", cost_figures(tasks, run.manifest.device_kinds)
    yield DURATIONS, duration_figures(run, tasks)
    yield SELECTION, selection_figures(run, clients_of(run))
    yield "Availability and waiting", availability_figures(run, tasks)


def accuracy_figures(rounds: pd.DataFrame, targets: list[float]) -> Drawn:
    """Draw accuracy against time, energy and rounds; nothing without accuracy."""
    evaluated = rounds[rounds["accuracy"].notna()]
    if evaluated.empty:
        return
    if len(evaluated) == 1:
        number, best = evaluated[["round", "accuracy"]].iloc[0]
        fact = (
            f"The model was evaluated once, after round {number:.0f}: {quantities.percent(best)}."
        )
        yield "accuracy-time", fact, "", ""
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


def cost_figures(tasks: pd.DataFrame, kinds: Kinds) -> Drawn:
    """Draw time, energy and waste by device."""
    yield (
        "seconds-by-device",
        device_costs.seconds_by_device(tasks, kinds),
        "seconds of download, compute and upload by device",
        "Left, the sum over all tasks; right, the mean train task. A long bar on the right is a"
        " straggler, and its widest colour shows the reason.",
    )
    yield (
        "joules-by-device",
        device_costs.joules_by_device(tasks, kinds),
        "joules by component and device",
        "The same for joules. Idle is the power of an awake device from dispatch to the end of its"
        " task; all other components are added to it.",
    )
    yield (
        "waste",
        "No energy was wasted."
        if set(tasks["outcome"]) == {Outcome.DELIVERED}
        else device_costs.waste(tasks, kinds),
        "wasted joules by cause and by device",
        "Energy of tasks that were not delivered: late at the deadline, lost (offline, battery,"
        " link, crashed, memory), cancelled because the server had enough, stale or refused.",
    )


def selection_figures(run: Run, clients: pd.DataFrame) -> Drawn:
    """Draw coverage, selection ratio, selections, opinions and the selector's own numbers."""
    if len(run.rounds) > 1:
        yield coverage_figure("coverage", {"run": run})
    is_done = run.manifest.status == "done"
    kinds = run.manifest.device_kinds
    selected, devices = run.selection_ratio(), run.selected_devices()
    counts = clients["device"].value_counts(normalize=True).items()
    shares = {str(device): float(share) for device, share in counts}
    if selected is not None and devices is not None and len(run.rounds) > 1:
        is_flat = len(shares) == 1 and np.ptp(selected) == 0.0
        yield (
            "selection-ratio",
            f"Every round selected {quantities.percent(selected[0])} of the fleet."
            if is_flat
            else selection_ratio.ratios(selected, devices, shares if is_done else None, kinds),
            "share of the fleet that each round selected, and its shares by kind of device",
            "The share of the fleet that a round selects, where it varies, and by device: a band"
            " wider than the device's share of the fleet is a preference.",
        )
    often = clients[["num_selected", "num_delivered"]].drop_duplicates().to_numpy()
    yield (
        "selections",
        "Each of the {:,} clients: {:,} train tasks, {:,} delivered.".format(
            len(clients), *often[0]
        )
        if len(often) == 1
        else selection.selections(clients, kinds=kinds, is_whole_fleet=is_done),
        "how often clients were selected, by device",
        "Devices above the dashed mean of the fleet are selected more than their share. The"
        " number behind a name counts clients, one in brackets the devices of a group.",
    )
    entries = run.opinions()
    if len(entries):
        yield (
            "opinions",
            opinions.opinions(entries, run.rounds, run.selection_counts()),
            "accuracy of the model on the clients' own data after every slot",
            "The selector learns from each client's accuracy on its own data after a slot. Clients"
            " of some selectors form beliefs from it by messages to neighbours.",
        )
    numbers = run.diagnostics()
    if len(numbers):
        yield (
            "diagnostics",
            diagnostics.diagnostics(numbers),
            "numbers that the selector told: expected and realised values of its choices, others",
            "What the selector expected of its choices and what it told of their outcome, each"
            " number on its own scale unless two share a panel. Rounds without a number are gaps.",
        )


def coverage_figure(stem: str, runs: Mapping[str, Run]) -> DrawnFigure:
    """Draw the coverage of one run or of several."""
    return (
        stem,
        coverage.coverage(
            {label: run.share_seen() for label, run in runs.items()},
            {label: run.selection_counts() for label, run in runs.items()},
        ),
        "share of the fleet selected at least once by round, and how often clients were selected",
        "Left, the share of the fleet that was ever selected; dots mark 90 % and 100 %. Right, the"
        " number of clients by times selected: clients far to the right are preferred.",
    )


def duration_figures(run: Run, tasks: pd.DataFrame) -> Drawn:
    """Draw the distribution of the durations of train tasks."""
    deadline_s = run.scenario["server"].get("deadline_s")
    train = tasks[tasks["purpose"] == Purpose.TRAIN]
    took_s = train["finished_at_s"] - train["dispatched_at_s"]
    least, most = (quantities.text(of(), "s") for of in (took_s.min, took_s.max))
    is_one = least == most and train["outcome"].isin(task_durations.COMPLETE).all()
    yield (
        "task-durations",
        f"Each of {len(train):,} train tasks took {least}."
        if is_one
        else task_durations.durations(tasks, run.manifest.device_kinds, deadline_s=deadline_s),
        "share of train tasks that end within a duration, by device",
        "A curve further right is a slower device, and one that rises late has a long tail. Dotted:"
        " 50, 90, 95 and 99 %. A curve that stays below 100 % ends where its last tasks were cut"
        " off.",
    )


def availability_figures(run: Run, tasks: pd.DataFrame) -> Drawn:
    """Draw batteries over time, and the round with the longest waiting."""
    deadline_s = run.scenario["server"].get("deadline_s")
    if "num_off" in run.rounds and len(run.rounds):
        yield (
            "batteries",
            batteries.levels(run.rounds),
            "battery levels, and clients that can take part or are off, over time",
            "Above, battery levels at the end of each round: the line is the median, and the area"
            " spans the 10th to the 90th percentile. Below, the clients that the server could"
            " select when the round began, and those that are off because they ran empty.",
        )
    yield (
        "stragglers",
        gantt.stragglers(run.rounds, tasks, deadline_s=deadline_s),
        "tasks of one round as a Gantt chart",
        "The round in which the first client waited longest for the last. A row is a client, a pale"
        " line is waiting, and the marker at the end of a bar is the task's outcome.",
    )


def ledger_figures(run: Run, entries: pd.DataFrame) -> Drawn:
    """Draw the energy ledger, and energy by client."""
    yield (
        "ledger",
        ledger.by_component_and_outcome(entries),
        "joules by component and energy outcome",
        "A bar is the energy of one component, and its colours are energy outcomes. Each panel has"
        " its own scale.",
    )
    yield (
        "energy-inequality",
        energy_inequality.energy_by_client(
            entries, clients_of(run), is_whole_fleet=run.manifest.status == "done"
        ),
        "Lorenz curve of joules over clients, and the clients that spent most",
        "On the dashed line all clients spend the same. The further the curve is below it, the more"
        " energy a few clients spend. Right, the clients that spent most.",
    )
