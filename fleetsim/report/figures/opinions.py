"""Figures of the opinions of clients of the model, and of their beliefs.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection": the average accuracy on the clients' own data against time slots (Figs. 7 and 9), and
the beliefs of the best clients (Fig. 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import IntArray
from fleetsim.report.figures import style

NUM_CLIENTS = 5
"""Number of lines of beliefs, for the clients selected most, as in the paper."""


def averages(entries: pd.DataFrame) -> pd.Series[float]:
    """Return the mean opinion by the round of the evaluated model."""
    means: pd.Series[float] = entries.groupby("round")["opinion"].mean()
    return means


@style.house_style()
def opinions(entries: pd.DataFrame, rounds: pd.DataFrame, counts: IntArray) -> Figure:
    """Draw opinions of the model by round, and beliefs where clients have them.

    The entries (round, client, opinion, belief) are not empty; `counts` are times selected [N].
    """
    has_beliefs = bool(entries["belief"].notna().any())
    figure = style.new_figure(
        style.WIDTH_IN, 6.4 if has_beliefs else 4.2, title="Opinions of the clients of the model"
    )
    grid = figure.subplots(2 if has_beliefs else 1, 1, sharex=True, squeeze=False)[:, 0]
    _opinions(grid[0], entries, rounds)
    if has_beliefs:
        _beliefs(grid[1], entries, counts)
    grid[-1].set_xlabel("round")
    style.in_whole_numbers(grid[-1].xaxis)
    return figure


@style.house_style()
def side_by_side(entries: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw mean opinions of runs by round; a run without opinions still reserves its colour."""
    figure = style.new_figure(style.WIDTH_IN, 4.4, title="Mean opinion of the clients, by round")
    axes = figure.subplots()
    for (label, frame), looks in zip(entries.items(), style.series(len(entries)), strict=True):
        if len(frame):
            _line(axes, averages(frame), label, **looks)
    axes.set(xlabel="round", ylabel="mean accuracy on the clients' own data")
    style.in_whole_numbers(axes.xaxis)
    style.in_percent(axes, "y")
    style.legend_below(figure, axes)
    return figure


def _opinions(axes: Axes, entries: pd.DataFrame, rounds: pd.DataFrame) -> None:
    by_round = entries.groupby("round")["opinion"]
    means = averages(entries)
    low, high = by_round.quantile(0.1), by_round.quantile(0.9)
    style.band(axes, means.index, low, high, label="10th to 90th percentile")
    _line(axes, means, "mean opinion", color=style.BLUE)
    accuracy = rounds.set_index("round")["accuracy"].dropna()
    evaluated = accuracy[accuracy.index.isin(means.index)]
    _line(axes, evaluated, "on the server's test set", color=style.VERMILLION, linestyle="--")
    axes.set(title="accuracy on each client's own data", ylabel="accuracy")
    style.in_percent(axes, "y")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _beliefs(axes: Axes, entries: pd.DataFrame, counts: IntArray) -> None:
    wide = entries.pivot_table(index="round", columns="client", values="belief")
    often = [client for client in np.argsort(-counts, kind="stable") if client in wide.columns]
    for client, looks in zip(often[:NUM_CLIENTS], style.series(NUM_CLIENTS), strict=False):
        _line(axes, wide[client], f"#{client} ({counts[client]:,} times)", **looks)
    _line(axes, wide.mean(axis=1), "mean of all", **style.DASHED)
    axes.set(title="belief in their own worth of the clients selected most", ylabel="belief")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)


def _line(axes: Axes, values: pd.Series[float], label: str, **looks: Any) -> None:
    """Draw values by round; a line of one point would be invisible, so it has a marker."""
    marker = "o" if len(values) == 1 else None
    axes.plot(values.index, values, marker=marker, label=label, **looks)
