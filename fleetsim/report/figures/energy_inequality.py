"""Inequality of energy among the clients of a run.

The Lorenz curve (Lorenz, "Methods of measuring the concentration of wealth", 1905) shows what share
of all joules the share of clients with the lowest energy spent. Gini's index is twice the area
between it and the diagonal of equal shares: 0 if all spent the same, near 1 if one spent all.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray
from fleetsim.record.measures.ledger import ENERGY_OUTCOMES
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.figures.ledger import grid, present, stack_outcomes

MAX_CLIENTS = 12
"""Number of bars, for the clients that spent most."""
_MAX_POINTS = 201


def lorenz(energy_j: FloatArray) -> FloatArray:
    """Return the shares of all joules of the k clients that spent least, k = 0 ... n [n + 1].

    >>> lorenz(np.array([3.0, 0.0, 1.0])).tolist()
    [0.0, 0.0, 0.25, 1.0]
    """
    summed_j = np.concatenate([[0.0], np.cumsum(np.sort(energy_j))])
    return np.asarray(summed_j / summed_j[-1], dtype=np.float64)


def gini(energy_j: FloatArray) -> float:
    """Return Gini's index of joules over clients [n]: 1 - (area under the Lorenz curve) * 2.

    >>> gini(np.array([2.0, 2.0])), gini(np.array([0.0, 0.0, 0.0, 1.0]))
    (0.0, 0.75)
    """
    shares = lorenz(energy_j)
    return float(1.0 - (shares[1:] + shares[:-1]).sum() / len(energy_j))


@style.house_style()
def energy_by_client(
    entries: pd.DataFrame, clients: pd.DataFrame, *, is_whole_fleet: bool = True
) -> Figure:
    """Draw the Lorenz curve of joules, and the clients that spent most by energy outcome."""
    spent_j = entries.groupby("client")["energy_j"].sum()
    energy_j = spent_j.reindex(clients["client"], fill_value=0.0)
    total_j = float(energy_j.sum())
    if not total_j:
        return style.empty_figure("Energy by client", "no energy was spent")
    size = len(energy_j)
    top = energy_j.sort_values(ascending=False, kind="stable").index[:MAX_CLIENTS]
    num_most = max(1, round(size / 10))
    most_j = float(np.sort(energy_j.to_numpy())[-num_most:].sum())
    who = "clients" if is_whole_fleet else "clients with a task"
    title = (
        f"Energy by client: {num_most:,} of {size:,} {who} spent"
        f" {quantities.percent(most_j / total_j)} of {quantities.text(total_j, 'j')}"
    )
    figure = style.new_figure(style.WIDTH_IN, 4.4, title=title)
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    _curve(left, energy_j.to_numpy(dtype=np.float64), who)
    of_top = entries[entries["client"].isin(top)]
    shown = grid(
        of_top,
        ("client", list(top[::-1])),
        ("energy_outcome", present(of_top, "energy_outcome", ENERGY_OUTCOMES)),
    )
    shown = shown[shown.sum(axis=1) > 0.0]
    devices = clients.set_index("client")["device"]
    shown.index = pd.Index([f"{devices[client]}  #{client}" for client in shown.index])
    stack_outcomes(right, shown)
    right.set_title("clients that spent most, by energy outcome")
    style.legend_below(figure, right)
    return figure


def _curve(axes: Axes, energy_j: FloatArray, who: str) -> None:
    shares = lorenz(energy_j)
    size = len(energy_j)
    points = np.unique(np.linspace(0, size, min(size + 1, _MAX_POINTS)).round().astype(np.int64))
    axes.plot(points / size, shares[points], color=style.BLUE)
    axes.plot([0.0, 1.0], [0.0, 1.0], **style.DASHED)
    axes.text(
        0.5, 0.53, "equal shares", rotation=45, rotation_mode="anchor", ha="center", va="bottom"
    )
    axes.fill_between(points / size, shares[points], points / size, color=style.BLUE, alpha=0.12)
    axes.set(
        xlim=(0.0, 1.0),
        ylim=(0.0, 1.0),
        aspect="equal",
        title=f"Lorenz curve; Gini index {gini(energy_j):.2f}",
        xlabel=f"share of {who}, lowest energy first",
        ylabel="share of all joules",
    )
    style.in_percent(axes, "x")
    style.in_percent(axes, "y")
