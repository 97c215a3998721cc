"""Forest plot of a study: the ratio of every arm's cost to the baseline's, with its interval.

A row is an arm, a column a target and metric. All columns share one logarithmic axis, so that
lengths compare. A filled marker is significant after Holm's correction, a square equal within the
margin of the study (Lewis and Clarke, BMJ 322:1479-1480, 2001, on the plot).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fleetsim.quoting import cut
from fleetsim.report import markup
from fleetsim.report.figures import style
from fleetsim.studies.page import findings, units
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables
from fleetsim.studies.settings import Metric

_MOST = 32.0
"""Ratio at which the axis ends at the latest; longer intervals end in arrows."""
_ROOM = 1.12
_TICKS = (
    (5.0, (0.05, 0.2, 1.0, 5.0, 20.0)),
    (2.0, (0.2, 0.5, 1.0, 2.0, 5.0)),
    (1.25, (0.5, 0.8, 1.0, 1.25, 2.0)),
    (1.0, (0.9, 0.95, 1.0, 1.05, 1.1)),
)
"""Ticks of an axis by the least ratio at its end."""
_MOST_BESIDE = 3
"""Panels of a figure beside each other; six would be wider than a page of a paper."""
_WIDTH, _PADDING = 132.0, 6.0
"""Pixels of a cell on the page, and of its margins."""


@dataclass(frozen=True, slots=True)
class ForestCell:
    """Ratio of an arm to the baseline in one column; NaN ends where there is no interval."""

    ratio: float
    low: float
    high: float
    kind: str

    @property
    def text(self) -> str:
        """Ratio and interval as text."""
        if self.kind == "best" or math.isnan(self.ratio):
            return "best" if self.kind == "best" else "not comparable"
        return units.ratio_with_interval(self.ratio, self.low, self.high)

    @property
    def is_significant(self) -> bool:
        """True for a significant difference."""
        return self.kind in ("less", "more")


@dataclass(frozen=True, slots=True)
class Forest:
    """Forest plot of one condition."""

    condition: str
    baseline: str | None
    columns: tuple[tuple[str, Metric], ...]
    """Targets and metrics, the primary one first."""
    rows: tuple[tuple[str, tuple[ForestCell | None, ...]], ...]
    """Arms with their cells; None: no costs."""
    ends: tuple[float, float]
    """Ratios at the ends of the axis."""

    @property
    def ticks(self) -> list[float]:
        """Ratios with a label at the axis."""
        _, most = self.ends
        steps = next(steps for end, steps in _TICKS if most >= end)
        return [tick for tick in steps if 1.0 / most <= tick <= most]

    def x(self, ratio: float) -> float:
        """Return the place of a ratio in a cell, in pixels."""
        low, high = map(math.log, self.ends)
        share = (math.log(min(max(ratio, self.ends[0]), self.ends[1])) - low) / (high - low)
        return round(_PADDING + share * (_WIDTH - 2.0 * _PADDING), 1)

    @property
    def caption(self) -> str:
        """Description of the plot."""
        of = "the best level of each column" if self.baseline is None else self.baseline
        correction = "correction for the number of levels" if self.baseline is None else "Holm"
        caption: str = markup.captions("studies/page")["forest"]
        return caption.format(of=of, correction=correction)


def forests(tables: StudyTables, header: StudyHeader) -> Iterator[Forest]:
    """Yield a forest plot for each condition with verdicts."""
    choices = list(product(findings.by_weight(header), findings.metrics_of(tables)))
    arms = [arm for arm in header.arms if arm != header.baseline]
    for condition in header.conditions:
        rows = findings.at(tables.verdicts, condition=condition)
        present = set(zip(rows["target"], rows["metric"], strict=True))
        columns = sorted(present & set(choices), key=choices.index)
        columns.sort(key=lambda column: column != header.primary)
        if columns:
            families = [findings.at(rows, target=target, metric=each) for target, each in columns]
            cells = tuple((arm, tuple(cell_of(arm, each) for each in families)) for arm in arms)
            yield Forest(condition, header.baseline, tuple(columns), cells, _ends(rows))


def cell_of(arm: str, family: pd.DataFrame) -> ForestCell | None:
    """Return the cell of an arm in the verdicts of a condition, target and metric; None without."""
    for _, row in family[family["arm"] == arm].iterrows():
        return ForestCell(row["ratio"], row["low"], row["high"], row["kind"])
    is_best = arm in set(family["baseline"])
    return ForestCell(1.0, math.nan, math.nan, "best") if is_best else None


def _ends(rows: pd.DataFrame) -> tuple[float, float]:
    """Return ends of the axis that are as far from 1 as the farthest interval."""
    values = rows[["ratio", "low", "high"]].to_numpy(dtype=np.float64)
    finite = values[np.isfinite(values) & (values > 0.0)]
    farthest = float(np.max(np.abs(np.log(finite)), initial=math.log(1.05)))
    most = min(math.exp(farthest) * _ROOM, _MOST)
    return 1.0 / most, most


@style.house_style()
def draw(chart: Forest) -> Figure:
    """Draw a panel for each target and metric, three beside each other."""
    num_rows, num_panels = len(chart.rows), len(chart.columns)
    num_lines, num_beside = -(-num_panels // _MOST_BESIDE), min(num_panels, _MOST_BESIDE)
    figure = style.new_figure(1.3 + 1.15 * num_beside, 0.3 + num_lines * (0.6 + 0.2 * num_rows))
    grid = figure.subplots(num_lines, num_beside, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[num_panels:]:
        axes.set_visible(False)
    panels = zip(grid.flat, chart.columns, strict=False)
    for number, (axes, (target, metric)) in enumerate(panels):
        axes.axvline(1.0, color="#555555", linewidth=0.8)
        for place, (_, cells) in enumerate(chart.rows):
            cell = cells[number]
            if cell is None or math.isnan(cell.ratio):
                continue
            if cell.low < cell.high:
                axes.plot([max(cell.low, chart.ends[0]), min(cell.high, chart.ends[1])],
                          [place, place], color=style.BLUE, linewidth=1.2)  # fmt: skip
            axes.plot(
                np.clip(cell.ratio, *chart.ends),
                place,
                "s" if cell.kind == "equal" else "o",
                color=style.BLUE,
                markersize=4.5,
                markerfacecolor=style.BLUE if cell.is_significant else "white",
            )
        axes.set_xscale("log")
        axes.set_xlim(*chart.ends)
        axes.set_xticks(chart.ticks, [f"{tick:g}" for tick in chart.ticks])
        axes.minorticks_off()
        axes.set_title(f"{metric}\nto {target}", fontsize=8)
        axes.tick_params(labelsize=8)
    names = [cut(arm, 24) for arm, _ in chart.rows]
    grid[0, 0].set_yticks(range(num_rows), names)
    grid[0, 0].set_ylim(num_rows - 0.5, -0.5)
    of = "the best" if chart.baseline is None else cut(chart.baseline, 24)
    figure.supxlabel(f"cost over that of {of} (95 % interval, logarithmic)", fontsize=8)
    return figure
