"""Interactive charts of a study, as plain dictionaries that plotly's script reads.

They hold what depends on the study; the looks that all charts share are in `study.js`, by the role
of a trace. Colours are names such as `@arm0`, which that script replaces by those of the light or
the dark scheme. Text is escaped for plotly, which reads tags in names. Labels are never bold:
plotly would set a style attribute, which the policy of the page refuses.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.quoting import cut
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
        if len(curve.seeds) > 1:
            x, *ends = map(_numbers, (curve.x / chart.x.scale, curve.low, curve.high))
            traces += _band(looks[curve.arm], x, *ends, shape="hv")
    for curve in chart.curves:
        look = looks[curve.arm]
        traces += [
            _trace(
                look,
                "seed",
                x=_numbers(seed.x / chart.x.scale),
                y=_numbers(seed.accuracy),
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
                line={"width": 2.2, "dash": look.dash, "shape": "hv"},
                hovertemplate=f"{_text(curve.arm)}<br>%{{y:.1%}}"
                + (" [%{customdata[0]:.1%}, %{customdata[1]:.1%}]" if len(curve.seeds) > 1 else "")
                + f"<br>at %{{x:.4~g}} {chart.x.unit}, {quantities.count(len(curve.seeds))}"
                f" seed{'s' if len(curve.seeds) > 1 else ''}<extra></extra>",
            )
        )
    layout = _layout(chart.x.title, "accuracy on the test set", y={"tickformat": ".0%"})
    layout["shapes"] = [
        {"y0": each, "y1": each, "label": {"text": f"target {quantities.target(each)}"}}
        for each in chart.targets
    ]
    return traces, layout


def plane(chart: PlaneData, looks: Mapping[str, ArmStyle]) -> Drawn:
    """Return the time-energy plane: front, single seeds, then means with their ranges."""
    x_axis, y_axis = chart.x, chart.y
    front = arm_costs.front(chart.points)
    traces: list[Json] = []
    if chart.is_joined:
        traces.append(_path("order", chart.points, x_axis, y_axis, mode="lines"))
    if front:
        mode = "lines" if len(front) > 1 else "markers"
        traces.append(_path("front", front, x_axis, y_axis, mode=mode))
    for point in chart.points:
        look = looks[point.arm]
        traces.append(
            _trace(
                look,
                "point",
                x=_numbers([seed.seconds / x_axis.scale for seed in point.seeds]),
                y=_numbers([seed.joules / y_axis.scale for seed in point.seeds]),
                marker={"symbol": [_symbol(look, seed.is_reached) for seed in point.seeds]},
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
        if max(point.cost.num_seeds for point in points) > 1:
            x = [place[point.level] for point in points]
            ends = np.transpose([(point.cost.low, point.cost.high) for point in points]) / scale
            traces += _band(looks[arm], x, *map(_numbers, ends))
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
                line={"width": 2, "dash": look.dash},
                marker={
                    "size": 9,
                    "symbol": [_symbol(look, p.num_reached == p.num_runs) for p in points],
                },
                hovertemplate=f"{_text(arm)} at %{{x}}<br>%{{customdata[0]}}"
                "<br>%{customdata[1]}<extra></extra>",
            )
        )
    layout = _layout(chart.choice["key"], chart.y.title)
    if numbers is None:
        layout["xaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": texts}
    else:
        layout["xaxis"] |= {"type": "log" if chart.is_logarithmic else "linear"}
        layout["xaxis"] |= _ticks(numbers, texts)
    layout["yaxis"]["rangemode"] = "tozero"
    return traces, layout


def ledger(chart: LedgerData, colors: Mapping[str, str]) -> Drawn:
    """Return the mean ledgers as stacked bars, in colours that are named by part."""
    joules = chart.joules
    arms = [_text(cut(str(arm), 18)) for arm in joules.index]
    sums_j = joules.sum(axis=1).to_numpy(dtype=np.float64) if len(joules) else np.zeros(0)
    traces: list[Json] = []
    for number, (part, column) in enumerate(joules.items()):
        spent_j = column.to_numpy(dtype=np.float64)
        shares = [
            each / sum_j if sum_j else None for each, sum_j in zip(spent_j, sums_j, strict=True)
        ]
        patterns, name = arm_styles.PLOTLY_PATTERNS, _text(chart.labels[str(part)])
        traces.append(
            {
                "name": name,
                "meta": {"role": "part"},
                # Numbers, and not names: two long names may be shortened to the same.
                "y": list(range(len(arms))),
                "x": _numbers(spent_j / chart.x.scale),
                "customdata": [
                    [_text(str(arm)), units.text(part_j, "joules"), quantities.percent(share)]
                    for arm, part_j, share in zip(joules.index, spent_j, shares, strict=True)
                ],
                "marker": {
                    "color": f"@{colors[str(part)]}",
                    "pattern": {"shape": patterns[number % len(patterns)]},
                },
                "hovertemplate": f"%{{customdata[0]}}<br>{name}:"
                " %{customdata[1]}, %{customdata[2]}<extra></extra>",
            }
        )
    layout = _layout(chart.x.title, "", y=_ticks(list(range(len(arms))), arms))
    layout["height"] = 190 + 46 * max(2, len(arms))
    layout["yaxis"] |= {"autorange": "reversed", "showgrid": False}
    return traces, layout


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
            "symbol": _symbol(look, point.is_complete),
            "size": 13,
            "line": {"width": 1 if point.is_complete else 2.5},
        },
        error_x=_error(times, x_axis.scale) if has_range else {},
        error_y=_error(energies, y_axis.scale) if has_range else {},
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


def _error(mean: Mean, scale: float) -> Json:
    above, below = _numbers([(mean.high - mean.center) / scale, (mean.center - mean.low) / scale])
    return {"array": [above], "arrayminus": [below]}


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
    return {"meta": {"arm": look.number, "role": role}, **parts}


def _symbol(look: ArmStyle, is_reached: bool) -> str:
    return look.marker if is_reached else f"{look.marker}-open"


def _path(role: str, points: Sequence[PlanePoint], x: Axis, y: Axis, *, mode: str) -> Json:
    """Return a line through the means of points of the plane."""
    return {
        "meta": {"role": role},
        "mode": mode,
        "x": _numbers([point.seconds.center / x.scale for point in points]),
        "y": _numbers([point.joules.center / y.scale for point in points]),
    }


def _mean(look: ArmStyle, arm: str, **parts: Any) -> Json:
    """Return the trace of an arm's means, which stands in the legend."""
    name = _text(cut(arm, _MOST_LETTERS))
    return _trace(look, "mean", name=name, **parts)


def _band(
    look: ArmStyle, x: Sequence[Any], low: list[float], high: list[float], *, shape: str = "linear"
) -> Iterator[Json]:
    """Yield the invisible lower edge of an area, and the upper one that fills down to it."""
    for edge, fill in ((low, "none"), (high, "tonexty")):
        yield _trace(look, "band", x=x, y=edge, line={"shape": shape}, fill=fill)


def _ticks(places: Sequence[float], texts: Sequence[str]) -> Json:
    return {"tickmode": "array", "tickvals": places, "ticktext": texts}


def _layout(x_title: str, y_title: str, *, y: Json | None = None) -> Json:
    titles = {"xaxis": x_title, "yaxis": y_title}
    layout: Json = {axis: {"title": {"text": _text(title)}} for axis, title in titles.items()}
    layout["yaxis"] |= y or {}
    return layout


def _numbers(values: FloatArray | Sequence[float]) -> list[float]:
    """Return numbers to five digits: more cannot be seen, and make the page larger."""
    return [float(f"{value:.5g}") for value in np.asarray(values, dtype=np.float64)]


def _text(words: str) -> str:
    """Return words in which plotly reads no tag and no placeholder."""
    return html.escape(words).replace("%{", "%\u200b{")
