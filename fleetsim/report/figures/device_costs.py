"""Figures of time and energy by kind of device, and of wasted energy by cause."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import Outcome, Purpose
from fleetsim.record.measures.ledger import components_in, energy_of
from fleetsim.report.figures import style
from fleetsim.report.figures.device_groups import NO_KINDS, Kinds, with_few_devices
from fleetsim.report.quantities import Quantity, percent, text, unit_for

Parts = Mapping[str, tuple[str, str]]
"""Columns to stack: label and colour of each."""


@style.house_style()
def seconds_by_device(tasks: pd.DataFrame, kinds: Kinds = NO_KINDS) -> Figure:
    """Draw seconds of download, computation and upload by kind of device."""
    few = with_few_devices(tasks, kinds)
    return _by_device(few, style.PHASES, "s", "Time by kind of device", "time")


@style.house_style()
def joules_by_device(tasks: pd.DataFrame, kinds: Kinds = NO_KINDS) -> Figure:
    """Draw joules of every component by kind of device."""
    present = components_in(tasks).values()
    parts = {column: style.COMPONENTS[column] for column in present}
    few = with_few_devices(tasks, kinds)
    return _by_device(few, parts, "j", "Energy by kind of device", "energy")


def _by_device(
    named: pd.DataFrame, parts: Parts, quantity: Quantity, title: str, words: str
) -> Figure:
    """Draw the sum of all tasks, and the mean train task, both by kind of device."""
    columns = list(parts)
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
    left.set_title("sum of all tasks, with probes")
    stack(right, mean, parts, quantity, words)
    right.set_title("mean of the dispatched train tasks")
    style.legend_below(figure, left)
    return figure


@style.house_style()
def waste(tasks: pd.DataFrame, kinds: Kinds = NO_KINDS) -> Figure:
    """Draw joules of tasks that were not delivered: by cause, and by kind of device."""
    energy = tasks.assign(energy_j=energy_of(tasks))
    wasted = with_few_devices(energy[energy["outcome"] != Outcome.DELIVERED], kinds)
    spent_j, wasted_j = float(energy["energy_j"].sum()), float(wasted["energy_j"].sum())
    share = f" ({percent(wasted_j / spent_j)})" if spent_j else ""
    title = (
        f"Wasted energy: {text(wasted_j, 'j')} of {text(spent_j, 'j')}"
        f"{share}, in tasks that were not delivered"
    )
    table = wasted.pivot_table(
        index="device", columns="outcome", values="energy_j", aggfunc="sum", fill_value=0.0
    )
    causes = [outcome for outcome in style.OUTCOMES if outcome in table.columns]
    order = list(table.sum(axis=1).sort_values(kind="stable").index)
    figure = style.new_figure(style.WIDTH_IN, 1.9 + 0.34 * max(3, len(order)), title=title)
    if not wasted_j:
        style.say(figure.subplots(), "nothing was wasted" if len(tasks) else "no tasks")
        return figure
    parts = {cause: (cause, style.OUTCOMES[cause]) for cause in causes}
    if len(causes) == 1:  # a panel by cause would be one bar
        stack(right := figure.subplots(), table.loc[order], parts, "j", "energy")
        right.set_title(f"by device, all in tasks that were {causes[0]}")
        return figure
    left, right = figure.subplots(1, 2)
    by_cause = wasted.groupby("outcome")["energy_j"].sum().loc[causes[::-1]]
    factor, unit = unit_for(float(by_cause.max()), "j")
    colors = [style.OUTCOMES[cause] for cause in by_cause.index]
    bars = left.barh(by_cause.index, by_cause / factor, color=colors, height=0.65)
    left.bar_label(bars, [percent(joules / wasted_j) for joules in by_cause], padding=4)
    style.rows_from_top(left, len(causes), room_for=len(order))
    left.margins(x=0.18)
    left.set(title="by cause, with share of the waste", xlabel=f"energy ({unit})")
    left.grid(visible=False, axis="y")
    stack(right, table.loc[order], parts, "j", "energy")
    right.set_title("by device, causes in the colours of the left panel")
    return figure


def stack(axes: Axes, table: pd.DataFrame, parts: Parts, quantity: Quantity, words: str) -> None:
    """Draw stacked horizontal bars, one per row of the table, the first at the bottom."""
    factor, unit = unit_for(float(table.sum(axis=1).max()), quantity)
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
