"""Verdicts of a study as tables for the terminal: a row per arm, a column per metric."""

import math
from collections.abc import Iterator

import pandas as pd
from rich.table import Table

from fleetsim.studies.page import findings, units
from fleetsim.studies.page.forest import ForestCell
from fleetsim.studies.settings import WHOLE_RUN, Metric
from fleetsim.studies.study_tables import StudyHeader, StudyTables

LEGEND = (
    "ratios with 95 % intervals; * significantly different, = equal within the margin; sentences"
    " with --verbose"
)
_MARKS = {"less": " *", "more": " *", "equal": " ="}


def tables_of(tables: StudyTables, header: StudyHeader) -> Iterator[tuple[str, Table]]:
    """Yield a heading and a table for each condition and target with verdicts, the main first."""
    for condition in header.conditions:
        for target in findings.by_weight(header):
            rows = tables.verdicts
            rows = rows[(rows["condition"] == condition) & (rows["target"] == target)]
            if rows.empty:
                continue
            metrics = [each for each in findings.metrics_of(tables)
                          if each in set(rows["metric"])]  # fmt: skip
            primary = "(primary)"
            heads = [
                f"{each} {primary}" if (target, each) == header.primary else each
                for each in metrics
            ]
            table = Table("", *heads, box=None, pad_edge=False)
            for arm in header.arms:
                of_arm = [_cell(tables, rows, condition, target, each, arm) for each in metrics]
                table.add_row(arm, *of_arm)
            goal = f"for {target}" if target == WHOLE_RUN else f"to {target}"
            yield f"Costs {goal}{findings.of_condition(condition)}", table


def _cell(
    tables: StudyTables,
    rows: pd.DataFrame,
    condition: str,
    target: str,
    metric: Metric,
    arm: str,
) -> str:
    family = rows[rows["metric"] == metric]
    of_arm = family[family["arm"] == arm]
    if len(of_arm):
        (row,) = of_arm.to_dict("records")
        cell = ForestCell(row["ratio"], row["low"], row["high"], row["kind"])
        return cell.text + _MARKS.get(cell.kind, "")
    if arm not in set(family["baseline"]):
        return "-"
    every = tables.summaries
    (summary,) = every[
        (every["condition"] == condition)
        & (every["target"] == target)
        & (every["metric"] == metric)
        & (every["arm"] == arm)
    ].to_dict("records")
    mean = summary["mean"]
    if math.isnan(mean):
        return f"1 (>= {units.text(summary['restricted_mean'], metric)})"
    return f"1 ({units.text(mean, metric)})"
