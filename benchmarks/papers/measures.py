"""Measures by which a run is compared with its paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleetsim.record.measures.cost_to_target import first_reached
from fleetsim.record.saved_run import Run

if TYPE_CHECKING:
    import pandas as pd

SLOT_ROUNDS = 15
"""Number of rounds of a time slot of the goal-directed paper."""
_SMOOTHED_ROUNDS = 10
"""Number of rounds of the rolling means that FedGRA plots."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Figure of a run; None if the run has none, such as a target that it never reached."""

    label: str
    of: Callable[[Run], float | None]
    spec: str
    """Format specification of the printed value."""


def _final(run: Run) -> float | None:
    found = run.ending()
    return None if found is None else found.mean


def _deviation(run: Run) -> float | None:
    found = run.ending()
    return None if found is None else found.largest_deviation


def _accuracy(of: Callable[[pd.Series[float]], float]) -> Callable[[Run], float | None]:
    """Return a figure of the accuracies of all evaluated rounds."""

    def figure(run: Run) -> float | None:
        accuracy = run.rounds["accuracy"].dropna()
        return float(of(accuracy)) if len(accuracy) else None

    return figure


def _at_end(column: str) -> Callable[[Run], float | None]:
    """Return a column of the table of rounds after the last round."""
    return lambda run: float(run.rounds[column].iloc[-1]) if len(run.rounds) else None


def _compute_waiting_s(run: Run) -> float | None:
    return run.average_waiting_s(computing_alone=True)


def _rounds_to_smoothed(target: float) -> Callable[[Run], float | None]:
    def of(run: Run) -> float | None:
        found = first_reached(run.rounds, target, smooth_rounds=_SMOOTHED_ROUNDS)
        return None if found is None else float(run.rounds["round"].iloc[found])

    return of


def _slots_to(target: float) -> Callable[[Run], float | None]:
    def of(run: Run) -> float | None:
        rounds = run.rounds_to_accuracy(target)
        return None if rounds is None else -(-rounds // SLOT_ROUNDS)

    return of


MEASURES: Mapping[str, Measure] = {
    "final": Measure("accuracy, mean of the last 10 rounds", _final, ".3f"),
    "deviation": Measure("largest deviation from it", _deviation, ".3f"),
    "best": Measure("best accuracy", _accuracy(lambda found: found.max()), ".3f"),
    "mean": Measure("mean accuracy of all rounds", _accuracy(lambda found: found.mean()), ".3f"),
    "final_slot": Measure(
        "accuracy after the last slot", _accuracy(lambda found: found.iloc[-1]), ".3f"
    ),
    "last": Measure(
        "accuracy after the last round", _accuracy(lambda found: found.iloc[-1]), ".3f"
    ),
    "total_s": Measure("seconds of the run", _at_end("finished_at_s"), ".0f"),
    "total_j": Measure("joules of the run", _at_end("energy_total_j"), ".0f"),
    "waiting_s": Measure("mean waiting, s", Run.average_waiting_s, ".3g"),
    "compute_waiting_s": Measure("of the computing alone, s", _compute_waiting_s, ".3g"),
    "rounds_to_all_seen": Measure("rounds until all clients were seen", Run.rounds_to_seen, ".0f"),
    "rounds_to_80_of_10": Measure(
        "rounds to 80 % (mean of 10 rounds)", _rounds_to_smoothed(0.8), ".0f"
    ),
    **{
        f"slots_to_{percent}": Measure(f"slots to .{percent}", _slots_to(percent / 100), ".1f")
        for percent in (75, 78, 82, 85)
    },
}
