"""Static charts of a study: files for a paper, with type of 8 points at any width.

The legend lies below the axes. Arms differ by dash and marker, parts of bars by hatch, also without
colours. An axis that is logarithmic or does not begin at zero says so.
"""

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fleetsim.quoting import cut
from fleetsim.record import atomic_files
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.figures.device_costs import stack
from fleetsim.studies.page import accuracy_curves, arm_costs, arm_styles, forest
from fleetsim.studies.page.arm_styles import ArmStyle
from fleetsim.studies.page.chart_data import (
    AccuracyData,
    ChartData,
    EffectData,
    LedgerData,
    PlaneData,
    slug,
)
from fleetsim.studies.page.forest import Forest
from fleetsim.studies.page.intervals import Mean

WIDTH_IN = 3.5
"""Width of a column of a paper; two have 7 in."""
TYPE_PT = 8
_HEIGHT_IN = 2.5
_MOST_LETTERS = 22
_BAND: dict[str, Any] = {"alpha": 0.16, "linewidth": 0}
_WIDE_RATIO = 8.0
"""Costs that differ by more than this are drawn on logarithmic axes."""


def save(
    every: Iterable[ChartData | Forest],
    looks: Mapping[str, ArmStyle],
    folder: Path,
    formats: Iterable[str],
    *,
    hint: str,
    dpi: int = style.PRINT_DPI,
    width_in: float = WIDTH_IN,
) -> list[str]:
    """Write a file for each chart and format; return the names without their suffix."""
    stems: list[str] = []
    for chart in every:
        # Two long names may have the same slug.
        stem = stem_of(chart)
        if stem in stems:
            stem = f"{stem}-{len(stems)}"
        stems.append(stem)
        encoded = style.encode(draw(chart, looks, width_in), formats, dpi=dpi)
        for suffix, data in encoded.items():
            atomic_files.write(folder / f"{stem}.{suffix}", data, hint=hint)
    return stems


def stem_of(chart: ChartData | Forest) -> str:
    """Return the name of a chart's files."""
    names = {
        AccuracyData: ("accuracy", "against", "condition"),
        PlaneData: ("plane", "target", "condition"),
        EffectData: ("effect", "key", "metric", "target"),
        LedgerData: ("ledger", "by", "target", "condition"),
    }
    if isinstance(chart, Forest):
        return slug("forest", chart.condition)
    kind, *chosen = names[type(chart)]
    return slug(kind, *(chart.choice[name] for name in chosen))


@style.house_style()
def draw(
    chart: ChartData | Forest, looks: Mapping[str, ArmStyle], width_in: float = WIDTH_IN
) -> Figure:
    """Draw a figure of one column, or of another width."""
    if isinstance(chart, Forest):
        return forest.draw(chart)
    figure = style.new_figure(width_in, _HEIGHT_IN)
    figure.get_layout_engine().set(w_pad=0.04, h_pad=0.03)  # type: ignore[union-attr, call-arg]
    axes = figure.subplots()
    match chart:
        case AccuracyData():
            handles = _accuracy(axes, chart, looks)
        case PlaneData():
            handles = _plane(axes, chart, looks)
        case EffectData():
            handles = _effect(axes, chart, looks)
        case LedgerData():
            handles = _ledger(axes, chart)
    if not handles:
        style.say(axes, "no data")
    axes.tick_params(labelsize=TYPE_PT, which="both")
    texts = [
        text for axis in (axes.xaxis, axes.yaxis) for text in (axis.label, axis.get_offset_text())
    ]
    for text in (*texts, *axes.texts):
        text.set_fontsize(TYPE_PT)
    _legend(figure, handles)
    return figure


def _accuracy(axes: Axes, chart: AccuracyData, looks: Mapping[str, ArmStyle]) -> list[Any]:
    handles = []
    for curve in chart.curves:
        look = looks[curve.arm]
        x = curve.x / chart.x.scale
        if len(curve.seeds) > 1:
            axes.fill_between(x, curve.low, curve.high, step="post", color=look.light, **_BAND)
        every = (0.03 * (look.number % 6), 0.18)  # markers beside those of equal curves
        line = _line(look, curve.arm, markersize=3.5, markevery=every)
        handles += axes.step(x, curve.mean, where="post", **line)
    if chart.targets:
        for target in chart.targets:
            at_target = axes.axhline(target, color=style.DARK_GREY, linewidth=0.8, zorder=1)
        at_target.set_label(f"target {', '.join(map(quantities.target, chart.targets))}")
        handles.append(at_target)
    axes.set(xlabel=chart.x.title, ylabel="accuracy")
    if chart.is_early:
        _logarithmic(axes, "x")
    begin = accuracy_curves.zoomed_from(chart.curves, chart.targets, is_log=chart.is_early)
    if begin > 0.0:
        axes.set_ylim(bottom=begin)
        axes.set_ylabel(f"accuracy (axis from {quantities.target(begin)})")
    style.in_percent(axes, "y")
    return handles


