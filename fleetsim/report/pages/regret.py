"""Regret of runs against the best fixed set of clients, by slot.

Reg(t) sums the accuracy by which a run with fixed clients was ahead (Tong et al., "From learning to
analytics: improving model efficacy with goal-directed client selection", equation 12). It needs
such a run, with selector `fixed`, in the same world.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray
from fleetsim.record.measures import selection_measures
from fleetsim.record.saved_run import Run
from fleetsim.report.figures import style
from fleetsim.report.markup import Table
from fleetsim.report.quantities import digits

FIXED = "fixed"


@dataclass(frozen=True)
class Regrets:
    """Regret of runs against the best of those with fixed clients among them."""

    best: str
    """Label of that run."""
    slot_rounds: int
    curves: Mapping[str, FloatArray]
    """Reg(t) of every other run by its label, in units of accuracy [T]."""


def regrets(runs: Mapping[str, Run]) -> Regrets | None:
    """Return the regret of runs of one world by their labels.

    The best fixed set has the largest sum of rewards over the slots that all runs have. A slot has
    the length of the slots of the runs' bandits, or one round if there are none or they differ.
    None if no run has fixed clients, if there is only one run, if nothing was evaluated, or if a
    server is buffered.
    """
    fixed = [label for label, run in runs.items() if _selector(run).get("kind") == FIXED]
    if not fixed or len(runs) < 2 or not all(run.is_synchronous for run in runs.values()):
        return None
    lengths = {length for run in runs.values() if (length := _selector(run).get("slot_rounds"))}
    slot_rounds = int(lengths.pop()) if len(lengths) == 1 else 1
    accuracy = {
        label: selection_measures.at_slot_ends(
            run.rounds["accuracy"].to_numpy(np.float64), slot_rounds
        )
        for label, run in runs.items()
    }
    num_slots = min(rewards.size for rewards in accuracy.values())
    if not num_slots or any(np.isnan(rewards[:num_slots]).all() for rewards in accuracy.values()):
        return None
    best = max(fixed, key=lambda label: float(np.nansum(accuracy[label][:num_slots])))
    curves = {
        label: run.regret(runs[best], slot_rounds=slot_rounds)
        for label, run in runs.items()
        if label != best
    }
    return Regrets(best, slot_rounds, curves)


def table(regrets: Regrets) -> Table:
    """Return a row per run: slots, regret over them, and regret per slot."""
    rows = [
        (label, f"{curve.size:,}", _signed(curve[-1]), _signed(curve[-1] / curve.size))
        for label, curve in regrets.curves.items()
    ]
    return Table(("run", "slots", "regret", "regret per slot"), rows)


@style.house_style()
def figure(regrets: Regrets, labels: Sequence[str]) -> Figure:
    """Draw Reg(t) of runs against slots; `labels` has all runs, so each keeps its colour."""
    drawn = style.new_figure(style.WIDTH_IN, 4.4, title=f"Regret against {regrets.best}")
    axes = drawn.subplots()
    axes.axhline(0.0, **style.DASHED)
    for label, looks in zip(labels, style.series(len(labels)), strict=True):
        if label in regrets.curves:
            lost = np.concatenate([[0.0], regrets.curves[label]])
            axes.plot(np.arange(lost.size), lost, label=label, **looks)
    slot = "round" if regrets.slot_rounds == 1 else f"slot of {regrets.slot_rounds} rounds"
    axes.set(xlabel=slot, ylabel="regret (sum of accuracy differences)")
    axes.set_xlim(left=0.0)
    style.in_whole_numbers(axes.xaxis)
    style.legend_below(drawn, axes)
    return drawn


def caption(regrets: Regrets | None) -> str:
    """Return the explanation of the numbers, if there are any."""
    if regrets is None:
        return ""
    num = regrets.slot_rounds
    slots = "each round is a slot" if num == 1 else f"slots of {num} rounds"
    return (
        f"Sum over slots ({slots}) of the test accuracy by which {regrets.best} was ahead; below 0,"
        " the run was ahead."
    )


def _selector(run: Run) -> Mapping[str, Any]:
    selector: Mapping[str, Any] = run.scenario["server"].get("selector") or {}
    return selector


def _signed(value: float) -> str:
    return f"-{digits(-value)}" if value < 0.0 else digits(value)
