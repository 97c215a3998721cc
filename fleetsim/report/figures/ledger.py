"""Figures of the energy ledger: joules by component, purpose and energy outcome.

The ledger itself is `Run.ledger`; docs/outputs.md defines it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import Outcome, Purpose
from fleetsim.record.measures.ledger import COMPONENTS, ENERGY_OUTCOMES, UNUSED, USED
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.figures.device_costs import Parts, stack

ENERGY_OUTCOME_COLORS: Mapping[str, str] = {
    outcome: style.OUTCOMES[Outcome.DELIVERED if outcome in (USED, UNUSED) else outcome]
    for outcome in ENERGY_OUTCOMES
}
"""Colours of energy outcomes: those of the task outcomes; `unused` is hatched too."""
PURPOSES: Mapping[str, str] = {
    Purpose.TRAIN: "train tasks",
    Purpose.PROBE: "probes",
    Purpose.EVALUATE: "evaluations",
}
COMPONENT_NAMES: Mapping[str, str] = {
    name: style.COMPONENTS[column][0] for name, column in COMPONENTS.items()
}


@style.house_style()
def by_component_and_outcome(entries: pd.DataFrame) -> Figure:
    """Draw joules of every component, stacked by energy outcome; a panel per purpose."""
    total_j = float(entries["energy_j"].sum())
    used_j = float(entries.loc[entries["energy_outcome"] == USED, "energy_j"].sum())
    used = quantities.percent(used_j / total_j if total_j else None)
    title = f"Energy ledger: {used} of {quantities.text(total_j, 'j')} was used"
    purposes = present(entries, "purpose", PURPOSES)
    if not purposes:
        return style.empty_figure("Energy ledger", "no energy was spent")
    components = present(entries, "component", COMPONENTS)[::-1]
    figure = style.new_figure(style.WIDTH_IN, 1.9 + 0.34 * max(3, len(components)), title=title)
    panels = figure.subplots(1, len(purposes), sharey=True, squeeze=False)[0]
    outcomes = present(entries, "energy_outcome", ENERGY_OUTCOMES)
    for axes, purpose in zip(panels, purposes, strict=True):
        of_purpose = entries[entries["purpose"] == purpose]
        joules = grid(of_purpose, ("component", components), ("energy_outcome", outcomes))
        stack_outcomes(axes, joules.rename(index=COMPONENT_NAMES))
        axes.set_title(PURPOSES[purpose])
    style.legend_below(figure, panels[0])
    return figure


@style.house_style()
def side_by_side(ledgers: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw the ledgers of runs by their labels: joules by component, and by energy outcome."""
    labels = list(ledgers)[::-1]
    entries = pd.concat(
        [entries.assign(run=label) for label, entries in ledgers.items()], ignore_index=True
    )
    if entries.empty:
        return style.empty_figure("Energy ledgers", "no energy was spent")
    height_in = 2.5 + 0.34 * max(2, len(labels))
    figure = style.new_figure(style.WIDTH_IN, height_in, title="Energy ledgers")
    left, right = figure.subplots(1, 2, sharey=True)
    components = present(entries, "component", COMPONENTS)
    parts: Parts = {name: style.COMPONENTS[COMPONENTS[name]] for name in components}
    stack(left, grid(entries, ("run", labels), ("component", components)), parts, "j", "energy")
    left.set_title("by component")
    outcomes = present(entries, "energy_outcome", ENERGY_OUTCOMES)
    stack_outcomes(right, grid(entries, ("run", labels), ("energy_outcome", outcomes)))
    right.set_title("by energy outcome")
    for axes in (left, right):
        # About half an inch below the axis, clear of its label, for any number of runs.
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -1.0 / height_in), ncols=3)
    return figure


def stack_outcomes(axes: Axes, joules: pd.DataFrame) -> None:
    """Draw a stacked bar per row of the frame, with energy outcomes as columns."""
    parts = {outcome: (outcome, ENERGY_OUTCOME_COLORS[outcome]) for outcome in joules.columns}
    stack(axes, joules, parts, "j", "energy")
    for bars in axes.containers:
        if bars.get_label() == UNUSED:
            for bar in bars:
                bar.set(hatch="////", edgecolor="white", linewidth=0.0)


def grid(
    entries: pd.DataFrame, rows: tuple[str, list[Any]], columns: tuple[str, list[str]]
) -> pd.DataFrame:
    """Return joules by two keys of the ledger, each with the given names in their order."""
    sums = entries.groupby([rows[0], columns[0]])["energy_j"].sum().unstack(fill_value=0)
    return sums.reindex(index=rows[1], columns=columns[1], fill_value=0.0)


def present(entries: pd.DataFrame, key: str, names: Iterable[str]) -> list[str]:
    """Return the names that a column of a ledger holds, in the order given."""
    held = set(entries[key])
    return [str(name) for name in names if name in held]
