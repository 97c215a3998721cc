"""Findings of a study in sentences: verdicts by condition, notices, and descriptions of charts.

The description of a chart says what it shows, not that it is a chart: it comes from the verdicts.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import pandas as pd

from fleetsim.report import quantities
from fleetsim.studies.page import arm_costs, units
from fleetsim.studies.page.arm_costs import Effects, PlanePoint
from fleetsim.studies.page.study_tables import METRICS, StudyHeader, StudyTables
from fleetsim.studies.settings import Metric

DONE = "done"
_MOST_ANSWERS, _MOST_ARMS = 4, 8
_KINDS = {
    "less": "significantly fewer",
    "more": "significantly more",
    "equal": "equal within the margin",
    "undecided": "not significantly different",
    "one seed": "no evidence from one seed",
}
_NOT_COMPARED = "cannot be compared, longer runs would tell"


@dataclass(frozen=True, slots=True)
class Group:
    """Verdicts of one condition, target and metric."""

    summary: str
    """Arms that cost less, more and the same as the baseline, or as the best level of a sweep."""

    condition: str
    target: str
    metric: str
    verdicts: tuple[tuple[str, str, str], ...]
    """Arm, kind and sentence."""


def at(frame: pd.DataFrame, **place: str) -> pd.DataFrame:
    """Return the rows with these values, such as those of a condition and a target."""
    return frame[frame[list(place)].eq(pd.Series(place)).all(axis=1)]


def metrics_of(tables: StudyTables) -> tuple[Metric, ...]:
    """Return the metrics of the costs, in their usual order."""
    present = set(tables.costs["metric"])
    return tuple(metric for metric in METRICS if metric in present)


def main_metric(tables: StudyTables, header: StudyHeader) -> Metric:
    """Return the metric that charts open with: the primary one, else joules if there are any."""
    present = metrics_of(tables)
    if header.primary is not None:
        return header.primary[1]
    return "joules" if "joules" in present or not present else present[0]


def main_target(header: StudyHeader) -> str:
    """Return the target that the page leads with: the primary one, else the last."""
    return header.targets[-1] if header.primary is None else header.primary[0]


def by_weight(header: StudyHeader) -> list[str]:
    """Return all targets, the main one first, then the others from the last."""
    main = main_target(header)
    return [main, *(target for target in reversed(header.targets) if target != main)]


def groups(tables: StudyTables, header: StudyHeader) -> tuple[list[Group], list[Group]]:
    """Return the verdicts on the primary outcome, and the other ones.

    Without a primary outcome the first are those on the main target, in all metrics.
    """
    first: list[Group] = []
    others: list[Group] = []
    main = main_target(header)
    keyed = dict(list(tables.verdicts.groupby(["target", "metric", "condition"], sort=False)))
    order = {arm: number for number, arm in enumerate(header.arms)}
    for target, metric, condition in product(by_weight(header), METRICS, header.conditions):
        rows = keyed.get((target, metric, condition))
        if rows is None:
            continue
        rows = rows.sort_values("arm", key=lambda arms: arms.map(order), kind="stable")
        entries = zip(rows["arm"], rows["kind"], rows["sentence"], strict=True)
        summarize = _of_best if header.baseline is None else _of_baseline
        group = Group(summarize(rows, target, metric), condition, target, metric, tuple(entries))
        is_main = target == main if header.primary is None else header.primary == (target, metric)
        (first if is_main else others).append(group)
    return first, others


def answers(tables: StudyTables, header: StudyHeader) -> list[str]:
    """Return the verdicts on the primary outcome in one sentence for each condition."""
    first, _ = groups(tables, header)
    lines = [f"{each.condition}: {each.summary}".removeprefix(": ") for each in first]
    num_more = len(lines) - _MOST_ANSWERS
    more = [f"... and {num_more} more verdicts"] if num_more > 0 else []
    return [*lines[:_MOST_ANSWERS], *more]


def _of_baseline(rows: pd.DataFrame, target: str, metric: str) -> str:
    """Return which arms cost less than the baseline, more, or neither."""
    arms = {words: list[str]() for words in (*_KINDS.values(), _NOT_COMPARED)}
    for row in rows.to_dict("records"):
        if math.isnan(row["ratio"]):
            arms[_NOT_COMPARED].append(row["arm"])
            continue
        ratio = units.ratio_with_interval(row["ratio"], row["low"], row["high"])
        arms[_KINDS[row["kind"]]].append(f"{row['arm']} {ratio}")
    parts = [
        f"{words}: {quantities.some(names, _MOST_ARMS, ', ')}"
        for words, names in arms.items()
        if names
    ]
    baseline = rows["baseline"].iloc[0]
    return f"{metric.capitalize()} to {target}, in ratio to {baseline}: {'; '.join(parts)}."


def _of_best(rows: pd.DataFrame, target: str, metric: str) -> str:
    """Return which level is best, and which may be as good."""
    best = rows["baseline"].iloc[0]
    close = rows.loc[~rows["kind"].isin(["more", "one seed"]), "arm"].tolist()
    if (rows["kind"] == "one seed").all():
        return f"Fewest {metric} to {target}: {best}, of one seed."
    if not close:
        return f"Fewest {metric} to {target}: {best}; all other levels need significantly more."
    return (
        f"Fewest {metric} to {target}: {best}. Not significantly different from the best:"
        f" {quantities.some(close, _MOST_ARMS)}."
    )


def notices(tables: StudyTables, header: StudyHeader) -> Iterator[tuple[str, str]]:
    """Yield what limits the findings: heading and words."""
    if len(header.seeds) == 1:
        yield (
            "One seed: no evidence.",
            "Differences between arms may be chance. Add seeds to the study and run it again; runs"
            " that are there are kept.",
        )
    left_out = "They are left out of all charts; costs are those of the other seeds:"
    there = "The page shows the runs that are there:"
    for status, words in (("failed", left_out), ("damaged", left_out), ("missing", there)):
        runs = tables.runs[tables.runs["status"] == status]
        if not runs.empty:
            shown = "; ".join(_named(row) for row in runs.head(8).to_dict("records"))
            more = f"; and {len(runs) - 8} more, see the table of runs" if len(runs) > 8 else ""
            verb = "failed" if status == "failed" else f"are {status}"
            yield f"{len(runs)} of {len(tables.runs)} runs {verb}.", f"{words} {shown}{more}"
    platforms = sorted(set(tables.runs.loc[tables.runs["status"] == DONE, "platform"].dropna()))
    if len(platforms) > 1:
        yield (
            f"The runs come from {len(platforms)} numerical platforms.",
            "Their last bits differ, and with them, where clients are almost equal, selections and"
            f" all later results: {', '.join(map(str, platforms))}",
        )
    for note in header.notes:
        yield "Note.", note


def of_condition(condition: str) -> str:
    """Return a condition as the end of a sentence."""
    return f", {condition}" if condition else ""


def sentences(tables: StudyTables, condition: str, target: str, metrics: Sequence[str]) -> str:
    """Return the verdicts of a condition and target in the given metrics as one text."""
    rows = at(tables.verdicts, condition=condition, target=target)
    text = " ".join(rows.loc[rows["metric"].isin(metrics), "sentence"])
    return text or f"No verdict to {target}."


def of_plane(points: Sequence[PlanePoint], target: str) -> str:
    """Describe the time-energy plane by its Pareto front."""
    if not points:
        return f"No run has costs to {target}."
    front = [
        f"{point.arm} at {units.text(point.seconds.center, 'seconds')} and"
        f" {units.text(point.joules.center, 'joules')}"
        for point in arm_costs.front(points)
    ]
    open_arms = [point.arm for point in points if not point.is_complete]
    if not front:
        return f"No arm reached {target} in all seeds, so there is no Pareto front."
    others = f" Not in all seeds reached by {', '.join(open_arms)}." if open_arms else ""
    return f"Pareto front to {target}: {'; '.join(front)}.{others}"


def of_effect(effects: Effects, key: str, target: str, metric: Metric) -> str:
    """Describe the effect of a varied key by the costs at its levels."""
    parts = []
    for arm, points in effects.items():
        at = (f"{units.text(point.cost.center, metric)} at {point.level}" for point in points)
        parts.append(f"{arm} {', '.join(at)}")
    return f"{metric.capitalize()} to {target} by {key}: {'; '.join(parts) or 'no costs'}."


def of_ledger(joules: pd.DataFrame, target: str, by: str) -> str:
    """Describe mean ledgers by the sum and the largest part of each arm."""
    parts = []
    for arm, row in joules.iterrows():
        total_j = float(row.sum())
        if total_j > 0.0:
            part = quantities.percent(float(row.max()) / total_j)
            parts.append(f"{arm} {units.text(total_j, 'joules')}, {part} of it {row.idxmax()}")
    return f"Mean joules to {target} by {by}: {'; '.join(parts) or 'none'}."


def _named(run: Mapping[Hashable, object]) -> str:
    reason = run.get("reason")
    why = f" ({reason})" if isinstance(reason, str) and reason else ""
    return f"{run['arm']}{of_condition(str(run['condition']))}, seed {run['seed']}{why}"
