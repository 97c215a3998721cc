"""Figure of battery levels over time, and of the clients that can take part."""

import pandas as pd
from matplotlib.figure import Figure

from fleetsim.report import quantities
from fleetsim.report.figures import style


@style.house_style()
def levels(rounds: pd.DataFrame) -> Figure:
    """Draw battery levels, and clients that can take part or are off, at the end of every round."""
    figure = style.new_figure(style.WIDTH_IN, 5.4, title="Batteries of the fleet over time")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    factor, unit = quantities.unit_for(float(rounds["finished_at_s"].max()), "s")
    at = rounds["finished_at_s"] / factor
    low, median, high = (rounds[f"battery_{which}_fraction"] for which in ("low", "median", "high"))
    style.band(upper, at, low, high, label="10th to 90th percentile")
    upper.plot(at, median, color=style.BLUE, label="median")
    upper.set(ylim=(0.0, 1.02), ylabel="battery level")
    style.in_percent(upper, "y")
    lower.plot(at, rounds["num_eligible"], color=style.GREEN, label="eligible and idle")
    lower.plot(at, rounds["num_off"], color=style.VERMILLION, label="off (empty)")
    lower.set(xlabel=f"virtual time ({unit})", ylabel="clients")
    lower.set_ylim(bottom=0.0)
    style.legend_below(figure, upper, lower)
    return figure
