"""Tables of the energy ledger, of one run and of runs side by side, and of its costs."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from fleetsim.record.measures.ledger import COMPONENTS, FATES, energy_by
from fleetsim.record.prices import AMOUNTS, Bill, Prices, total_of
from fleetsim.report import quantities
from fleetsim.report.figures.ledger import COMPONENT_NAMES, PURPOSES, present
from fleetsim.report.markup import Table
from fleetsim.report.quantities import NOTHING
from fleetsim.units import J_PER_KWH, S_PER_HOUR


def table(entries: pd.DataFrame) -> Table:
    """Return joules and shares of components, and of several purposes, by energy outcome."""
    fates = present(entries, "fate", FATES)
    total_j = float(entries["energy_j"].sum())

    def row(name: str, own: pd.DataFrame) -> tuple[str, ...]:
        by_fate = own.groupby("fate")["energy_j"].sum()
        own_j = float(own["energy_j"].sum())
        cells = [quantities.text(by_fate.get(fate), "j") for fate in fates]
        return (name, *cells, quantities.text(own_j, "j"), _share(own_j, total_j))

    components = present(entries, "component", COMPONENTS)
    purposes = present(entries, "purpose", PURPOSES)
    rows = [
        row(COMPONENT_NAMES[name], entries[entries["component"] == name]) for name in components
    ]
    if len(purposes) > 1:
        rows += [row(PURPOSES[name], entries[entries["purpose"] == name]) for name in purposes]
    rows.append(row("all", entries))
    by_fate = entries.groupby("fate")["energy_j"].sum()
    shares = [_share(float(by_fate[fate]), total_j) for fate in fates]
    rows.append(("share of all", *shares, _share(total_j, total_j), ""))
    return Table(("joules of", *fates, "all", "share of all"), rows)


def component_table(ledgers: Mapping[str, pd.DataFrame]) -> Table:
    """Return a row per run and a column per component, in joules."""
    return _runs_table(
        ledgers, "component", {name: f"{COMPONENT_NAMES[name]} (J)" for name in COMPONENTS}
    )


def fate_table(ledgers: Mapping[str, pd.DataFrame]) -> Table:
    """Return a row per run and a column per energy outcome, in joules."""
    return _runs_table(ledgers, "fate", {fate: f"{fate} (J)" for fate in FATES})


def frame(ledgers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the ledgers of runs as one frame: label, purpose, fate, component, energy_j."""
    keys = ("purpose", "fate", "component")
    parts = [
        energy_by(found, *keys).reset_index().assign(label=label)
        for label, found in ledgers.items()
        if len(found)
    ]
    columns = ["label", *keys, "energy_j"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def bill_table(found: Bill) -> Table:
    """Return costs by device, in total, and of energy that was not used."""
    amounts = found.prices.amounts
    rows = [
        _bill_row(str(device), found.by_device.loc[[device]], amounts)
        for device in found.by_device.index
    ]
    rows.append(_bill_row("all", found.by_device, amounts))
    rows.append(_bill_row("of it not used", found.not_used, amounts))
    columns = ("device", "clients", "hours at work", "energy (kWh)")
    return Table((*columns, *(AMOUNTS[amount] for amount in amounts)), rows)


def sources_table(prices: Prices) -> Table:
    """Return every price with its source."""
    figures = {
        "electricity (g CO2e/kWh)": prices.grid_gram_per_kwh,
        "electricity (USD/kWh)": prices.usd_per_kwh,
        **{f"{device} (USD/h)": figure for device, figure in prices.usd_per_hour.items()},
    }
    return Table(
        ("price", "value", "source"),
        [
            (name, f"{figure.value:g}", figure.source + (" (inferred)" if figure.inferred else ""))
            for name, figure in figures.items()
            if figure is not None
        ],
        is_text=True,
    )


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


def _share(part_j: float, total_j: float) -> str:
    return quantities.percent(part_j / total_j) if total_j else NOTHING


def _bill_row(name: str, found: pd.DataFrame, amounts: list[str]) -> tuple[str, ...]:
    num_clients = total_of(found, "num_clients")
    return (
        name,
        NOTHING if num_clients is None else f"{num_clients:,.0f}",
        quantities.digits(float(found["busy_s"].sum()) / S_PER_HOUR),
        quantities.digits(float(found["energy_j"].sum()) / J_PER_KWH),
        *(quantities.digits(total_of(found, amount)) for amount in amounts),
    )
