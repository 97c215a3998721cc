"""Interactive charts of a study, as plain dictionaries that plotly's script reads.

Colours are names such as `@arm0`, which the page's script replaces by those of the light or the
dark scheme. A trace's `meta` says its arm and its role; the script hides arms and single seeds by
it. Text is escaped for plotly, which reads tags in names. Labels are never bold: plotly would set a
style attribute, which the policy of the page refuses.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.report import quantities
from fleetsim.studies.page import arm_costs, arm_styles, units
from fleetsim.studies.page.arm_costs import LevelCost, PlanePoint
from fleetsim.studies.page.arm_styles import ArmStyle
from fleetsim.studies.page.chart_data import (
    AccuracyData,
    Axis,
    ChartData,
    EffectData,
    LedgerData,
    PlaneData,
)
from fleetsim.studies.page.intervals import Mean

Json = dict[str, Any]
Drawn = tuple[list[Json], Json]
"""Traces and layout."""

_MOST_LETTERS = 26


def variant(
    chart: ChartData, looks: Mapping[str, ArmStyle], part_colors: Mapping[str, str]
) -> Json:
    """Return one chart and the choices under which it is shown."""
    match chart:
        case AccuracyData():
            traces, layout = accuracy(chart, looks)
        case PlaneData():
            traces, layout = plane(chart, looks)
        case EffectData():
            traces, layout = effect(chart, looks)
        case LedgerData():
            traces, layout = ledger(chart, part_colors)
    return {
        "choice": chart.choice,
        "traces": traces,
        "layout": layout,
        "finding": chart.finding,
        "caption": chart.caption,
    }


def accuracy(chart: AccuracyData, looks: Mapping[str, ArmStyle]) -> Drawn:
    """Return accuracy against one axis: areas, single seeds, then means."""
    traces: list[Json] = []
    for curve in chart.curves:
        x = _numbers(curve.x / chart.x.scale)
        if len(curve.seeds) > 1:
            ends = _numbers(curve.low), _numbers(curve.high)
            traces += _band(looks[curve.arm], x, *ends, shape="hv")
    for curve in chart.curves:
        look = looks[curve.arm]
        traces += [
            _trace(
                look,
                "seed",
                x=_numbers(seed.x / chart.x.scale),
                y=_numbers(seed.accuracy),
                mode="lines",
                line={"color": f"@arm{look.number}-pale", "width": 1, "shape": "hv"},
                hovertemplate=f"{_text(curve.arm)}, seed {seed.seed}<br>%{{y:.1%}} at %{{x:.4~g}}"
                f" {chart.x.unit}<extra></extra>",
            )
            for seed in curve.seeds
        ]
    for curve in chart.curves:
        look = looks[curve.arm]
        traces.append(
            _mean(
                look,
                curve.arm,
                x=_numbers(curve.x / chart.x.scale),
                y=_numbers(curve.mean),
                customdata=np.column_stack([_numbers(curve.low), _numbers(curve.high)]).tolist(),
                mode="lines",
                line=_line(look, 2.2, shape="hv"),
                hovertemplate=f"{_text(curve.arm)}<br>%{{y:.1%}}"
                + (" [%{customdata[0]:.1%}, %{customdata[1]:.1%}]" if len(curve.seeds) > 1 else "")
                + f"<br>at %{{x:.4~g}} {chart.x.unit}, {quantities.count(len(curve.seeds))}"
                f" seed{'s' if len(curve.seeds) > 1 else ''}<extra></extra>",
            )
        )
    layout = _layout(chart.x.title, "accuracy on the test set", y={"tickformat": ".0%"})
    layout["shapes"] = [
        {"type": "line", "layer": "below", "xref": "paper", "x0": 0, "x1": 1, "y0": each,
         "y1": each, "line": {"color": "@soft", "width": 1.2},
         "label": {"text": f"target {quantities.target(each)}", "textposition": "start",
                   "font": {"color": "@soft", "size": 11}}}
        for each in chart.targets
    ]  # fmt: skip
    return traces, layout


def plane(chart: PlaneData, looks: Mapping[str, ArmStyle]) -> Drawn:
    """Return the time-energy plane: front, single seeds, then means with their ranges."""
    x_axis, y_axis = chart.x, chart.y
    front = arm_costs.front(chart.points)
    traces: list[Json] = []
    if chart.is_joined:
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "meta": {"role": "order"},
                "showlegend": False,
                "hoverinfo": "skip",
                "line": {"color": "@soft", "width": 1},
                "x": _numbers([point.seconds.center / x_axis.scale for point in chart.points]),
                "y": _numbers([point.joules.center / y_axis.scale for point in chart.points]),
            }
        )
    if front:
        traces.append(
            {
                "type": "scatter",
                "name": "Pareto front",
                "meta": {"role": "front"},
                "showlegend": True,
                "hoverinfo": "skip",
                "mode": "lines" if len(front) > 1 else "markers",
                "marker": {"size": 18, "symbol": "circle-open", "color": "@soft"},
                "line": {"color": "@soft", "width": 1.5, "dash": "dot", "shape": "hv"},
                "x": _numbers([point.seconds.center / x_axis.scale for point in front]),
                "y": _numbers([point.joules.center / y_axis.scale for point in front]),
            }
        )
    for point in chart.points:
        look = looks[point.arm]
        symbols = [look.marker + ("" if seed.is_reached else "-open") for seed in point.seeds]
        traces.append(
            _trace(
                look,
                "point",
                x=_numbers([seed.seconds / x_axis.scale for seed in point.seeds]),
                y=_numbers([seed.joules / y_axis.scale for seed in point.seeds]),
                mode="markers",
                marker={"color": f"@arm{look.number}-pale", "symbol": symbols, "size": 7},
                customdata=[
                    [seed.seed, "" if seed.is_reached else ", target not reached"]
                    for seed in point.seeds
                ],
                hovertemplate=f"{_text(point.arm)}, seed %{{customdata[0]}}%{{customdata[1]}}<br>"
                + _at(x_axis, y_axis),
            )
        )
    traces += [_plane_mean(point, looks[point.arm], x_axis, y_axis) for point in chart.points]
    return traces, _layout(x_axis.title, y_axis.title)


def effect(chart: EffectData, looks: Mapping[str, ArmStyle]) -> Drawn:
    """Return the effect of a varied key: areas, then means at each level."""
    scale = chart.y.scale
    numbers = chart.numbers
    texts = [_text(level) for level in chart.levels]
    place = dict(zip(chart.levels, texts if numbers is None else numbers, strict=True))
    traces: list[Json] = []
    for arm, points in chart.effects.items():
        look = looks[arm]
        if max(point.cost.num_seeds for point in points) > 1:
            traces += _band(
                look,
                [place[point.level] for point in points],
                _numbers([point.cost.low / scale for point in points]),
                _numbers([point.cost.high / scale for point in points]),
            )
    for arm, points in chart.effects.items():
        look = looks[arm]
        traces.append(
            _mean(
                look,
                arm,
                x=[place[point.level] for point in points],
                y=_numbers([point.cost.center / scale for point in points]),
                customdata=[_hover(point, chart.choice["metric"]) for point in points],
                mode="lines+markers",
                line=_line(look, 2),
                marker={
                    "color": f"@arm{look.number}",
                    "size": 9,
                    "symbol": [
                        look.marker + ("" if point.num_reached == point.num_runs else "-open")
                        for point in points
                    ],
                },
                hovertemplate=f"{_text(arm)} at %{{x}}<br>%{{customdata[0]}}"
                "<br>%{customdata[1]}<extra></extra>",
            )
        )
    layout = _layout(chart.choice["key"], chart.y.title)
    if numbers is None:
        layout["xaxis"] |= {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": texts,
        }
    else:
        layout["xaxis"] |= {
            "type": "log" if chart.is_logarithmic else "linear",
            "tickmode": "array",
            "tickvals": numbers,
            "ticktext": texts,
        }
    layout["yaxis"]["rangemode"] = "tozero"
    return traces, layout


def ledger(chart: LedgerData, colors: Mapping[str, str]) -> Drawn:
    """Return the mean ledgers as stacked bars, in colours that are named by part."""
    joules = chart.joules
    arms = [_text(units.shortened(str(arm), 18)) for arm in joules.index]
    sums_j = joules.sum(axis=1).to_numpy(dtype=np.float64) if len(joules) else np.zeros(0)
    traces: list[Json] = []
    for number, (part, column) in enumerate(joules.items()):
        spent_j = column.to_numpy(dtype=np.float64)
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _text(chart.labels[str(part)]),
                "meta": {"role": "part"},
                # Numbers, and not names: two long names may be shortened to the same.
                "y": list(range(len(arms))),
                "x": _numbers(spent_j / chart.x.scale),
                "customdata": [
                    [
                        _text(str(arm)),
                        units.text(float(part_j), "joules"),
                        quantities.percent(float(part_j / sum_j) if sum_j else None),
                    ]
                    for arm, part_j, sum_j in zip(joules.index, spent_j, sums_j, strict=True)
                ],
                "marker": {
                    "color": f"@{colors[str(part)]}",
                    "line": {"color": "@paper", "width": 0.5},
                    "pattern": {
                        "shape": arm_styles.PLOTLY_PATTERNS[
                            number % len(arm_styles.PLOTLY_PATTERNS)
                        ],
                        "fgcolor": "@paper",
                        "fillmode": "overlay",
                        "size": 7,
                        "solidity": 0.2,
                    },
                },
                "hovertemplate": f"%{{customdata[0]}}<br>{_text(chart.labels[str(part)])}:"
                " %{customdata[1]}, %{customdata[2]}<extra></extra>",
            }
        )
    layout = _layout(chart.x.title, "")
    layout |= {"barmode": "stack", "bargap": 0.35}
    layout["height"] = 190 + 46 * max(2, len(arms))
    layout["yaxis"] |= {
        "autorange": "reversed",
        "tickmode": "array",
        "tickvals": list(range(len(arms))),
        "ticktext": arms,
        "showgrid": False,
    }
    return traces, layout


def ledger_colors(parts: Sequence[str]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the names of the colours of all parts of ledgers, and their light and dark palette."""
    colors = arm_styles.part_colors(parts)
    names = {part: f"part{number}" for number, part in enumerate(parts)}
    light = {names[part]: pair[0] for part, pair in colors.items()}
    dark = {names[part]: pair[1] for part, pair in colors.items()}
    return names, light, dark


