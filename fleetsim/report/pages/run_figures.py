"""Figures of the page of one run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fleetsim.contracts import Outcome, Purpose
from fleetsim.record.saved_run import Run
from fleetsim.report import markup, quantities
from fleetsim.report.figures import (
    accuracy,
    batteries,
    coverage,
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
from fleetsim.report.two_processes import in_two_processes

Drawn = Iterator[tuple[str, Callable[[], Figure] | str]]
"""Stems, and what draws each figure; in place of a figure of a single fact a sentence."""

SELECTION, DURATIONS = "Selection", "Task durations"
CAPTIONS: dict[str, dict[str, str]] = markup.captions("report/pages")
"""Description and caption of every figure by its stem."""


def saved(
    drawn: Iterable[tuple[str, Callable[[], Figure] | str]],
    folder: Path,
    formats: Sequence[str],
    *,
    dpi: int = style.PRINT_DPI,
    **words: str,
) -> list[Picture | str]:
    """Return sentences and figures, each written as files of these formats as it is drawn.

    The words fill the gaps in captions.
    """

    def shown(named: tuple[str, Callable[[], Figure] | str]) -> Picture | str:
        stem, draw = named
        if isinstance(draw, str):
            return draw
        svg = style.save(draw(), folder, stem, formats, dpi=dpi)
        texts = {key: text.format(**words) for key, text in CAPTIONS[stem].items()}
        return Picture(style.in_both_schemes(svg), **texts)

    return in_two_processes(shown, list(drawn))


def clients_of(run: Run) -> pd.DataFrame:
    """Return the clients of a run; of one that is not done those with a task."""
    if run.manifest.status == "done":
        return run.clients
    return selection.counts_from_tasks(run.recorded_tasks)


def sections(run: Run, targets: list[float]) -> Iterator[tuple[str, Drawn]]:
    """Yield headings of a report with what draws their figures."""
    yield "Accuracy", accuracy_figures(run.rounds, targets)
    tasks = run.recorded_tasks
    yield "Time and energy by device", cost_figures(tasks, run.manifest.device_kinds)
    yield DURATIONS, duration_figures(run, tasks)
    yield SELECTION, selection_figures(run, clients_of(run))
    yield "Availability and waiting", availability_figures(run, tasks)


def accuracy_figures(rounds: pd.DataFrame, targets: list[float]) -> Drawn:
    """Yield accuracy against time, energy and rounds; nothing without accuracy."""
    evaluated = rounds[rounds["accuracy"].notna()]
    if len(evaluated) == 1:
        number, best = evaluated[["round", "accuracy"]].iloc[0]
        words = f"The model was evaluated once, after round {number:.0f}"
        yield "accuracy-time", f"{words}: {quantities.percent(best)}."
    elif len(evaluated):
        for against in get_args(accuracy.Against):
            draw = partial(accuracy.accuracy, {"run": rounds}, against=[against], targets=targets)
            yield f"accuracy-{against}", draw


def cost_figures(tasks: pd.DataFrame, kinds: Kinds) -> Drawn:
    """Yield time, energy and waste by device."""
    yield "seconds-by-device", partial(device_costs.seconds_by_device, tasks, kinds)
    yield "joules-by-device", partial(device_costs.joules_by_device, tasks, kinds)
    is_all_used = set(tasks["outcome"]) == {Outcome.DELIVERED}
    draw = partial(device_costs.waste, tasks, kinds)
    yield "waste", "No energy was wasted." if is_all_used else draw


def selection_figures(run: Run, clients: pd.DataFrame) -> Drawn:
    """Yield coverage, selection ratio, selections, opinions and the selector's own numbers."""
    if len(run.rounds) > 1:
        yield "coverage", partial(coverage_figure, {"run": run})
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
            else partial(
                selection_ratio.ratios, selected, devices, shares if is_done else None, kinds
            ),
        )
    often = clients[["num_selected", "num_delivered"]].drop_duplicates().to_numpy()
    words = "Each of the {:,} clients: {:,} train tasks, {:,} delivered."
    yield (
        "selections",
        words.format(len(clients), *often[0])
        if len(often) == 1
        else partial(selection.selections, clients, kinds=kinds, is_whole_fleet=is_done),
    )
    entries, numbers = run.opinions(), run.diagnostics()
    if len(entries):
        yield "opinions", partial(opinions.opinions, entries, run.rounds, run.selection_counts())
    if len(numbers):
        yield "diagnostics", partial(diagnostics.diagnostics, numbers)


def coverage_figure(runs: Mapping[str, Run]) -> Figure:
    """Draw the coverage of one run or of several."""
    return coverage.coverage(
        {label: run.share_seen() for label, run in runs.items()},
        {label: run.selection_counts() for label, run in runs.items()},
    )


def duration_figures(run: Run, tasks: pd.DataFrame) -> Drawn:
    """Yield the distribution of the durations of train tasks."""
    deadline_s = run.scenario["server"].get("deadline_s")
    train = tasks[tasks["purpose"] == Purpose.TRAIN]
    took_s = train["finished_at_s"] - train["dispatched_at_s"]
    least, most = (quantities.text(of(), "s") for of in (took_s.min, took_s.max))
    yield (
        "task-durations",
        f"Each of {len(train):,} train tasks took {least}."
        if least == most and train["outcome"].isin(task_durations.COMPLETE).all()
        else partial(
            task_durations.durations, tasks, run.manifest.device_kinds, deadline_s=deadline_s
        ),
    )


def availability_figures(run: Run, tasks: pd.DataFrame) -> Drawn:
    """Yield batteries over time, and the round with the longest waiting."""
    deadline_s = run.scenario["server"].get("deadline_s")
    if "num_off" in run.rounds and len(run.rounds):
        yield "batteries", partial(batteries.levels, run.rounds)
    yield "stragglers", partial(gantt.stragglers, run.rounds, tasks, deadline_s=deadline_s)


def ledger_figures(run: Run, entries: pd.DataFrame) -> Drawn:
    """Yield the energy ledger, and energy by client."""
    yield "ledger", partial(ledger.by_component_and_outcome, entries)
    is_done, draw = run.manifest.status == "done", energy_inequality.energy_by_client
    yield "energy-inequality", partial(draw, entries, clients_of(run), is_whole_fleet=is_done)
