"""Figure of times selected: by client, or as a distribution in a large fleet."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fleetsim.contracts import IntArray, Outcome, Purpose
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.figures.device_groups import MAX_HUES, NO_KINDS, Kinds, with_few_devices

MAX_CLIENTS = 150
"""A larger fleet is drawn as a distribution."""
_MAX_BINS = 7
_ROW_IN = 0.06
_LABEL_IN = 0.19


def counts_from_tasks(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return client, device, num_selected and num_delivered of the clients with a task."""
    is_train = tasks["purpose"] == Purpose.TRAIN
    is_delivered = is_train & (tasks["outcome"] == Outcome.DELIVERED)
    marked = tasks.assign(num_selected=is_train, num_delivered=is_delivered)
    result = {"device": "first", "num_selected": "sum", "num_delivered": "sum"}
    return marked.groupby("client").agg(result).reset_index()


@style.house_style()
def selections(
    clients: pd.DataFrame, *, kinds: Kinds = NO_KINDS, is_whole_fleet: bool = True
) -> Figure:
    """Draw how often clients were selected and how often they delivered, by device.

    `is_whole_fleet`: clients that were never sent a task are among `clients`, which has the columns
    of `counts_from_tasks`.
    """
    num_clients = len(clients)
    total = int(clients["num_selected"].sum())
    who = "clients" if is_whole_fleet else "clients with a task"
    title = f"Selections: {total:,} train tasks for {num_clients:,} {who}"
    if not num_clients:
        return style.empty_figure(title, "no client was selected")
    if num_clients <= MAX_CLIENTS:
        return _each_client(with_few_devices(clients, kinds, MAX_HUES), title)
    return _distribution(with_few_devices(clients, kinds), title)


def _each_client(clients: pd.DataFrame, title: str) -> Figure:
    """Draw a bar per client; groups of bars are devices, the most selected at the top."""
    means = _means(clients)
    fewest_rows = int(np.ceil(_LABEL_IN / _ROW_IN))
    extents = [
        max(fewest_rows, int((clients["device"] == device).sum()) + 1) for device in means.index
    ]
    figure = style.new_figure(style.WIDTH_IN, 1.6 + max(1.0, _ROW_IN * sum(extents)), title=title)
    axes = figure.subplots()
    top = 0
    centers = []
    colors = style.fill_colors(len(means))
    for (device, mean), extent, color in zip(means.items(), extents, colors, strict=True):
        group = clients[clients["device"] == device].sort_values(
            ["num_selected", "num_delivered", "client"], ascending=[False, False, True]
        )
        rows = top + (extent - len(group)) / 2 + np.arange(len(group)) + 0.5
        selected, delivered = group["num_selected"], group["num_delivered"]
        axes.barh(rows, selected, height=0.85, color=color, alpha=0.35)
        axes.barh(rows, delivered, height=0.85, color=color)
        axes.plot([mean, mean], [top + 0.3, top + extent - 0.3], color=style.INK, linewidth=1.4)
        centers.append(top + extent / 2)
        top += extent
    axes.set_yticks(centers, _with_sizes(clients, means.index))
    axes.set_ylim(top, 0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("times selected")
    style.in_whole_numbers(axes.xaxis)
    axes.grid(visible=False, axis="y")
    axes.barh(0, 0, color=style.GREY, label="delivered")
    axes.barh(0, 0, color=style.GREY, alpha=0.35, label="selected, not delivered")
    axes.plot([], [], color=style.INK, linewidth=1.4, label="mean of the device")
    _mark_fleet_mean(axes, clients)
    style.legend_below(figure, axes)
    return figure


def _distribution(clients: pd.DataFrame, title: str) -> Figure:
    """Draw, by device, shares of clients by times selected, and the mean."""
    means = _means(clients)[::-1]
    figure = style.new_figure(style.WIDTH_IN, 2.1 + 0.34 * max(2, len(means)), title=title)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    names = _with_sizes(clients, means.index)
    edges = bins(clients["num_selected"].to_numpy(dtype=np.int64))
    colors = matplotlib.colormaps["cividis_r"](np.linspace(0.05, 1.0, len(edges) - 1))
    begin = np.zeros(len(means))
    sizes = clients["device"].value_counts().loc[means.index].to_numpy(dtype=np.float64)
    for low, high, color in zip(edges[:-1], edges[1:], colors, strict=True):
        inside = clients[clients["num_selected"].between(low, high, inclusive="left")]
        num = inside["device"].value_counts().reindex(means.index, fill_value=0)
        width = num.to_numpy(dtype=np.float64) / sizes
        label = f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"
        left.barh(names, width, left=begin, color=to_hex(color), label=label, height=0.7)
        begin += width
    style.in_percent(left, "x")
    left.set(xlim=(0, 1), xlabel="share of the device's clients, by times selected")
    left.grid(visible=False)
    right.barh(names, means.to_numpy(), color=style.BLUE, height=0.7)
    right.set_xlabel("mean times selected per client")
    right.grid(visible=False, axis="y")
    style.legend_below(figure, left)
    _mark_fleet_mean(right, clients)
    right.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1)
    return figure


def bins(counts: IntArray) -> list[int]:
    """Return edges [low, high) of at most seven bins of counts; the first bin is 0, never.

    Each bin has at least one count, and then more until it holds its share of the other clients.

    >>> bins(np.array([0, 0, 1, 3, 2]))
    [0, 1, 2, 3, 4]
    >>> bins(np.array([0, 1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 9]))
    [0, 1, 2, 3, 5, 7, 8, 10]
    """
    largest = int(counts.max(initial=0))
    if largest < _MAX_BINS:
        return list(range(largest + 2))
    ordered = np.sort(counts[counts > 0])
    edges = [0, 1]
    while len(edges) < _MAX_BINS and edges[-1] <= largest:
        taken = int(np.searchsorted(ordered, edges[-1]))
        share = math.ceil((len(ordered) - taken) / (_MAX_BINS + 1 - len(edges)))
        edges.append(max(edges[-1], int(ordered[taken + share - 1])) + 1)
    return edges if edges[-1] > largest else [*edges, largest + 1]


def _means(clients: pd.DataFrame) -> pd.Series[float]:
    means = clients.groupby("device")["num_selected"].mean()
    return means.sort_values(ascending=False, kind="stable")


def _with_sizes(clients: pd.DataFrame, devices: pd.Index[str]) -> list[str]:
    sizes = clients["device"].value_counts()
    return [f"{device}: {sizes[device]:,}" for device in devices]


def _mark_fleet_mean(axes: Axes, clients: pd.DataFrame) -> None:
    mean = float(clients["num_selected"].mean())
    axes.axvline(mean, label=f"mean of all: {quantities.digits(mean)}", **style.DASHED)
