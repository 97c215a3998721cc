"""Figures of test accuracy against virtual time, energy and rounds."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.quantities import Quantity

Against = Literal["time", "energy", "rounds"]

_AGAINST: dict[Against, tuple[str, Quantity | None, str]] = {
    "time": ("finished_at_s", "s", "virtual time"),
    "energy": ("energy_total_j", "j", "energy of the whole fleet"),
    "rounds": ("round", None, "rounds"),
}


@style.house_style()
def accuracy(
    rounds: Mapping[str, pd.DataFrame], *, against: Sequence[Against], targets: Sequence[float] = ()
) -> Figure:
    """Draw test accuracy of runs against virtual time, energy or rounds, a panel each.

    A model counts from the end of its round until the next one is evaluated. So lines are steps,
    which never rise before a target was reached. A dot marks where a run (a rounds table by its
    label) first reached each of the targets (fractions).
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
    style.mark_levels(axes, targets)
    for (label, frame), looks in zip(evaluated.items(), style.series(len(rounds)), strict=True):
        x = frame[column].to_numpy(dtype=np.float64) / factor
        y = frame["accuracy"].to_numpy(dtype=np.float64)
        shown = label if len(frame) else f"{label} (no accuracy)"
        # A single evaluation is a step without length.
        marker = "o" if len(frame) == 1 else None
        axes.step(x, y, where="post", label=shown, marker=marker, **looks)
        reached = [np.flatnonzero(y >= target) for target in targets]
        first = [int(indices[0]) for indices in reached if indices.size]
        axes.plot(x[first], y[first], "o", color=looks["color"], markersize=4.5)
    if not any(map(len, evaluated.values())):
        style.say(axes, "no accuracy: nothing was evaluated")
    else:
        axes.set_xlim(left=0.0)