def _plane_mean(point: PlanePoint, look: ArmStyle, x_axis: Axis, y_axis: Axis) -> Json:
    times, energies = point.seconds, point.joules
    has_range = len(point.seeds) > 1
    reached = f"{point.num_reached} of {len(point.seeds)} seeds reached it"
    return _mean(
        look,
        point.arm,
        x=_numbers([times.center / x_axis.scale]),
        y=_numbers([energies.center / y_axis.scale]),
        mode="markers",
        marker={
            "color": f"@arm{look.number}",
            "symbol": look.marker + ("" if point.is_complete else "-open"),
            "size": 13,
            "line": {"width": 1 if point.is_complete else 2.5, "color": f"@arm{look.number}"},
        },
        error_x=_error(times, x_axis.scale, look) if has_range else {},
        error_y=_error(energies, y_axis.scale, look) if has_range else {},
        hovertemplate=f"{_text(point.arm)}, {reached}<br>"
        + (
            f"{units.text(times.center, 'seconds')} [{units.text(times.low, 'seconds')},"
            f" {units.text(times.high, 'seconds')}]<br>{units.text(energies.center, 'joules')}"
            f" [{units.text(energies.low, 'joules')}, {units.text(energies.high, 'joules')}]"
            "<extra></extra>"
            if has_range
            else _at(x_axis, y_axis)
        ),
    )


