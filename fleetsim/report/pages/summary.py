"""Summary of a run: totals, targets, outcomes and devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pandas as pd

from fleetsim.contracts import Outcome, Purpose
from fleetsim.errors import ScenarioError
from fleetsim.record.manifest import Manifest
from fleetsim.record.measures.cost_to_target import (
    energy_to_accuracy,
    rounds_to_accuracy,
    time_to_accuracy,
)
from fleetsim.record.measures.ledger import energy_of
from fleetsim.record.saved_run import Run
from fleetsim.report import quantities
from fleetsim.report.markup import Table
from fleetsim.report.quantities import NOTHING, count, digits, percent, text

TARGETS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99)
LOW_TARGETS = (0.1, 0.2, 0.3, 0.4)
"""Targets for runs that reached none of the usual ones."""
_OF_MANIFEST = {
    *("name", "status", "stop_rule", "stop_text", "seed", "scenario_hash", "digest", "host_s"),
    *("failures", "warnings", "results_cache"),
}
"""Keys of the manifest that scripts get."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Key numbers of a run; None where a number does not exist."""

    num_rounds: int
    virtual_s: float
    final_accuracy: float | None
    """Accuracy of the last evaluated round."""
    best_accuracy: float | None
    energy_j: float
    wasted_j: float
    wasted_fraction: float | None
    num_selected: int
    num_delivered: int
    waiting_mean_s: float | None
    """Mean of the rounds' waiting; None also where no client waits, as for a buffered server."""


def totals(run: Run) -> Totals:
    """Sum up the recorded rounds of a run."""
    rounds = run.rounds
    accuracy = rounds["accuracy"].dropna()
    energy_j = float(rounds["energy_total_j"].iloc[-1]) if len(rounds) else 0.0
    wasted_j = float(rounds["energy_wasted_j"].sum())
    return Totals(
        num_rounds=len(rounds),
        virtual_s=run.virtual_s,
        final_accuracy=float(accuracy.iloc[-1]) if len(accuracy) else None,
        best_accuracy=float(accuracy.max()) if len(accuracy) else None,
        energy_j=energy_j,
        wasted_j=wasted_j,
        wasted_fraction=wasted_j / energy_j if energy_j else None,
        num_selected=int(rounds["num_selected"].sum()),
        num_delivered=int(rounds["num_delivered"].sum()),
        waiting_mean_s=run.average_waiting_s(),
    )


def run_record(run: Run, targets: Sequence[float] | None = None) -> dict[str, Any]:
    """Return the numbers of a run for scripts, in SI; docs/commands.md defines every key.

    Targets are accuracies (fractions); unless given, usual ones that the run reached, and that at
    which it was to stop.
    """
    if targets is None:
        stops_at = run.scenario["stop"].get("accuracy")
        targets = [*reached_targets([run.rounds]), *([stops_at] if stops_at else [])]
    return {
        "folder": run.folder,
        **run.manifest.model_dump(include=_OF_MANIFEST),
        **asdict(totals(run)),
        "epsilon": run.epsilon,
        "targets": [
            {
                "accuracy": target,
                "rounds": run.rounds_to_accuracy(target),
                "time_s": run.time_to_accuracy(target),
                "energy_j": run.energy_to_accuracy(target),
            }
            for target in sorted(set(targets))
        ],
    }


def ending(run: Run) -> str:
    """Return how a run ended, and why."""
    manifest = run.manifest
    how = "stopped" if manifest.status == "done" else manifest.status
    return f"{how}: {manifest.stop_text}" if manifest.stop_text else how