def _plane(axes: Axes, chart: PlaneData, looks: Mapping[str, ArmStyle]) -> list[Any]:
    handles: list[Any] = []
    x, y = chart.x.scale, chart.y.scale
    front = [(p.seconds.center / x, p.joules.center / y) for p in arm_costs.front(chart.points)]
    for point in chart.points:
        look = looks[point.arm]
        for seed in point.seeds:
            axes.plot(
                seed.seconds / x,
                seed.joules / y,
                look.point,
                color=look.light,
                alpha=0.5,
                markersize=2.5,
                markerfacecolor=look.light if seed.is_reached else "none",
            )
        has_range = len(point.seeds) > 1
        shown: dict[str, Any] = {
            "color": look.light,
            "marker": look.point,
            "linestyle": "none",
            "markerfacecolor": look.light if point.is_complete else "white",
            "label": _name(point.arm),
        }
        axes.errorbar(
            point.seconds.center / x,
            point.joules.center / y,
            xerr=_error(point.seconds, x) if has_range else None,
            yerr=_error(point.joules, y) if has_range else None,
            markersize=5.5,
            elinewidth=0.8,
            capsize=1.5,
            **shown,
        )
        handles.append(Line2D([], [], markersize=5, **shown))
    if chart.is_joined:
        means = [(p.seconds.center / x, p.joules.center / y) for p in chart.points]
        axes.plot(*zip(*means, strict=True), color="#999999", linewidth=0.8, zorder=0)
    if len(front) > 1:
        handles += axes.step(
            *zip(*front, strict=True),
            where="post",
            color="#555555",
            linestyle=":",
            linewidth=1.0,
            label="Pareto front",
            zorder=1,
        )
    costs = [(seed.seconds, seed.joules) for point in chart.points for seed in point.seeds]
    axes.set(xlabel=chart.x.title, ylabel=chart.y.title)
    for which, values in zip("xy", zip(*costs, strict=True), strict=False):
        if max(values) > _WIDE_RATIO * min(values):
            _logarithmic(axes, which)
    return handles


def _effect(axes: Axes, chart: EffectData, looks: Mapping[str, ArmStyle]) -> list[Any]:
    handles: list[Any] = []
    place = dict(zip(chart.levels, chart.numbers or range(len(chart.levels)), strict=True))
    scale = chart.y.scale
    for arm, points in chart.effects.items():
        look = looks[arm]
        x = [place[point.level] for point in points]
        costs = [(point.cost.low, point.cost.center, point.cost.high) for point in points]
        low, center, high = np.transpose(costs) / scale
        axes.fill_between(x, low, high, color=look.light, **_BAND)
        handles += axes.plot(x, center, **_line(look, arm, markersize=4))
        for at, point in zip(x, points, strict=True):
            if point.num_reached < point.num_runs:
                axes.plot(at, point.cost.center / scale, look.point, color=look.light,
                          markerfacecolor="white", markersize=4)  # fmt: skip
    if chart.is_logarithmic:
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(list(place.values()), [_name(level) for level in chart.levels])
    axes.set(xlabel=chart.choice["key"], ylabel=chart.y.title)
    centers = [point.cost.center for points in chart.effects.values() for point in points]
    if max(centers, default=0.0) > _WIDE_RATIO * min(centers, default=0.0):
        _logarithmic(axes, "y")
    else:
        axes.set_ylim(bottom=0.0)
    return handles


def _ledger(axes: Axes, chart: LedgerData) -> list[Any]:
    parts = tuple(map(str, chart.joules.columns))
    colors = arm_styles.part_colors(parts)
    if chart.joules.empty:
        return []
    looks = {part: (chart.labels[part], colors[part][0]) for part in parts}
    shown = chart.joules.rename(index=lambda arm: cut(str(arm), 16))
    stack(axes, shown[::-1], looks, "j", "energy")
    axes.set_xlabel(chart.x.title)
    for bars, hatch in zip(axes.containers, cycle(arm_styles.MATPLOTLIB_HATCHES), strict=False):
        for bar in bars:
            bar.set(hatch=hatch, edgecolor="white", linewidth=0.3)
    return list(axes.containers)


def _line(look: ArmStyle, arm: str, **parts: Any) -> dict[str, Any]:
    line = {"color": look.light, "linestyle": look.line_style, "linewidth": 1.2}
    return {**line, "marker": look.point, "label": _name(arm), **parts}


def _error(mean: Mean, scale: float) -> list[list[float]]:
    return [[(mean.center - mean.low) / scale], [(mean.high - mean.center) / scale]]


def _logarithmic(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, and say so; label 1, 2 and 5 of each decade as plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_label_text(f"{axis.get_label_text()}, log scale")
    style.in_plain_logs(axes, which, (1.0, 2.0, 5.0))


def _name(name: str) -> str:
    return cut(name, _MOST_LETTERS)


def _legend(figure: Figure, handles: list[Any]) -> None:
    """Put the legend below the axes, in as many columns as fit, and make room for its rows."""
    if not handles:
        return
    longest = max(len(str(handle.get_label())) for handle in handles)
    # 8-point type is about 0.06 in wide; a sample of the line takes 0.35 in.
    num_columns = int(figure.get_figwidth() / (0.38 + 0.062 * longest))
    num_columns = max(1, min(len(handles), num_columns))
    num_rows = -(-len(handles) // num_columns)
    figure.set_figheight(_HEIGHT_IN + 0.15 * (num_rows - 1))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=num_columns,
        fontsize=TYPE_PT,
        handlelength=2.4,
        handletextpad=0.5,
        columnspacing=1.0,
        labelspacing=0.25,
        borderaxespad=0.2,
    )
