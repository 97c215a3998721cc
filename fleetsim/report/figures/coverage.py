"""Figure of the clients ever selected, and of the number of selections; runs are overlaid.

It has the share of the fleet that was selected at least once, by round (GPFL, Fig. 4), a histogram
of the times selected (GPFL, Fig. 5), and a bar for each client of a small fleet (Tong et al.,
Fig. 6). `selection` shows devices.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.record.measures.selection_measures import rounds_to_share
from fleetsim.report.figures import style
from fleetsim.report.figures.selection import MAX_CLIENTS

SHARES = (0.9, 1.0)
"""Shares of the fleet that are marked."""
_FEWEST_BINS, _MOST_BINS = 8, 40
_LOG_FROM = 200
"""Ratio of the fullest to the emptiest class from which the axis is logarithmic."""


@style.house_style()
def coverage(shares: Mapping[str, FloatArray], counts: Mapping[str, IntArray]) -> Figure:
    """Draw the share of the fleet ever selected, and how often clients were selected.

    Both by the labels of runs: the share after every round [R], the times of each client [N].
    """
    is_one = len(counts) == 1
    (first, *_) = counts.values()
    has_clients = is_one and first.size <= MAX_CLIENTS
    figure = style.new_figure(
        style.WIDTH_IN, 6.6 if has_clients else 4.4, title="Spread of selections over the fleet"
    )
    rows: list[Any] = [["seen", "often"], ["client", "client"]]
    panels = figure.subplot_mosaic(rows if has_clients else rows[:1])
    if has_clients:
        _by_client(panels["client"], first)
    _seen(panels["seen"], shares)
    _often(panels["often"], counts)
    if not is_one:
        style.legend_below(figure, panels["seen"])
    return figure


def bin_edges(largest: int, num_clients: int) -> IntArray:
    """Return edges [low, high) of classes of counts 0 to `largest`, all of equal width.

    There are at most twice as many classes as the root of the number of clients, 8 to 40.

    >>> bin_edges(3, 12).tolist(), bin_edges(79, 10_000).tolist()[:3]
    ([0, 1, 2, 3, 4], [0, 2, 4])
    """
    most = min(max(_FEWEST_BINS, 2 * math.isqrt(num_clients)), _MOST_BINS)
    width = -(-(largest + 1) // most)
    return np.arange(0, largest + 1 + width, width, dtype=np.int64)


def _seen(axes: Axes, shares: Mapping[str, FloatArray]) -> None:
    style.mark_levels(axes, SHARES)
    for (label, seen), looks in zip(shares.items(), style.series(len(shares)), strict=True):
        rounds = np.arange(seen.size + 1)
        at = np.concatenate([[0.0], seen])
        axes.step(rounds, at, where="post", label=label, **looks)
        reached = [first for share in SHARES if (first := rounds_to_share(seen, share))]
        axes.plot(reached, at[reached], "o", color=looks["color"], markersize=4.5)
    axes.set(
        title="clients selected at least once",
        xlabel="round",
        ylabel="share of the fleet",
        ylim=(0.0, 1.04),
        xlim=(0.0, max(1, *(seen.size for seen in shares.values()))),
    )
    style.in_whole_numbers(axes.xaxis)
    style.in_percent(axes, "y")


def _often(axes: Axes, counts: Mapping[str, IntArray]) -> None:
    edges = bin_edges(
        max(int(times.max(initial=0)) for times in counts.values()),
        max(times.size for times in counts.values()),
    )
    is_one = len(counts) == 1
    sizes = [np.histogram(times, edges)[0] for times in counts.values()]
    opacity = 0.85 if is_one else 1.0
    for label, num, looks in zip(counts, sizes, style.series(len(counts)), strict=True):
        # A class of one count is centred on it.
        at = edges - 0.5
        axes.stairs(num, at, fill=is_one, linewidth=1.6, alpha=opacity, label=label, **looks)
    there = np.concatenate(sizes)
    there = there[there > 0]
    is_log = there.size > 0 and there.max() >= _LOG_FROM * there.min()
    if is_log:
        style.in_plain_logs(axes, "y")
        axes.set_ylim(bottom=0.5)
    else:
        style.in_whole_numbers(axes.yaxis)
    axes.set_xlim(edges[0] - 0.5, edges[-1] - 0.5)
    width = int(edges[1] - edges[0])
    in_steps = f", in steps of {width}" if width > 1 else ""
    axes.set(
        title="clients by times selected",
        xlabel=f"times selected{in_steps}",
        ylabel="clients (log scale)" if is_log else "clients",
    )
    style.in_whole_numbers(axes.xaxis)


def _by_client(axes: Axes, times: IntArray) -> None:
    axes.bar(np.arange(times.size), times, width=0.85, color=style.BLUE)
    axes.axhline(float(times.mean()), **style.DASHED)
    axes.set(
        title="times selected of each client; dashed: mean",
        xlabel="client",
        ylabel="times selected",
        xlim=(-0.8, times.size - 0.2),
    )
    axes.grid(visible=False, axis="x")
    style.in_whole_numbers(axes.xaxis, axes.yaxis)
