"""Gantt chart of the tasks of one round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import Outcome, Purpose
from fleetsim.report import quantities
from fleetsim.report.figures import style

MAX_ROWS = 40
_ROW_IN = 0.2
_MARKERS = "oXsvDPd<h*"
"""Markers of the outcomes, in the order of their colours."""
_MARKED: dict[str, Any] = {
    "markersize": 6,
    "markeredgecolor": style.INK,
    "markeredgewidth": 0.6,
    "linestyle": "",
    "clip_on": False,
}


def round_with_longest_waiting(rounds: pd.DataFrame) -> int | None:
    """Return the round with the longest waiting, the first of equals.

    If no round has two delivered tasks, it is the longest round; None without train tasks.
    """
    rounds = rounds[rounds["num_selected"] > 0]
    if rounds.empty:
        return None
    waiting = rounds["waiting_s"]
    if waiting.isna().all():
        waiting = rounds["finished_at_s"] - rounds["started_at_s"]
    return int(rounds["round"].iloc[int(waiting.fillna(-1.0).to_numpy().argmax())])


@style.house_style()
def stragglers(
    rounds: pd.DataFrame, tasks: pd.DataFrame, *, deadline_s: float | None = None
) -> Figure:
    """Draw the train tasks of the round with the longest waiting, the longest at the bottom.

    A deadline is in seconds after dispatch.
    """
    shown_round = round_with_longest_waiting(rounds)
    if shown_round is None:
        return style.empty_figure("No round with train tasks", "no train tasks")
    row = rounds[rounds["round"] == shown_round].iloc[0]
    of_round = tasks[(tasks["round"] == shown_round) & (tasks["purpose"] == Purpose.TRAIN)]
    if of_round.empty:
        return style.empty_figure(f"Round {shown_round}", "no train tasks")
    of_round = of_round.assign(duration_s=of_round["finished_at_s"] - of_round["dispatched_at_s"])
    of_round = of_round.sort_values(["duration_s", "client"], kind="stable")
    shown = of_round.tail(MAX_ROWS)
    figure = style.new_figure(
        style.WIDTH_IN, 1.9 + _ROW_IN * max(4, len(shown)), title=_title(row, of_round)
    )
    axes = figure.subplots()
    _draw(axes, shown, row, deadline_s)
    if len(shown) < len(of_round):
        axes.set_title(f"the {len(shown)} longest of {len(of_round)} tasks")
    style.legend_below(figure, axes)
    return figure


def _title(row: pd.Series[float], of_round: pd.DataFrame) -> str:
    num_delivered = int((of_round["outcome"] == Outcome.DELIVERED).sum())
    title = f"Round {int(row['round'])}: {num_delivered} of {len(of_round)} delivered"
    if not np.isnan(row["waiting_s"]):
        title += f", the last {quantities.text(row['waiting_s'], 's')} after the first"
    return title


def _draw(axes: Axes, shown: pd.DataFrame, row: pd.Series[float], deadline_s: float | None) -> None:
    began_s = float(shown["dispatched_at_s"].min())
    closed_s = float(row["finished_at_s"]) - began_s
    factor, unit = quantities.unit_for(max(closed_s, float(shown["duration_s"].max())), "s")
    lanes = np.arange(len(shown))
    begin = (shown["dispatched_at_s"].to_numpy(dtype=np.float64) - began_s) / factor
    phases = list(style.PHASES.items())
    if (shown["paused_s"] > 0.0).any():
        phases.insert(-1, ("paused_s", ("paused (total)", style.MIST)))
    for column, (label, color) in phases:
        width = shown[column].to_numpy(dtype=np.float64) / factor
        axes.barh(lanes, width, left=begin, color=color, label=label, height=0.7)
        begin = begin + width
    finished = (shown["finished_at_s"].to_numpy(dtype=np.float64) - began_s) / factor
    outcomes = shown["outcome"].to_numpy()
    is_delivered = outcomes == Outcome.DELIVERED
    axes.barh(
        lanes[is_delivered],
        closed_s / factor - finished[is_delivered],
        left=finished[is_delivered],
        color=style.PALE,
        height=0.24,
        label="done, waiting",
    )
    axes.axvline(closed_s / factor, color=style.INK, linewidth=1.2, label="round closed")
    if deadline_s is not None and deadline_s <= 1.5 * closed_s:
        style.mark_deadline(axes, deadline_s / factor)
    for (outcome, color), marker in zip(style.OUTCOMES.items(), _MARKERS, strict=True):
        ended = outcomes == outcome
        if ended.any():
            looks = {"marker": marker, "color": color, "label": outcome, **_MARKED}
            axes.plot(finished[ended], lanes[ended], **looks)
    names = shown["device"].astype(str) + "  #" + shown["client"].astype(str)
    axes.set_yticks(lanes, names.tolist(), fontsize=8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.03 * axes.get_xlim()[1])
    axes.set_xlabel(f"time since dispatch ({unit})")
    axes.grid(visible=False, axis="y")
