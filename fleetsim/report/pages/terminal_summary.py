"""Summary of a run for a terminal."""

from fleetsim.record.saved_run import Run
from fleetsim.report import quantities
from fleetsim.report.pages import summary
from fleetsim.report.quantities import NOTHING


def lines(run: Run) -> list[str]:
    """Return a run in a few aligned lines, for a terminal."""
    totals = summary.totals(run)
    manifest, paid = run.manifest, summary.batteries_paid(run)
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
        *((label, f"{costs}, {rounds}") for label, costs, rounds in summary.best_target(run)),
        (
            "energy",
            f"{quantities.text(totals.energy_j, 'j')},"
            f" {quantities.percent(totals.wasted_fraction)} of it wasted",
        ),
        (
            "tasks",
            f"{totals.num_delivered:,} of {totals.num_selected:,} train tasks delivered{waiting}",
        ),
        *([("battery", f"the run took {paid}")] if paid else []),
        *((label, f"{epsilon} {delta}") for label, epsilon, delta in summary.privacy(run)),
        ("digest", manifest.digest or f"{NOTHING} (the run is not done)"),
    ]
    width = max(len(label) for label, _ in found) + 2
    return [f"{label:<{width}}{words}" for label, words in found]