def _error(mean: Mean, scale: float, look: ArmStyle) -> Json:
    return {
        "type": "data",
        "symmetric": False,
        "array": _numbers([(mean.high - mean.center) / scale]),
        "arrayminus": _numbers([(mean.center - mean.low) / scale]),
        "color": f"@arm{look.number}",
        "thickness": 1.5,
        "width": 4,
    }


def _at(x: Axis, y: Axis) -> str:
    return f"%{{x:.3~g}} {x.unit}, %{{y:.3~g}} {y.unit}<extra></extra>"


def _hover(point: LevelCost, metric: str) -> list[str]:
    cost = point.cost
    ends = f" [{units.text(cost.low, metric)}, {units.text(cost.high, metric)}]"
    return [
        units.text(cost.center, metric) + (ends if cost.num_seeds > 1 else ""),
        f"{point.num_reached} of {point.num_runs} runs reached it",
    ]


def _trace(look: ArmStyle, role: str, **parts: Any) -> Json:
    return {
        "type": "scatter",
        "meta": {"arm": look.number, "role": role},
        "showlegend": False,
        "legendgroup": f"arm{look.number}",
        **parts,
    }


def _mean(look: ArmStyle, arm: str, **parts: Any) -> Json:
    """Return the trace of an arm's means, which stands in the legend."""
    name = _text(units.shortened(arm, _MOST_LETTERS))
    return _trace(look, "mean", name=name, showlegend=True, **parts)


