"""The figures of a run, each a pure function of its tables: what was reached, and what it cost.

Tables are pandas frames with the columns of docs/outputs.md; docs/reports.md says how to read each
figure. Who was selected is in `selection`, a round in detail in `gantt`, the look in `look`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray, Outcome, Purpose
from fleetsim.record.ledger import components_in
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.quantities import Quantity

Against = Literal["time", "energy", "rounds"]
Parts = Mapping[str, tuple[str, str]]
"""Columns to stack: what each is called, its colour."""

MAX_DEVICES = 24
"""More kinds of devices than this are drawn as one, so that rows stay readable."""

_AGAINST: dict[Against, tuple[str, Quantity | None, str]] = {
    "time": ("finished_at_s", "s", "virtual time"),
    "energy": ("energy_total_j", "j", "energy of the whole fleet"),
    "rounds": ("round", None, "rounds"),
}


@style.house_style()
def accuracy(
    rounds: Mapping[str, pd.DataFrame],
    *,
    against: Sequence[Against],
    targets: Sequence[float] = (),
) -> Figure:
    """Test accuracy of runs against virtual time, energy or rounds, a panel each, two in a row.

    A model counts from the end of its round until the next one is evaluated: lines are steps, and
    never rise before a target was reached.

    Args:
        rounds: rounds table of each run by its label.
        against: what the panels' horizontal axes show.
        targets: accuracies (fractions) to mark, with a dot where a run first reached each.
    """
    words = f" against {_AGAINST[against[0]][2]}" if len(against) == 1 else ""
    num_columns = min(2, len(against))
    num_rows = math.ceil(len(against) / num_columns)
    height_in = 4.6 if num_rows == 1 else 0.8 + 3.5 * num_rows
    figure = style.new_figure(style.WIDTH_IN, height_in, title=f"Test accuracy{words}")
    cells = figure.subplots(num_rows, num_columns, sharey=True, squeeze=False).ravel()
    panels, free = cells[: len(against)], cells[len(against) :]
    for axes, what in zip(panels, against, strict=True):
        _accuracy_panel(axes, rounds, what, targets)
        if len(against) > 1:
            axes.set_title(f"against {_AGAINST[what][2]}")
    for axes in cells[::num_columns]:
        axes.set_ylabel("test accuracy")
    style.in_percent(panels[0], "y")
    for axes in free:
        axes.set_axis_off()
    if len(rounds) > 1 and len(free):
        handles, labels = panels[0].get_legend_handles_labels()
        free[0].legend(handles, labels, loc="center left", fontsize=11)
    elif len(rounds) > 1:
        style.legend_below(figure, panels[0])
    return figure


def _accuracy_panel(
    axes: Axes, rounds: Mapping[str, pd.DataFrame], what: Against, targets: Sequence[float]
) -> None:
    column, quantity, words = _AGAINST[what]
    evaluated = {label: frame[frame["accuracy"].notna()] for label, frame in rounds.items()}
    largest = max(
        (float(frame[column].max()) for frame in evaluated.values() if len(frame)), default=0.0
    )
    factor, unit = quantities.unit_for(largest, quantity) if quantity else (1.0, "")
    axes.set_xlabel(f"{words} ({unit})" if unit else "round")
    for target in targets:
        axes.axhline(target, color=style.MIST, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    for (label, frame), (color, dash) in zip(
        evaluated.items(), style.series(len(rounds)), strict=True
    ):
        x = frame[column].to_numpy(dtype=np.float64) / factor
        y = frame["accuracy"].to_numpy(dtype=np.float64)
        shown = label if len(frame) else f"{label} (no accuracy)"
        # One evaluation alone is a step of no length.
        marker = "o" if len(frame) == 1 else None
        axes.step(x, y, where="post", color=color, linestyle=dash, label=shown, marker=marker)
        reached = [np.flatnonzero(y >= target) for target in targets]
        first = [int(indices[0]) for indices in reached if indices.size]
        axes.plot(x[first], y[first], "o", color=color, markersize=4.5)
    if not any(map(len, evaluated.values())):
        style.say(axes, "no accuracy: nothing was evaluated")
    else:
        axes.set_xlim(left=0.0)


@style.house_style()
def seconds_by_device(tasks: pd.DataFrame) -> Figure:
    """Where time went: seconds of downloading, computing and uploading by kind of device."""
    return _by_device(tasks, style.PHASES, "s", "Where the devices' time went", "time")


@style.house_style()
def joules_by_device(tasks: pd.DataFrame) -> Figure:
    """Where energy went: joules of every component by kind of device."""
    present = components_in(tasks).values()
    parts = {column: style.COMPONENTS[column] for column in present}
    return _by_device(tasks, parts, "j", "Where the devices' energy went", "energy")


def _by_device(
    tasks: pd.DataFrame, parts: Parts, quantity: Quantity, title: str, words: str
) -> Figure:
    """All tasks added up, and a train task on average, both by kind of device."""
    columns = list(parts)
    named = with_few_devices(tasks)
    total = named.groupby("device")[columns].sum()
    order = list(total.sum(axis=1).sort_values(kind="stable").index)
    train = named[named["purpose"] == Purpose.TRAIN]
    mean = train.groupby("device")[columns].mean().reindex(order).fillna(0.0)
    figure = style.new_figure(style.WIDTH_IN, 1.9 + 0.34 * max(2, len(order)), title=title)
    left, right = figure.subplots(1, 2, sharey=True)
    if not order:
        for axes in (left, right):
            style.say(axes, "no tasks")
        return figure
    stack(left, total.loc[order], parts, quantity, words)
    left.set_title("all tasks together, probes too")
    stack(right, mean, parts, quantity, words)
    right.set_title("mean of the train tasks sent out")
    style.legend_below(figure, left)
    return figure


@style.house_style()
def waste(tasks: pd.DataFrame) -> Figure:
    """Joules of tasks that were not delivered: by cause, and by kind of device."""
    energy = tasks.assign(energy_j=energy_of(tasks))
    wasted = with_few_devices(energy[energy["outcome"] != Outcome.DELIVERED])
    spent_j, wasted_j = float(energy["energy_j"].sum()), float(wasted["energy_j"].sum())
    share = f" ({quantities.percent(wasted_j / spent_j)})" if spent_j else ""
    title = (
        f"Wasted: {quantities.text(wasted_j, 'j')} of {quantities.text(spent_j, 'j')}{share}"
        " went into tasks that were not delivered"
    )
    table = wasted.pivot_table(
        index="device", columns="outcome", values="energy_j", aggfunc="sum", fill_value=0.0
    )
    causes = [outcome for outcome in style.OUTCOMES if outcome in table.columns]
    order = list(table.sum(axis=1).sort_values(kind="stable").index)
    figure = style.new_figure(style.WIDTH_IN, 1.9 + 0.34 * max(3, len(order)), title=title)
    left, right = figure.subplots(1, 2)
    if not wasted_j:
        for axes in (left, right):
            style.say(axes, "nothing was wasted" if len(tasks) else "no tasks")
        return figure
    by_cause = wasted.groupby("outcome")["energy_j"].sum().loc[causes[::-1]]
    factor, unit = quantities.unit_for(float(by_cause.max()), "j")
    bars = left.barh(
        causes[::-1],
        by_cause.to_numpy() / factor,
        color=[style.OUTCOMES[cause] for cause in causes[::-1]],
        height=0.65,
    )
    left.bar_label(bars, [quantities.percent(joules / wasted_j) for joules in by_cause], padding=4)
    style.rows_from_top(left, len(causes), room_for=len(order))
    left.margins(x=0.18)
    left.set(title="by cause, with its share of the waste", xlabel=f"energy ({unit})")
    left.grid(visible=False, axis="y")
    parts = {cause: (cause, style.OUTCOMES[cause]) for cause in causes}
    stack(right, table.loc[order], parts, "j", "energy")
    right.set_title("by device, causes coloured as on the left")
    return figure


def stack(axes: Axes, table: pd.DataFrame, parts: Parts, quantity: Quantity, words: str) -> None:
    """Stacked horizontal bars, one per row of the table, the first at the bottom."""
    factor, unit = quantities.unit_for(float(table.sum(axis=1).max()), quantity)
    left = np.zeros(len(table))
    rows = np.arange(len(table))
    for column, (label, color) in parts.items():
        width = table[column].to_numpy(dtype=np.float64) / factor
        axes.barh(rows, width, left=left, color=color, label=label, height=0.65)
        left += width
    axes.set_yticks(rows, list(map(str, table.index)))
    style.rows_from_top(axes, len(table))
    axes.set_xlabel(f"{words} ({unit})")
    axes.grid(visible=False, axis="y")


def energy_of(tasks: pd.DataFrame) -> FloatArray:
    """Joules of every task, all components [T]."""
    return tasks[list(components_in(tasks).values())].sum(axis=1).to_numpy(dtype=np.float64)


def with_few_devices(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows; the devices with fewest rows go by one name if there are too many."""
    names = frame["device"].value_counts().index
    if len(names) <= MAX_DEVICES:
        return frame
    kept = set(names[: MAX_DEVICES - 1])
    others = f"{len(names) - len(kept)} others"
    return frame.assign(device=frame["device"].where(frame["device"].isin(kept), others))
