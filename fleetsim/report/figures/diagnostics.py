"""Figure of the numbers that a selector told about its rounds: expected and realised, and others.

Three names have a meaning for every selector: `expected`, the value that it gave to its choice,
`realised`, that of the outcome on the same scale, and `reward`, which is drawn against `expected`
where nothing is realised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fleetsim.contracts import FloatArray
from fleetsim.report.figures import style

MAX_PANELS = 8
"""Panels of a figure; names beyond them are left out, which its title says."""
MAX_CURVES = 60
"""Curves of a panel, of rounds at even distances."""
_COLUMNS = 2
_MAX_RATIO = 10.0
"""Ratio of two ranges up to which they share an axis."""
_EXPECTED, _REALISED, _REWARD = "expected", "realised", "reward"
_COLORS = "cividis_r"
_LINE_COLORS = {_EXPECTED: style.BLUE, _REALISED: style.VERMILLION}

Draw = Callable[[Axes], None]


@style.house_style()
def diagnostics(entries: pd.DataFrame) -> Figure:
    """Draw the numbers of a selector, not empty: round, name, step and value of each."""
    numbers, curves = split(entries)
    colored, plain = _panels(numbers, curves)
    num_left_out = max(0, len(colored) + len(plain) - MAX_PANELS)
    colored, plain = colored[:MAX_PANELS], plain[: max(0, MAX_PANELS - len(colored))]
    title = "Numbers that the selector told about its rounds"
    if num_left_out:
        title += f" ({num_left_out} more are not shown)"
    draws = [*colored, *plain]
    num_columns = min(_COLUMNS, len(draws))
    num_rows = math.ceil(len(draws) / num_columns)
    figure = style.new_figure(style.WIDTH_IN, 0.8 + 2.8 * num_rows, title=title)
    grid = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    for axes, draw in zip(grid, draws, strict=False):
        draw(axes)
    for axes in grid[len(draws) :]:
        axes.set_axis_off()
    if colored:
        figure.colorbar(
            ScalarMappable(_shades(numbers.index), _COLORS),
            ax=list(grid),
            label="round",
            fraction=0.04,
            ticks=MaxNLocator(integer=True),
        )
    return figure


def split(entries: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return numbers by round and name, and curves by name, each by round and step.

    A name is a curve if a round has two numbers of it. Rounds without a number have NaN.
    """
    is_curve = entries.groupby("name")["step"].transform("max") > 0
    first, last = int(entries["round"].min()), int(entries["round"].max())
    numbers = entries[~is_curve].pivot_table(index="round", columns="name", values="value")
    curves = {
        str(name): rows.pivot_table(index="round", columns="step", values="value")
        for name, rows in entries[is_curve].groupby("name")
    }
    return numbers.reindex(np.arange(first, last + 1)), curves


def rank_correlation(expected: FloatArray, realised: FloatArray) -> float | None:
    """Return Spearman's correlation of pairs; None for less than three, or if one is constant.

    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.3, 0.5, 0.4]))
    0.5
    """
    if len(expected) < 3 or np.ptp(expected) == 0.0 or np.ptp(realised) == 0.0:
        return None
    correlation = pd.Series(expected).rank().corr(pd.Series(realised).rank())
    return round(float(correlation), 12)


def _panels(
    numbers: pd.DataFrame, curves: dict[str, pd.DataFrame]
) -> tuple[list[Draw], list[Draw]]:
    """Return panels coloured by round, then those against rounds, in the order shown."""
    names = set(numbers.columns)
    shades = _shades(numbers.index)
    colored: list[Draw] = []
    plain: list[Draw] = []
    outcome = _REALISED if _REALISED in names else _REWARD
    pairs = numbers.reindex(columns=[_EXPECTED, outcome]).dropna()
    if len(pairs):
        colored.append(lambda axes: _against(axes, pairs, shades))
        if outcome == _REALISED and _share_an_axis(numbers):
            plain.append(lambda axes: _lines(axes, numbers[[_EXPECTED, _REALISED]]))
            names -= {_EXPECTED, _REALISED}
    colored += [
        partial(_curves, name=name, curve=curve, shades=shades) for name, curve in curves.items()
    ]
    first = (_EXPECTED, _REALISED, _REWARD)
    in_order = sorted(names, key=lambda name: (name not in first, name))
    plain += [partial(_lines, numbers=numbers[[name]]) for name in in_order]
    return colored, plain


def _share_an_axis(numbers: pd.DataFrame) -> bool:
    """Return whether both ranges, with 0, are of similar size."""
    sizes = [float(numbers[name].abs().max()) for name in (_EXPECTED, _REALISED)]
    return max(sizes) <= _MAX_RATIO * min(sizes)


def _against(axes: Axes, pairs: pd.DataFrame, shades: Normalize) -> None:
    """Draw the outcome against what was expected, a dot for each round with both."""
    _, outcome = pairs.columns
    axes.scatter(pairs[_EXPECTED], pairs[outcome], c=pairs.index, cmap=_COLORS, norm=shades, s=16)
    correlation = rank_correlation(pairs[_EXPECTED].to_numpy(), pairs[outcome].to_numpy())
    rank = "" if correlation is None else f", rank correlation {correlation:.2f}"
    axes.set(title=f"{outcome} against expected{rank}", xlabel=_EXPECTED, ylabel=str(outcome))


def _curves(axes: Axes, name: str, curve: pd.DataFrame, shades: Normalize) -> None:
    """Draw a line over steps for each round, or for some at even distances."""
    shown = curve.iloc[np.unique(np.linspace(0, len(curve) - 1, MAX_CURVES).astype(np.int64))]
    steps = shown.columns.to_numpy(dtype=np.float64)
    lines = [
        np.column_stack([steps, values])[np.isfinite(values)]
        for values in shown.to_numpy(dtype=np.float64)
    ]
    drawn = LineCollection(lines, cmap=_COLORS, norm=shades, linewidths=1.2)
    drawn.set_array(shown.index.to_numpy(dtype=np.float64))
    axes.add_collection(drawn)
    axes.autoscale_view()
    some = "" if len(shown) == len(curve) else f", {len(shown)} of {len(curve):,} rounds"
    axes.set(title=f"{name} by step{some}", xlabel="step", ylabel=name)
    style.in_whole_numbers(axes.xaxis)


def _lines(axes: Axes, numbers: pd.DataFrame) -> None:
    """Draw numbers against rounds; rounds without one are gaps."""
    for name in numbers.columns:
        color, values = _LINE_COLORS.get(name, style.GREEN), numbers[name]
        axes.plot(values.index, values, ".-", color=color, linewidth=1.0, label=str(name))
    names = " and ".join(map(str, numbers.columns))
    # The same rounds in all panels.
    axes.set(
        title=f"{names} by round",
        xlabel="round",
        xlim=(numbers.index[0] - 0.5, numbers.index[-1] + 0.5),
    )
    style.in_whole_numbers(axes.xaxis)
    if numbers.shape[1] > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.1)


def _shades(rounds: pd.Index[int]) -> Normalize:
    first, last = int(rounds.min()), int(rounds.max())
    return Normalize(first, max(last, first + 1))