def _line(look: ArmStyle, width: float, **parts: str) -> Json:
    return {"color": f"@arm{look.number}", "width": width, "dash": look.dash, **parts}


def _band(
    look: ArmStyle, x: Sequence[Any], low: list[float], high: list[float], *, shape: str = "linear"
) -> Iterator[Json]:
    """Yield the invisible lower edge of an area, and the upper one that fills down to it."""
    for edge, fill in ((low, "none"), (high, "tonexty")):
        yield _trace(
            look,
            "band",
            x=x,
            y=edge,
            mode="lines",
            line={"width": 0, "shape": shape, "color": f"@arm{look.number}-band"},
            fill=fill,
            fillcolor=f"@arm{look.number}-band",
            hoverinfo="skip",
        )


def _layout(x_title: str, y_title: str, *, y: Json | None = None) -> Json:
    axis = {
        "gridcolor": "@line",
        "linecolor": "@soft",
        "zerolinecolor": "@line",
        "tickcolor": "@soft",
        "automargin": True,
    }
    return {
        "paper_bgcolor": "@paper",
        "plot_bgcolor": "@paper",
        "font": {"color": "@ink", "size": 13, "family": "system-ui, sans-serif"},
        "height": 460,
        "margin": {"l": 8, "r": 12, "t": 34, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "@paper", "font": {"color": "@ink"}, "align": "left"},
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -0.24,
            "yanchor": "top",
            "itemsizing": "trace",
            "traceorder": "normal",
        },
        "modebar": {"color": "@soft", "activecolor": "@ink", "bgcolor": "@paper"},
        "xaxis": {**axis, "title": {"text": _text(x_title), "standoff": 8}},
        "yaxis": {**axis, "title": {"text": _text(y_title), "standoff": 8}, **(y or {})},
    }


def _numbers(values: FloatArray | Sequence[float]) -> list[float]:
    """Return numbers to five digits: more cannot be seen, and make the page larger."""
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=np.float64)]


def _text(words: str) -> str:
    """Return words in which plotly reads no tag and no placeholder."""
    return html.escape(words).replace("%{", "%\u200b{")