def numbers(run: Run, sums: Totals) -> list[tuple[str, str, str]]:
    """Return label, value and note of the key numbers."""
    wasted = text(sums.wasted_j, "j")
    share = sums.num_delivered / sums.num_selected if sums.num_selected else None
    delivered = f"{sums.num_delivered:,} of {sums.num_selected:,}"
    best = percent(sums.best_accuracy)
    rows = [
        ("final accuracy", percent(sums.final_accuracy), f"best {best}"),
        ("virtual time", text(sums.virtual_s, "s"), f"{digits(sums.virtual_s)} s"),
        ("energy", text(sums.energy_j, "j"), f"{digits(sums.energy_j)} J"),
        ("wasted", percent(sums.wasted_fraction), f"{wasted} of the energy"),
        ("rounds", f"{sums.num_rounds:,}", ""),
        ("train tasks delivered", percent(share), delivered),
    ]
    if run.is_synchronous:
        waiting = text(sums.waiting_mean_s, "s")
        rows.append(("mean waiting", waiting, "last minus first answer of a round"))
    rows += privacy(run)
    host = text(run.manifest.host_s or None, "s")
    rows.append(("host time", host, "duration of the simulation"))
    return [(label, value, "" if note == value else note) for label, value, note in rows]


def privacy(run: Run) -> Iterator[tuple[str, str, str]]:
    """Yield label, epsilon and delta of a run with privacy."""
    if run.epsilon is not None:
        delta = run.scenario["server"]["privacy"]["delta"]
        yield "privacy", f"epsilon {run.epsilon:.2f}", f"at delta {delta:g}"


def best_target(run: Run) -> Iterator[tuple[str, str, str]]:
    """Yield label, costs and rounds of the highest usual accuracy that was reached, if any."""
    for target in reached_targets([run.rounds])[-1:]:
        ((accuracy, number, time, energy),) = targets_table(run.rounds, [target]).rows
        yield f"to {accuracy}", f"{time}, {energy}", f"{number} rounds"


def terminal_lines(run: Run) -> list[str]:
    """Return a run in a few aligned lines, for a terminal."""
    sums, manifest, paid = totals(run), run.manifest, batteries_paid(run)
    delivered = f"{sums.num_delivered:,} of {sums.num_selected:,}"
    length = f"{sums.num_rounds:,} in {text(sums.virtual_s, 's')} of virtual time"
    accuracy = "none: the run was made without training, or nothing was evaluated"
    if sums.final_accuracy is not None:
        accuracy = f"{percent(sums.final_accuracy)} final, {percent(sums.best_accuracy)} best"
    waiting = ""
    if sums.waiting_mean_s is not None:
        waiting = f", {text(sums.waiting_mean_s, 's')} mean waiting"
    rows = [
        *(("FAILED", f"{failure.what} {failure.cause}") for failure in manifest.failures),
        ("folder", str(run.folder)),
        ("rounds", f"{length}, {ending(run)}"),
        ("accuracy", accuracy),
        *((label, f"{costs}, {rounds}") for label, costs, rounds in best_target(run)),
        ("energy", f"{text(sums.energy_j, 'j')}, {percent(sums.wasted_fraction)} of it wasted"),
        ("tasks", f"{delivered} train tasks delivered{waiting}"),
        *([("battery", f"the run took {paid}")] if paid else []),
        *((label, f"{epsilon} {delta}") for label, epsilon, delta in privacy(run)),
        ("digest", manifest.digest or f"{NOTHING} (the run is not done)"),
    ]
    width = max(len(label) for label, _ in rows) + 2
    return [f"{label:<{width}}{words}" for label, words in rows]


def is_trained(run: Run) -> bool:
    """Return whether a run has any accuracy."""
    return bool(run.rounds["accuracy"].notna().any())


def reached_targets(rounds: Sequence[pd.DataFrame]) -> list[float]:
    """Return the usual target accuracies that any of the runs reached."""

    def reached(targets: Sequence[float]) -> list[float]:
        return [
            target
            for target in targets
            if any(rounds_to_accuracy(frame, target) is not None for frame in rounds)
        ]

    return reached(TARGETS) or reached(LOW_TARGETS)


def check_targets(targets: Sequence[float]) -> None:
    """Check accuracies that were asked for."""
    for target in targets:
        if not 0.0 < target <= 1.0:
            raise ScenarioError(f"--target {target:g}: must be above 0 and at most 1, such as 0.8")


