"""Verdicts of a study as tables for the terminal: a row per arm, a column per metric."""

import math
from collections.abc import Iterator
from itertools import product

import pandas as pd
from rich.table import Table

from fleetsim.report import quantities
from fleetsim.studies.page import findings, forest, units
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables
from fleetsim.studies.settings import WHOLE_RUN, Metric

LEGEND = (
    "ratios with 95 % intervals; * significantly different, = equal within the margin; sentences"
    " with --verbose"
)
_MARKS = {"less": " *", "more": " *", "equal": " ="}


def tables_of(tables: StudyTables, header: StudyHeader) -> Iterator[tuple[str, Table]]:
    """Yield a heading and a table for each condition and target with verdicts, the main first."""
    for condition, target in product(header.conditions, findings.by_weight(header)):
        rows = findings.at(tables.verdicts, condition=condition, target=target)
        if rows.empty:
            continue
        summaries = findings.at(tables.summaries, condition=condition, target=target)
        metrics = [each for each in findings.metrics_of(tables) if each in set(rows["metric"])]
        heads = [
            f"{each} (primary)" if (target, each) == header.primary else each for each in metrics
        ]
        table = Table("", *heads, box=None, pad_edge=False)
        for arm in header.arms:
            table.add_row(arm, *(_cell(rows, summaries, each, arm) for each in metrics))
        goal = f"for {target}" if target == WHOLE_RUN else f"to {target}"
        yield f"Costs {goal}{findings.of_condition(condition)}", table


def _cell(rows: pd.DataFrame, summaries: pd.DataFrame, metric: Metric, arm: str) -> str:
    cell = forest.cell_of(arm, findings.at(rows, metric=metric))
    if cell is None:
        return quantities.NOTHING
    if cell.kind != "best":
        return cell.text + _MARKS.get(cell.kind, "")
    (summary,) = findings.at(summaries, metric=metric, arm=arm).to_dict("records")
    mean = summary["mean"]
    if math.isnan(mean):
        return f"1 (>= {units.text(summary['restricted_mean'], metric)})"
    return f"1 ({units.text(mean, metric)})"
