"""Table of the evidence: every arm against the baseline of its study, paired by seed.

Tests and intervals are those of studies (`fleetsim.studies.evidence`): ratios of costs with
Student's paired t on their logarithms, differences of accuracies with Student's paired t, both
adjusted over the arms by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from benchmarks.papers.outcomes import Outcome
from benchmarks.papers.tables import Result, best_target, markdown
from fleetsim.studies import evidence
from fleetsim.studies.settings import Target
from fleetsim.studies.statistics.comparison import ALPHA

MIN_SEEDS = 5
"""Fewest seeds for which intervals are printed; those of fewer are too wide to read."""
_ACCURACY = "last"
"""Measure whose differences are compared."""


def evidence_table(result: Result) -> str | None:
    """Return a table with a row per arm but the baseline; None if there are too few seeds.

    Costs are those of the target that `best_target` names; without one there are accuracies alone.
    """
    if len(result.seeds) < MIN_SEEDS:
        return None
    arms, baseline = list(result.outcomes), result.baseline
    head = ["selector", f"accuracy after the last round, minus {baseline}'s"]
    found = evidence.differences(_accuracies(result), arms, baseline)
    cells = {row["arm"]: [_cell(row, "difference", "+.3f")] for row in _rows(found)}
    target = best_target(result.outcomes, result.targets)
    if target is not None:
        verdicts = evidence.verdicts(_costs(result, target), arms, baseline)
        metrics = verdicts["metric"].unique()
        head += [f"{metric} to {_label(target)}, times {baseline}'s" for metric in metrics]
        for row in _rows(verdicts):  # metric by metric
            cells[row["arm"]].append(_cost_cell(row))
    return markdown(head, [[arm, *of_arm] for arm, of_arm in cells.items()])


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.to_dict("records")  # type: ignore[return-value]


def _cost_cell(verdict: Mapping[str, Any]) -> str:
    own, base, num = (
        verdict[name] for name in ("num_reached", "num_baseline_reached", "num_pairs")
    )
    if own == base == 0:
        return "neither reached it"
    cell = _cell(verdict, "ratio", ".2f")
    return cell if own == base == num else f"{cell} (reached {own}, {base} of {num})"


def _cell(row: Mapping[str, Any], name: str, spec: str) -> str:
    """Return a value with its interval; bold if it is significantly different from the baseline."""
    value, low, high = (row[column] for column in (name, "low", "high"))
    if math.isnan(value):
        return "not comparable"
    text = f"{value:{spec}} [{low:{spec}}, {high:{spec}}]"
    return f"**{text}**" if row["p_holm"] <= ALPHA else text


def _accuracies(result: Result) -> pd.DataFrame:
    rows = [
        ("", _ACCURACY, arm, seed, outcome.measures[_ACCURACY])
        for arm, seed, outcome in _each(result)
    ]
    return pd.DataFrame(rows, columns=["condition", "measure", "arm", "seed", "accuracy"])


def _costs(result: Result, target: float) -> pd.DataFrame:
    """Return costs as `fleetsim.studies.costs` counts them: to the target or the end of the run."""
    rows = []
    for arm, seed, outcome in _each(result):
        price = outcome.prices[target]
        spent = (
            (outcome.rounds, outcome.measures["total_s"], outcome.measures["total_j"])
            if price is None
            else (price.rounds, price.seconds, price.joules)
        )
        for metric, cost in zip(("rounds", "seconds", "joules"), spent, strict=True):
            rows.append(("", _label(target), metric, arm, seed, cost, price is not None))
    columns = ["condition", "target", "metric", "arm", "seed", "cost", "is_reached"]
    return pd.DataFrame(rows, columns=columns)


def _label(target: float) -> str:
    return Target(accuracy=target).label


def _each(result: Result) -> Iterator[tuple[str, int, Outcome]]:
    for arm, of_arm in result.outcomes.items():
        for seed, outcome in zip(result.seeds, of_arm, strict=True):
            yield arm, seed, outcome
