"""Summary of a run for a terminal."""

from collections.abc import Iterator

import pandas as pd

from fleetsim.record.saved_run import Run
from fleetsim.report import quantities
from fleetsim.report.pages import summary
from fleetsim.report.quantities import NOTHING


def lines(run: Run) -> list[str]:
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
    found = [
        *(("FAILED", f"{failure.what} {failure.cause}") for failure in manifest.failures),
        ("folder", str(run.folder)),
        (
            "rounds",
            f"{totals.num_rounds:,} in {quantities.text(totals.virtual_s, 's')} of virtual time,"
            f" {summary.ending(run)}",
        ),
        ("accuracy", accuracy),
        *_target_line(run.rounds),
        (
            "energy",
            f"{quantities.text(totals.energy_j, 'j')},"
            f" {quantities.percent(totals.wasted_fraction)} of it wasted",
        ),
        (
            "tasks",
            f"{totals.num_delivered:,} of {totals.num_selected:,} train tasks delivered{waiting}",
        ),
        *_batteries_line(run),
        *_privacy_line(run),
        ("digest", manifest.digest or f"{NOTHING} (the run is not done)"),
    ]
    width = max(len(label) for label, _ in found) + 2
    return [f"{label:<{width}}{words}" for label, words in found]


def _target_line(rounds: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the cost of the highest usual accuracy that was reached, if any."""
    for target in summary.reached_targets([rounds])[-1:]:
        (row,) = summary.targets_table(rounds, [target]).rows
        accuracy, number, time, energy = row
        yield f"to {accuracy}", f"{time}, {energy}, {number} rounds"


def _privacy_line(run: Run) -> Iterator[tuple[str, str]]:
    if run.epsilon is not None:
        delta = run.scenario["server"]["privacy"]["delta"]
        yield "privacy", f"epsilon {run.epsilon:.2f} at delta {delta:g}"


def _batteries_line(run: Run) -> Iterator[tuple[str, str]]:
    paid = summary.batteries_paid(run)
    if paid is not None:
        yield "battery", f"the run took {paid}"
