"""Tables of the runs of a study, read from the run folders."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleetsim.errors import DataError
from fleetsim.record.saved_run import Run
from fleetsim.studies.costs import Cost, costs, ledgers
from fleetsim.studies.run_store import RunStore, damage_of
from fleetsim.studies.settings import Budgets, Cell, RunRow
from fleetsim.studies.study import Study


class Accuracy(NamedTuple):
    """Accuracy of one run by one measure."""

    measure: str
    """`final`, `best`, `within BUDGET` of each budget, or `comprehensive score` with both."""
    accuracy: float
    """Value of the measure, a fraction; 0 if no round was evaluated within a budget."""


_COLUMNS = {
    "costs": Cost._fields,
    "accuracies": Accuracy._fields,
    "curves": ("round", "time_s", "energy_j", "accuracy"),
    "ledgers": ("target", "component", "energy_outcome", "energy_j"),
}
"""Columns of the tables of complete runs, after those of the cell."""


class RunTables(NamedTuple):
    """Tables of the runs of a study, as `StudyResult` has them."""

    runs: pd.DataFrame
    costs: pd.DataFrame
    accuracies: pd.DataFrame
    curves: pd.DataFrame
    ledgers: pd.DataFrame


def tables_of(study: Study, store: RunStore) -> RunTables:
    """Read the complete runs of a study; damaged ones are named with the reason and left out."""
    reasons = store.failures(study.settings.name)
    levels = {condition.label: dict(condition.levels) for condition in study.conditions}
    rows: list[dict[str, Any]] = []
    parts: list[dict[str, pd.DataFrame]] = []
    for planned in study.runs:
        cell: dict[str, Any] = {name: getattr(planned, name) for name in Cell._fields}
        reason = reasons.get(planned.key)
        state = RunRow("failed" if reason else "missing", reason=reason)
        try:
            run = store.open(planned)
            if run is not None:
                run.require_unchanged()
                state = _run_row(run)
                tables = _tables(run, study)
                parts.append({name: table.assign(**cell) for name, table in tables.items()})
        except DataError as fault:
            state = RunRow("damaged", str(store.folder(planned)), damage_of(fault))
        rows.append(cell | levels[planned.condition] | state._asdict())
    columns = ["condition", *study.settings.vary, "arm", "seed", *RunRow._fields]
    types = dict.fromkeys(RunRow._fields, "object")
    types |= {
        name: "float64" for name, value in RunRow._field_defaults.items() if value is not None
    }
    return RunTables(
        runs=pd.DataFrame(rows, columns=columns).astype(types),
        **{
            name: _joined([part[name] for part in parts], [*Cell._fields, *of_table])
            for name, of_table in _COLUMNS.items()
        },
    )


def _tables(run: Run, study: Study) -> dict[str, pd.DataFrame]:
    """Return the rows of a complete run in each table of `_COLUMNS`."""
    settings = study.settings
    spent = costs(run, settings.all_targets, study.prices, settings.budgets)
    return {
        "costs": pd.DataFrame(cost for cost in spent if cost.metric in study.metrics),
        "accuracies": pd.DataFrame(_accuracies(run, settings.budgets), columns=Accuracy._fields),
        "curves": _curve(run),
        "ledgers": ledgers(run, settings.all_targets),
    }


def _run_row(run: Run) -> RunRow:
    rounds = run.rounds
    accuracy = rounds["accuracy"].dropna()
    return RunRow(
        status="done",
        folder=str(run.folder),
        rounds=len(rounds),
        virtual_s=run.manifest.virtual_s,
        energy_j=float(rounds["energy_total_j"].iloc[-1]) if len(rounds) else 0.0,
        final_accuracy=float(accuracy.iloc[-1]) if len(accuracy) else np.nan,
        platform="+".join(platform.id for platform in run.manifest.platforms),
        version=run.manifest.versions.get("fleetsim"),
    )


def _accuracies(run: Run, budgets: Budgets | None) -> Iterator[Accuracy]:
    rounds = run.rounds[run.rounds["accuracy"].notna()]
    if rounds.empty:
        return
    yield Accuracy("final", float(rounds["accuracy"].iloc[-1]))
    yield Accuracy("best", float(rounds["accuracy"].max()))
    if budgets is None:
        return
    for column, unit, budget in (
        ("finished_at_s", "s", budgets.time_s),
        ("energy_total_j", "J", budgets.energy_j),
    ):
        if budget is not None:
            within = rounds.loc[rounds[column] <= budget, "accuracy"]
            best = float(within.max()) if len(within) else 0.0
            yield Accuracy(f"within {budget:g} {unit}", best)
    if budgets.time_s is not None and budgets.energy_j is not None:
        score = run.comprehensive_score(budget_s=budgets.time_s, budget_j=budgets.energy_j)
        assert score is not None
        yield Accuracy("comprehensive score", score)


def _curve(run: Run) -> pd.DataFrame:
    rounds = run.rounds[run.rounds["accuracy"].notna()]
    names = {"round": "round", "finished_at_s": "time_s", "energy_total_j": "energy_j"}
    return rounds[[*names, "accuracy"]].rename(columns=names)


def _joined(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    there = [part[columns] for part in parts if len(part)]
    return pd.concat(there, ignore_index=True) if there else pd.DataFrame(columns=columns)
