"""First sentences of the page of a run: what it shows, and where to look next."""

from collections.abc import Iterator

import pandas as pd

from fleetsim.contracts import Outcome
from fleetsim.record.measures.ledger import energy_of
from fleetsim.record.saved_run import Run
from fleetsim.report.figures.ledger import COMPONENT_NAMES
from fleetsim.report.pages import run_figures, summary
from fleetsim.report.quantities import percent, target, text

_SMALL = 0.1
"""Share of the energy or of a round below which a loss is called small."""


def sentences(run: Run, tasks: pd.DataFrame, entries: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield sentences with the heading that each ends with; none of a run that spent nothing."""
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
