"""Tables of the runs of a study, read from the run folders."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleetsim.errors import DataError
from fleetsim.record.saved_run import Run
from fleetsim.studies.costs import costs, ledgers
from fleetsim.studies.planned_run import PlannedRun
from fleetsim.studies.run_store import RunStore, damage_of
from fleetsim.studies.settings import Budgets
from fleetsim.studies.study import Study

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


class RunTables(NamedTuple):
    """Tables of the runs of a study, as `StudyResult` has them."""

    runs: pd.DataFrame
    costs: pd.DataFrame
    accuracies: pd.DataFrame
    curves: pd.DataFrame
    ledgers: pd.DataFrame


class _PartsOfRun(NamedTuple):
    run: dict[str, Any]
    costs: list[dict[str, Any]]
    accuracies: list[dict[str, Any]]
    curve: pd.DataFrame
    ledger: pd.DataFrame


def tables_of(study: Study, store: RunStore) -> RunTables:
    """Read the complete runs of a study; damaged ones are named with the reason and left out."""
    reasons = store.failures(study.settings.name)
    levels = {condition.label: dict(condition.levels) for condition in study.conditions}
    rows: list[dict[str, Any]] = []
    parts: list[_PartsOfRun] = []
    for planned in study.runs:
        cell: dict[str, Any] = {name: getattr(planned, name) for name in _CELL}
        try:
            run_parts = _parts(planned, cell, study, store)
        except DataError as fault:
            state: dict[str, Any] = {"status": "damaged", "reason": damage_of(fault)}
            state["folder"] = str(store.folder(planned))
        else:
            reason = reasons.get(planned.key)
            state = {"status": "missing" if reason is None else "failed", "reason": reason}
            if run_parts is not None:
                state = run_parts.run
                parts.append(run_parts)
        rows.append(cell | levels[planned.condition] | state)
    columns = ["condition", *study.settings.vary, "arm", "seed", *_RUN_COLUMNS]
    return RunTables(
        runs=pd.DataFrame(rows, columns=columns).astype(_RUN_COLUMNS),
        costs=_frame([part.costs for part in parts], ("target", "metric", "cost", "is_reached")),
        accuracies=_frame([part.accuracies for part in parts], ("measure", "accuracy")),
        curves=_joined([part.curve for part in parts], ("round", "time_s", "energy_j", "accuracy")),
        ledgers=_joined(
            [part.ledger for part in parts], ("target", "component", "energy_outcome", "energy_j")
        ),
    )


def _parts(
    planned: PlannedRun, cell: dict[str, Any], study: Study, store: RunStore
) -> _PartsOfRun | None:
    run = store.open(planned)
    if run is None:
        return None
    run.require_unchanged()
    settings = study.settings
    return _PartsOfRun(
        run=_run_row(run),
        costs=[
            cell | cost._asdict()
            for cost in costs(run, settings.all_targets, study.prices, settings.budgets)
            if cost.metric in study.metrics
        ],
        accuracies=[
            cell | {"measure": measure, "accuracy": value}
            for measure, value in _accuracies(run, settings.budgets)
        ],
        curve=_curve(run).assign(**cell),
        ledger=ledgers(run, settings.all_targets).assign(**cell),
    )


def _run_row(run: Run) -> dict[str, Any]:
    rounds = run.rounds
    accuracy = rounds["accuracy"].dropna()
    return {
        "status": "done",
        "folder": str(run.folder),
        "rounds": len(rounds),
        "virtual_s": run.manifest.virtual_s,
        "energy_j": float(rounds["energy_total_j"].iloc[-1]) if len(rounds) else 0.0,
        "final_accuracy": float(accuracy.iloc[-1]) if len(accuracy) else np.nan,
        "platform": "+".join(platform.id for platform in run.manifest.platforms),
        "version": run.manifest.versions.get("fleetsim"),
    }


def _accuracies(run: Run, budgets: Budgets | None) -> Iterator[tuple[str, float]]:
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
    names = {"round": "round", "finished_at_s": "time_s", "energy_total_j": "energy_j"}
    return rounds[[*names, "accuracy"]].rename(columns=names)


def _frame(parts: list[list[dict[str, Any]]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame([row for part in parts for row in part], columns=[*_CELL, *columns])


def _joined(parts: list[pd.DataFrame], columns: tuple[str, ...]) -> pd.DataFrame:
    names = [*_CELL, *columns]
    if not parts:
        return pd.DataFrame(columns=names)
    return pd.concat([part[names] for part in parts], ignore_index=True)
