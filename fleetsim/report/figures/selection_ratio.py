"""Figure of the selected share of the fleet by round, and of its kinds of devices.

The device-selection ratio is the number of selected clients divided by the size of the fleet (Ning
et al., "FedGCS", IJCAI 2024, Fig. 6). The lower panel shows their kinds of devices, and so a
preference for fast ones.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.figures.device_groups import MAX_HUES, NO_KINDS, Kinds, grouped

_MAX_WINDOWS = 120


@style.house_style()
def ratios(
    ratio: FloatArray,
    devices: pd.DataFrame,
    fleet: Mapping[str, float] | None = None,
    kinds: Kinds = NO_KINDS,
) -> Figure:
    """Draw the selection ratio of every round [R], and its shares by kind of device.

    `devices` has the share of each device (columns) in the rounds with a selected client (rows),
    and `fleet` that in the fleet, if it is known.
    """
    shown, fleet = _with_few_devices(devices, fleet, kinds)
    has_kinds = shown.shape[1] > 1
    has_ratio = not has_kinds or bool(np.ptp(ratio))  # a flat line says no more than the title
    share = quantities.percent(float(ratio.mean()))
    when = "on average" if has_ratio else "in every round"
    title = f"Selected share of the fleet: {share} {when}"
    heights = [2] * has_ratio + [3] * has_kinds
    figure = style.new_figure(style.WIDTH_IN, 1.2 + 0.96 * sum(heights), title=title)
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)
    edges = windows(ratio.size)
    if has_kinds:
        every = shown.reindex(np.arange(1, ratio.size + 1), fill_value=0.0)
        _kinds(panels[-1, 0], every, edges, fleet)
        style.legend_below(figure, panels[-1, 0])
    if has_ratio:
        _ratio(panels[0, 0], ratio, edges)
    panels[-1, 0].set(xlabel="round", xlim=(0.5, edges[-1] + 0.5))
    style.in_whole_numbers(panels[-1, 0].xaxis)
    return figure


def windows(num_rounds: int) -> IntArray:
    """Return where windows of rounds begin, from 0, and where the last ends; at most 120 windows.

    All have equal width, but the last may be narrower.

    >>> windows(3).tolist(), windows(241).tolist()[-3:]
    ([0, 1, 2, 3], [237, 240, 241])
    """
    width = -(-num_rounds // _MAX_WINDOWS)
    return np.append(np.arange(0, num_rounds, width), num_rounds)


def _with_few_devices(
    devices: pd.DataFrame, fleet: Mapping[str, float] | None, kinds: Kinds
) -> tuple[pd.DataFrame, Mapping[str, float] | None]:
    """Return both with at most seven devices, by falling share."""
    order = devices.mean().sort_values(ascending=False, kind="stable").index
    shown = grouped(list(order), kinds, MAX_HUES)
    few = devices[order].T.groupby(list(shown.values()), sort=False).sum().T
    if fleet is None:
        return few, None
    names = [shown.get(device, device) for device in fleet]
    shares = pd.Series(fleet).groupby(names).sum()
    return few, {str(name): float(share) for name, share in shares.items()}


def _ratio(axes: Axes, ratio: FloatArray, edges: IntArray) -> None:
    width = np.diff(edges)
    means = np.add.reduceat(ratio, edges[:-1]) / width
    if width.max() > 1:
        low = np.minimum.reduceat(ratio, edges[:-1])
        high = np.maximum.reduceat(ratio, edges[:-1])
        low, high = np.append(low, low[-1]), np.append(high, high[-1])
        style.band(axes, edges + 0.5, low, high, step="post")
    axes.stairs(means, edges + 0.5, baseline=None, color=style.BLUE, linewidth=1.6)
    axes.set(
        title="selected share of the fleet"
        + ("; means of neighbouring rounds, the area is their range" if width.max() > 1 else ""),
        ylabel="selection ratio",
        ylim=(0.0, 1.15 * float(ratio.max()) or 1.0),
    )
    style.in_percent(axes, "y")


def _kinds(
    axes: Axes, devices: pd.DataFrame, edges: IntArray, fleet: Mapping[str, float] | None
) -> None:
    width = np.diff(edges)[:, np.newaxis]
    means = np.add.reduceat(devices.to_numpy(dtype=np.float64), edges[:-1]) / width
    labels = [
        f"{device} ({quantities.percent(fleet[device])} of the fleet)"
        if fleet is not None and device in fleet
        else str(device)
        for device in devices.columns
    ]
    axes.stackplot(
        edges + 0.5,
        *np.vstack([means, means[-1:]]).T,
        step="post",
        colors=style.fill_colors(len(labels)),
        labels=labels,
        alpha=0.85,
        linewidth=0,
    )
    axes.set(title="selected clients by device", ylabel="share of the selected", ylim=(0.0, 1.0))
    style.in_percent(axes, "y")
    axes.grid(visible=False)
