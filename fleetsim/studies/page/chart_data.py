"""Data of the charts of a study: numbers in units, titles, words.

One `ChartData` is one chart for one choice of condition, target, metric or axis. Interactive
charts (`charts`) and files (`static_charts`) are drawn from the same data, so they show the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from fleetsim.record.measures.ledger import COMPONENTS, ENERGY_OUTCOMES
from fleetsim.report.figures.ledger import COMPONENT_NAMES
from fleetsim.studies.page import accuracy_curves, arm_costs, findings, intervals, units
from fleetsim.studies.page.accuracy_curves import ArmCurve
from fleetsim.studies.page.arm_costs import Effects, PlanePoint
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables
from fleetsim.studies.settings import Metric

AXES: Mapping[str, tuple[str, str, Metric]] = {
    "time": ("time_s", "virtual time", "seconds"),
    "energy": ("energy_j", "energy of the fleet", "joules"),
    "rounds": ("round", "round", "rounds"),
}
"""Axes of accuracy: column of the curves, words, and the metric of their verdicts."""
PARTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "component": ("component", tuple(COMPONENTS)),
    "energy outcome": ("energy_outcome", ENERGY_OUTCOMES),
}
"""Column and parts of a ledger, by the words for what it is divided by."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Title of an axis, and its unit in SI."""

    title: str
    scale: float
    unit: str


@dataclass(frozen=True, slots=True)
class _Chart:
    choice: dict[str, str]
    """Choices under which the page shows the chart, by what is chosen."""
    finding: str
    caption: str


@dataclass(frozen=True, slots=True)
class AccuracyData(_Chart):
    """Accuracy of all arms in a condition, against one axis."""

    x: Axis
    curves: list[ArmCurve]
    is_early: bool
    targets: tuple[float, ...] = ()
    """Accuracies whose costs are compared."""


@dataclass(frozen=True, slots=True)
class PlaneData(_Chart):
    """Seconds and joules of all arms to a target in a condition."""

    x: Axis
    y: Axis
    points: list[PlanePoint]
    is_joined: bool
    """True for the levels of a sweep, which a line joins in their order."""


@dataclass(frozen=True, slots=True)
class EffectData(_Chart):
    """Costs of all arms by the level of a varied key."""

    y: Axis
    levels: tuple[str, ...]
    effects: Effects

    @property
    def numbers(self) -> list[float] | None:
        """Levels as numbers, for an axis in proportion; None if one is no finite number."""
        try:
            numbers = [float(level) for level in self.levels]
        except ValueError:
            return None
        return numbers if np.isfinite(numbers).all() and len(numbers) > 1 else None

    @property
    def is_logarithmic(self) -> bool:
        """True if the levels are positive and spread over more than a factor of 8."""
        numbers = self.numbers
        return numbers is not None and min(numbers) > 0.0 and max(numbers) > 8.0 * min(numbers)


@dataclass(frozen=True, slots=True)
class LedgerData(_Chart):
    """Mean joules of all arms in a condition, by component or by energy outcome."""

    x: Axis
    joules: pd.DataFrame
    labels: Mapping[str, str]


ChartData = AccuracyData | PlaneData | EffectData | LedgerData


