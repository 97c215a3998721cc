"""Contents of a figure: its lines, bars and words."""

import matplotlib.text
import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D


def line(axes: Axes, label: str) -> Line2D:
    """The line of one entry of the legend."""
    (match,) = [each for each in axes.get_lines() if each.get_label() == label]
    return match


def dots(axes: Axes) -> Line2D:
    """The only markers without an entry in the legend."""
    (match,) = [each for each in axes.get_lines() if each.get_marker() == "o"]
    return match


def x_of(drawn: Line2D) -> list[float]:
    return [float(x) for x in np.asarray(drawn.get_xdata())]


def y_of(drawn: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(drawn.get_ydata())]


def bars(axes: Axes, label: str) -> BarContainer:
    """The bars of one entry of the legend."""
    (match,) = [each for each in axes.containers if each.get_label() == label]
    assert isinstance(match, BarContainer)
    return match


def widths(axes: Axes, label: str) -> list[float]:
    return [bar.get_width() for bar in bars(axes, label)]


def begins(axes: Axes, label: str) -> list[float]:
    return [bar.get_x() for bar in bars(axes, label)]


def tick_labels(axes: Axes) -> list[str]:
    return [tick.get_text() for tick in axes.get_yticklabels()]


def words(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))
