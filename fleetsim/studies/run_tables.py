"""Tables of the runs of a study, read from the run folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fleetsim.record.saved_run import Run
from fleetsim.studies.costs import costs
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.settings import Budgets
from fleetsim.studies.study import PlannedRun, Study

_RUN_COLUMNS = {
    "status": "object",
    "folder": "object",
    "reason": "object",
    "rounds": "float64",
    "virtual_s": "float64",
    "energy_j": "float64",
    "final_accuracy": "float64",
    "platform": "object",
    "version": "object",
}
_CELL = ("condition", "arm", "seed")


@dataclass(frozen=True)
class RunTables:
    """Tables of the runs of a study; docs/studies.md defines their columns."""

    runs: pd.DataFrame
    """A row per run, also of failed and missing ones."""
    costs: pd.DataFrame
    """A row per complete run, target and currency."""
    accuracies: pd.DataFrame
    """A row per complete run and measure of its accuracy: final, best, within each budget."""
    curves: pd.DataFrame
    """A row per evaluated round of complete runs."""
    ledgers: pd.DataFrame
    """A row per complete run, component and energy outcome."""


def tables_of(study: Study, store: RunStore) -> RunTables:
    """Read the complete runs of a study; a run whose manifest is damaged counts as failed.

    Raises:
        DataError: a table is damaged, or was changed after its run ended.
    """
    reasons = store.failures(study.settings.name)
    levels = {condition.label: dict(condition.levels) for condition in study.conditions}
    rows, cost_rows, accuracy_rows, curves, ledgers = [], [], [], [], []
    for planned in study.runs:
        damage = store.damage(planned)
        if damage is not None:
            reasons[planned.key] = damage
        run = store.open(planned) if damage is None else None
        cell: dict[str, Any] = {
            "condition": planned.condition,
            "arm": planned.arm,
            "seed": planned.seed,
        }
        rows.append(cell | levels[planned.condition] | _run_row(planned, run, store, reasons))
        if run is None:
            continue
        cost_rows += [
            cell | cost._asdict()
            for cost in costs(run, study.settings.all_targets, study.prices, study.settings.budgets)
        ]
        accuracy_rows += [
            cell | {"measure": measure, "accuracy": value}
            for measure, value in _accuracies(run, study.settings.budgets)
        ]
        curves.append(_curve(run).assign(**cell))
        ledgers.append(_ledger(run).assign(**cell))
    return RunTables(
        runs=_runs_frame(rows, study),
        costs=_frame(cost_rows, ("target", "currency", "cost", "is_reached")),
        accuracies=_frame(accuracy_rows, ("measure", "accuracy")),
        curves=_joined(curves, ("round", "time_s", "energy_j", "accuracy")),
        ledgers=_joined(ledgers, ("component", "fate", "energy_j")),
    )


def _runs_frame(rows: list[dict[str, Any]], study: Study) -> pd.DataFrame:
    columns = ["condition", *study.factors, "arm", "seed", *_RUN_COLUMNS]
    return pd.DataFrame(rows, columns=columns).astype(_RUN_COLUMNS)


def _run_row(
    planned: PlannedRun, run: Run | None, store: RunStore, reasons: dict[str, str]
) -> dict[str, Any]:
    if run is None:
        reason = reasons.get(planned.key)
        return {"status": "missing" if reason is None else "failed", "reason": reason}
    rounds = run.rounds
    accuracy = rounds["accuracy"].dropna()
    platforms = run.manifest.platforms
    return {
        "status": "done",
        "folder": str(run.folder),
        "rounds": len(rounds),
        "virtual_s": run.manifest.virtual_s,
        "energy_j": float(rounds["energy_total_j"].iloc[-1]) if len(rounds) else 0.0,
        "final_accuracy": float(accuracy.iloc[-1]) if len(accuracy) else np.nan,
        "platform": "+".join(platform.id for platform in platforms),
        "version": run.manifest.versions.get("fleetsim"),
    }


def _accuracies(run: Run, budgets: Budgets | None) -> Iterator[tuple[str, float]]:
    """Yield measures of the accuracy of a run; none if it was not trained."""
    rounds = run.rounds[run.rounds["accuracy"].notna()]
    if rounds.empty:
        return
    yield "final", float(rounds["accuracy"].iloc[-1])
    yield "best", float(rounds["accuracy"].max())
    if budgets is None:
        return
    for column, unit, budget in (
        ("finished_at_s", "s", budgets.time_s),
        ("energy_total_j", "J", budgets.energy_j),
    ):
        if budget is not None:
            within = rounds.loc[rounds[column] <= budget, "accuracy"]
            yield f"within {budget:g} {unit}", float(within.max()) if len(within) else 0.0
    if budgets.time_s is not None and budgets.energy_j is not None:
        score = run.comprehensive_score(budget_s=budgets.time_s, budget_j=budgets.energy_j)
        assert score is not None
        yield "comprehensive score", score


def _curve(run: Run) -> pd.DataFrame:
    rounds = run.rounds[run.rounds["accuracy"].notna()]
    found = rounds[["round", "finished_at_s", "energy_total_j", "accuracy"]]
    return found.set_axis(["round", "time_s", "energy_j", "accuracy"], axis=1)


def _ledger(run: Run) -> pd.DataFrame:
    return run.energy_by("component", "fate").rename("energy_j").reset_index()


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*_CELL, *columns])


def _joined(parts: list[pd.DataFrame], columns: tuple[str, ...]) -> pd.DataFrame:
    names = [*_CELL, *columns]
    if not parts:
        return pd.DataFrame(columns=names)
    return pd.concat([part[names] for part in parts], ignore_index=True)