def done_only(frame: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of runs that ended as planned; those of others would end too early."""
    keys = ["condition", "arm", "seed"]
    done = runs.loc[runs["status"] == findings.DONE, keys]
    return frame.merge(done, on=keys, how="inner")


def accuracies(tables: StudyTables, header: StudyHeader) -> Iterator[AccuracyData]:
    """Yield accuracy for each condition and axis."""
    curves = done_only(tables.curves, tables.runs)
    for condition in header.conditions:
        rows = curves[curves["condition"] == condition]
        for against, (column, words, metric) in AXES.items():
            arm_curves = accuracy_curves.arm_curves(rows, header.arms, column)
            verdicts = findings.sentences(tables, condition, findings.main_target(header), [metric])
            spread = intervals.words(len(curve.seeds) for curve in arm_curves)
            yield AccuracyData(
                {"condition": condition, "against": against},
                f"Accuracy over {words}{findings.of_condition(condition)}. {verdicts}",
                f"Line: mean over seeds. Area: {spread}. At each x a seed has the accuracy of its"
                " last evaluated round (last observation carried forward), also after its run has"
                " ended.",
                _axis(words, (curve.x[-1] for curve in arm_curves), metric),
                arm_curves,
                accuracy_curves.is_early(arm_curves),
                header.target_accuracies,
            )


def planes(tables: StudyTables, header: StudyHeader) -> Iterator[PlaneData]:
    """Yield the time-energy plane for each condition and target."""
    costs = done_only(tables.costs, tables.runs)
    for condition in header.conditions:
        for target in header.targets:
            rows = findings.at(costs, condition=condition, target=target)
            points = arm_costs.plane(rows, header.arms)
            seeds = [seed for point in points for seed in point.seeds]
            spread = intervals.words((len(point.seeds) for point in points), mean="logarithms")
            yield PlaneData(
                {"condition": condition, "target": target},
                findings.of_plane(points, target),
                "Large: geometric mean of the costs over seeds; bars on both axes:"
                f" {spread}. Small: single seeds."
                " Open: a run ended without the target, so its true costs are higher. Dotted line:"
                " Pareto front of the arms that reached it in all seeds."
                + (" Grey line: the levels in their order." if header.sweep_arm else ""),
                _axis(f"time to {target}", (seed.seconds for seed in seeds), "seconds"),
                _axis(f"energy to {target}", (seed.joules for seed in seeds), "joules"),
                points,
                is_joined=header.sweep_arm is not None,
            )


def level_effects(tables: StudyTables, header: StudyHeader) -> Iterator[EffectData]:
    """Yield the effect of each varied key for each target and metric."""
    costs, runs = done_only(tables.costs, tables.runs), tables.runs
    arms = header.arms
    if header.sweep_arm is not None:  # one curve, over the levels
        arms = (header.sweep_arm,)
        costs, runs = (
            frame.assign(condition=frame["arm"], arm=header.sweep_arm) for frame in (costs, runs)
        )
    for key, levels in header.factors.items():
        by_condition = runs.drop_duplicates("condition").set_index("condition")[key]
        for target, metric in product(header.targets, findings.metrics_of(tables)):
            rows = findings.at(costs, target=target, metric=metric)
            effects = arm_costs.effects(rows, by_condition, levels, arms)
            points = [point for of_arm in effects.values() for point in of_arm]
            spread = intervals.words((point.cost.num_seeds for point in points), mean="logarithms")
            others = " and over the levels of other keys" if len(header.factors) > 1 else ""
            yield EffectData(
                {"key": key, "target": target, "metric": metric},
                findings.of_effect(effects, key, target, metric),
                f"Line: geometric mean over seeds{others}. Area: {spread}. Open marker: a run ended"
                " without the target and counts with what it had spent, so the true cost is"
                " higher.",
                _axis(f"{metric} to {target}", (point.cost.high for point in points), metric),
                levels,
                effects,
            )


def ledgers(tables: StudyTables, header: StudyHeader) -> Iterator[LedgerData]:
    """Yield mean ledgers for each condition and target, by component and by energy outcome."""
    entries = done_only(tables.ledgers, tables.runs)
    for condition, target in product(header.conditions, header.targets):
        rows = findings.at(entries, condition=condition, target=target)
        for by, (column, order) in PARTS.items():
            joules = arm_costs.mean_ledger(rows, column, header.arms, order)
            yield LedgerData(
                {"condition": condition, "target": target, "by": by},
                findings.of_ledger(joules, target, by),
                "Mean over the runs of an arm, until the target was reached or the run ended: the"
                " joules whose ratios the verdicts compare.",
                _axis(f"mean energy to {target}", joules.sum(axis=1), "joules"),
                joules,
                {part: COMPONENT_NAMES.get(part, part) for part in map(str, joules.columns)},
            )


def _axis(words: str, values: Iterable[float], metric: Metric) -> Axis:
    """Return the axis of values in SI, with a unit that suits the largest."""
    scale, unit = units.of_axis(float(max(values, default=0.0)), metric)
    is_named = not unit or metric == "dollars"
    return Axis(words if is_named else f"{words} ({unit})", scale, unit)


def slug(*words: str) -> str:
    """Return words as part of a file's name.

    >>> slug("deadline_s=60", "80 %")
    'deadline-s-60-80'
    """
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
