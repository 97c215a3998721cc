"""The energy ledger of a run for people: what its joules were spent on, and what came of them.

The ledger itself is `Run.ledger`; docs/outputs.md defines it, docs/reports.md says how to read
this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fleetsim.contracts import Outcome, Purpose
from fleetsim.record.ledger import COMPONENTS, FATES, UNUSED, USED, energy_by
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.figures.curves import Parts, stack
from fleetsim.report.markup import Table
from fleetsim.report.quantities import NOTHING

FATE_COLORS: Mapping[str, str] = {
    fate: style.OUTCOMES[Outcome.DELIVERED if fate in (USED, UNUSED) else fate] for fate in FATES
}
"""Colours of fates: those of the outcomes; what was delivered and not used is hatched too."""
PURPOSES: Mapping[str, str] = {
    Purpose.TRAIN: "train tasks",
    Purpose.PROBE: "probes",
    Purpose.EVALUATE: "evaluations",
}
"""What the purposes of tasks are called."""

_NAMES = {name: style.COMPONENTS[column][0] for name, column in COMPONENTS.items()}


def table(entries: pd.DataFrame) -> Table:
    """Component by fate, then purpose by fate if there are several purposes; with shares."""
    fates = _present(entries, "fate", FATES)
    total_j = float(entries["energy_j"].sum())

    def row(name: str, own: pd.DataFrame) -> tuple[str, ...]:
        by_fate = own.groupby("fate")["energy_j"].sum()
        own_j = float(own["energy_j"].sum())
        cells = [quantities.text(by_fate.get(fate), "j") for fate in fates]
        return (name, *cells, quantities.text(own_j, "j"), _share(own_j, total_j))

    components = _present(entries, "component", COMPONENTS)
    purposes = _present(entries, "purpose", PURPOSES)
    rows = [row(_NAMES[name], entries[entries["component"] == name]) for name in components]
    if len(purposes) > 1:
        rows += [row(PURPOSES[name], entries[entries["purpose"] == name]) for name in purposes]
    rows.append(row("all", entries))
    by_fate = entries.groupby("fate")["energy_j"].sum()
    shares = [_share(float(by_fate[fate]), total_j) for fate in fates]
    rows.append(("share of all", *shares, _share(total_j, total_j), ""))
    return Table(("joules of", *fates, "all", "share of all"), rows)


def used_fraction(entries: pd.DataFrame) -> float | None:
    """Share of the joules that something came of; None if none were spent."""
    total_j = float(entries["energy_j"].sum())
    used_j = float(entries.loc[entries["fate"] == USED, "energy_j"].sum())
    return used_j / total_j if total_j else None


@style.house_style()
def by_component_and_fate(entries: pd.DataFrame) -> Figure:
    """Joules of every component, stacked by what came of them; a panel per purpose."""
    total_j = float(entries["energy_j"].sum())
    title = (
        f"Energy ledger: something came of {quantities.percent(used_fraction(entries))} of"
        f" {quantities.text(total_j, 'j')}"
    )
    purposes = _present(entries, "purpose", PURPOSES)
    if not purposes:
        figure = style.new_figure(style.WIDTH_IN, 2.4, title="Energy ledger")
        style.say(figure.subplots(), "no energy was spent")
        return figure
    components = _present(entries, "component", COMPONENTS)[::-1]
    figure = style.new_figure(style.WIDTH_IN, 1.9 + 0.34 * max(3, len(components)), title=title)
    panels = figure.subplots(1, len(purposes), sharey=True, squeeze=False)[0]
    fates = _present(entries, "fate", FATES)
    for axes, purpose in zip(panels, purposes, strict=True):
        own = entries[entries["purpose"] == purpose]
        joules = _grid(own, ("component", components), ("fate", fates))
        stack_fates(axes, joules.rename(index=_NAMES))
        axes.set_title(PURPOSES[purpose])
    style.legend_below(figure, panels[0])
    return figure


@style.house_style()
def side_by_side(ledgers: Mapping[str, pd.DataFrame]) -> Figure:
    """The ledgers of runs: joules by component, and by what came of them.

    Args:
        ledgers: ledger of each run by its label.
    """
    labels = list(ledgers)[::-1]
    entries = pd.concat(
        [found.assign(run=label) for label, found in ledgers.items()], ignore_index=True
    )
    height_in = 2.5 + 0.34 * max(2, len(labels))
    figure = style.new_figure(style.WIDTH_IN, height_in, title="Energy ledgers")
    if entries.empty:
        style.say(figure.subplots(), "no energy was spent")
        return figure
    left, right = figure.subplots(1, 2, sharey=True)
    components = _present(entries, "component", COMPONENTS)
    parts: Parts = {name: style.COMPONENTS[COMPONENTS[name]] for name in components}
    stack(left, _grid(entries, ("run", labels), ("component", components)), parts, "j", "energy")
    left.set_title("by component")
    fates = _present(entries, "fate", FATES)
    stack_fates(right, _grid(entries, ("run", labels), ("fate", fates)))
    right.set_title("by what came of it")
    for axes in (left, right):
        # About half an inch below the axis, clear of its label, however many runs there are.
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -1.0 / height_in), ncols=3)
    return figure


def stack_fates(axes: Axes, joules: pd.DataFrame) -> None:
    """Stacked bars, a row of the frame each, its columns fates; `unused` is hatched."""
    parts = {fate: (fate, FATE_COLORS[fate]) for fate in joules.columns}
    stack(axes, joules, parts, "j", "energy")
    for bars in axes.containers:
        if bars.get_label() == UNUSED:
            for bar in bars:
                bar.set(hatch="////", edgecolor="white", linewidth=0.0)


def component_table(ledgers: Mapping[str, pd.DataFrame]) -> Table:
    """A row per run, a column per component, in joules."""
    return _runs_table(ledgers, "component", {name: f"{_NAMES[name]} (J)" for name in COMPONENTS})


def fate_table(ledgers: Mapping[str, pd.DataFrame]) -> Table:
    """A row per run, a column per fate, in joules."""
    return _runs_table(ledgers, "fate", {fate: f"{fate} (J)" for fate in FATES})


def frame(ledgers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The ledgers of runs as one tidy frame: label, purpose, fate, component, energy_j."""
    keys = ("purpose", "fate", "component")
    parts = [
        energy_by(found, *keys).reset_index().assign(label=label)
        for label, found in ledgers.items()
        if len(found)
    ]
    columns = ["label", *keys, "energy_j"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def _runs_table(ledgers: Mapping[str, pd.DataFrame], key: str, names: Mapping[str, str]) -> Table:
    sums = {label: found.groupby(key)["energy_j"].sum() for label, found in ledgers.items()}
    shown = [name for name in names if any(name in found for found in sums.values())]
    return Table(
        ("run", *(names[name] for name in shown), "all (J)"),
        [
            (
                label,
                *(quantities.digits(found.get(name, np.nan)) for name in shown),
                quantities.digits(float(found.sum())),
            )
            for label, found in sums.items()
        ],
    )


def _grid(
    entries: pd.DataFrame, rows: tuple[str, list[str]], columns: tuple[str, list[str]]
) -> pd.DataFrame:
    """Joules by two keys of the ledger, each with the names that are wanted, in that order."""
    sums = entries.groupby([rows[0], columns[0]])["energy_j"].sum().unstack(fill_value=0)
    return sums.reindex(index=rows[1], columns=columns[1], fill_value=0.0)


def _present(entries: pd.DataFrame, key: str, names: Iterable[str]) -> list[str]:
    found = set(entries[key])
    return [str(name) for name in names if name in found]


def _share(part_j: float, total_j: float) -> str:
    return quantities.percent(part_j / total_j) if total_j else NOTHING