def targets_table(rounds: pd.DataFrame, targets: Sequence[float]) -> Table:
    """Return rounds, time and energy until ascending accuracies were first reached.

    Those first reached in the same round, and those never reached, share a row.
    """
    rows = []
    for number, alike in groupby(targets, key=lambda at: rounds_to_accuracy(rounds, at)):
        group = list(alike)
        time = text(time_to_accuracy(rounds, group[0]), "s")
        energy = text(energy_to_accuracy(rounds, group[0]), "j")
        rows.append((", ".join(map(quantities.target, group)), count(number), time, energy))
    return Table(("accuracy", "rounds", "virtual time", "energy"), rows)


def outcomes_table(tasks: pd.DataFrame) -> Table:
    """Return tasks, their durations and energy, by outcome."""
    tasks = _with_totals(tasks)
    spent_j = float(tasks["energy_j"].sum())
    rows = []
    for outcome in Outcome:
        ended = tasks[tasks["outcome"] == outcome]
        if ended.empty:
            continue
        train = ended[ended["purpose"] == Purpose.TRAIN]
        energy_j = float(ended["energy_j"].sum())
        rows.append(
            (
                str(outcome),
                f"{len(train):,}",
                text(_mean(train["duration_s"]), "s"),
                f"{len(ended) - len(train):,}",
                text(energy_j, "j"),
                percent(energy_j / spent_j if spent_j else None),
            )
        )
    durations = ("train tasks", "their mean duration", "probes")
    return Table(("outcome", *durations, "energy", "share of energy"), rows)


def devices_table(tasks: pd.DataFrame, clients: pd.DataFrame) -> Table:
    """Return tasks, their durations and energy, by device; `clients` has a row per client."""
    tasks = _with_totals(tasks)
    rows = []
    for device, of_device in clients.groupby("device"):
        done = tasks[tasks["device"] == device]
        train = done[done["purpose"] == Purpose.TRAIN]
        delivered = train[train["outcome"] == Outcome.DELIVERED]
        lost = done[done["outcome"] != Outcome.DELIVERED]
        rows.append(
            (
                str(device),
                f"{len(of_device):,}",
                f"{len(train):,}",
                percent(len(delivered) / len(train) if len(train) else None),
                text(_mean(delivered["duration_s"]), "s"),
                text(_mean(delivered["energy_j"]), "j"),
                text(float(done["energy_j"].sum()), "j"),
                text(float(lost["energy_j"].sum()), "j"),
            )
        )
    counts = ("clients", "train tasks", "delivered")
    means = ("time to deliver", "energy to deliver")
    return Table(("device", *counts, *means, "energy, all", "wasted"), rows)


def device_figures_table(manifest: Manifest) -> Table:
    """Return a row per device and radio figure of which a run drew an error, if it did."""
    return Table.of(
        {
            "figure": lambda drawn: f"{drawn.name} {drawn.figure}",
            "basis": lambda drawn: "inferred" if drawn.inferred else "measured",
            "in the file": lambda drawn: f"{drawn.sourced:.4g}",
            "factor": lambda drawn: f"{drawn.factor:.3f}",
            "in this run": lambda drawn: f"{drawn.used:.4g}",
        },
        manifest.device_figures,
    )


def batteries_paid(run: Run) -> str | None:
    """Return joules of tasks and waiting in percent of full batteries, as the end of a sentence.

    None without batteries, a clients table, or their capacities.
    """
    if run.manifest.status != "done" or "battery_capacity_j" not in run.clients:
        return None
    clients = run.clients[run.clients["battery_capacity_j"].notna()]
    if clients.empty:
        return None
    shares = energy_of(clients) / clients["battery_capacity_j"]
    most = clients.iloc[int(shares.to_numpy().argmax())]
    mean, worst = (f"{digits(100.0 * float(of()))} %" for of in (shares.mean, shares.max))
    return (
        f"{mean} of a full battery on average over {len(clients):,} clients, {worst} at worst"
        f" ({most['device']} #{int(most['client'])})"
    )


def _with_totals(tasks: pd.DataFrame) -> pd.DataFrame:
    duration_s = tasks["finished_at_s"] - tasks["dispatched_at_s"]
    return tasks.assign(energy_j=energy_of(tasks), duration_s=duration_s)


def _mean(values: pd.Series[float]) -> float | None:
    return float(values.mean()) if len(values) else None
