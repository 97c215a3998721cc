"""Figure of the regret of runs against the best fixed clients."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fleetsim.contracts import FloatArray
from fleetsim.report.figures import style


@style.house_style()
def regret(
    curves: Mapping[str, FloatArray], labels: Sequence[str], *, best: str, slot_rounds: int
) -> Figure:
    """Draw Reg(t) of runs [T] against slots; `labels` has all runs, so each keeps its colour."""
    figure = style.new_figure(style.WIDTH_IN, 4.4, title=f"Regret against {best}")
    axes = figure.subplots()
    axes.axhline(0.0, color=style.INK, linewidth=1.0, linestyle="--")
    for label, (color, dash) in zip(labels, style.series(len(labels)), strict=True):
        if label in curves:
            lost = np.concatenate([[0.0], curves[label]])
            axes.plot(np.arange(lost.size), lost, color=color, linestyle=dash, label=label)
    slot = "round" if slot_rounds == 1 else f"slot of {slot_rounds} rounds"
    axes.set(xlabel=slot, ylabel="regret (sum of accuracy differences)")
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.legend_below(figure, axes)
    return figure
