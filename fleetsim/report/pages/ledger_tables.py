"""Tables of the energy ledger, of one run and of runs side by side, and of its costs."""

from collections.abc import Mapping

import pandas as pd

from fleetsim.record.measures.ledger import COMPONENTS, ENERGY_OUTCOMES, energy_by
from fleetsim.record.prices import AMOUNTS, Bill, Prices, total_of
from fleetsim.report.figures.ledger import COMPONENT_NAMES, PURPOSES, present
from fleetsim.report.markup import Table
from fleetsim.report.quantities import NOTHING, count, digits, percent, text
from fleetsim.units import J_PER_KWH, S_PER_HOUR


def table(entries: pd.DataFrame) -> Table:
    """Return joules and shares of components, and of several purposes, by energy outcome."""
    outcomes = present(entries, "energy_outcome", ENERGY_OUTCOMES)
    total_j = float(entries["energy_j"].sum())

    def row(name: str, part: pd.DataFrame) -> tuple[str, ...]:
        by_outcome = part.groupby("energy_outcome")["energy_j"].sum()
        part_j = float(part["energy_j"].sum())
        cells = [text(by_outcome.get(outcome), "j") for outcome in outcomes]
        return (name, *cells, text(part_j, "j"), _share(part_j, total_j))

    components = present(entries, "component", COMPONENTS)
    purposes = present(entries, "purpose", PURPOSES)
    rows = [
        row(COMPONENT_NAMES[name], entries[entries["component"] == name]) for name in components
    ]
    if len(purposes) > 1:
        rows += [row(PURPOSES[name], entries[entries["purpose"] == name]) for name in purposes]
    rows.append(row("all", entries))
    by_outcome = entries.groupby("energy_outcome")["energy_j"].sum()
    shares = [_share(float(by_outcome[outcome]), total_j) for outcome in outcomes]
    rows.append(("share of all", *shares, _share(total_j, total_j), ""))
    return Table(("joules of", *outcomes, "all", "share of all"), rows)


def frame(ledgers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return ledgers as one frame: label, purpose, energy_outcome, component, energy_j."""
    keys = ("purpose", "energy_outcome", "component")
    parts = [
        energy_by(entries, *keys).reset_index().assign(label=label)
        for label, entries in ledgers.items()
        if len(entries)
    ]
    columns = ["label", *keys, "energy_j"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def bill_table(bill: Bill) -> Table:
    """Return costs by device, in total, and of energy that was not used."""
    amounts, devices = bill.prices.amounts, bill.by_device
    parts = {str(device): devices.loc[[device]] for device in devices.index}
    parts |= {"all": devices, "of it not used": bill.not_used}
    rows = [_bill_row(name, costs, amounts) for name, costs in parts.items()]
    columns = ("device", "clients", "hours at work", "energy (kWh)")
    return Table((*columns, *(AMOUNTS[amount] for amount in amounts)), rows)


def sources_table(prices: Prices) -> Table:
    """Return every price with its source."""
    listed = {
        "electricity (g CO2e/kWh)": prices.grid_gram_per_kwh,
        "electricity (USD/kWh)": prices.usd_per_kwh,
        **{f"{device} (USD/h)": price for device, price in prices.usd_per_hour.items()},
    }
    rows = [
        (name, f"{price.value:g}", price.source + (" (inferred)" if price.inferred else ""))
        for name, price in listed.items()
        if price is not None
    ]
    return Table(("price", "value", "source"), rows, is_text=True)


def runs_table(ledgers: Mapping[str, pd.DataFrame], key: str, names: Mapping[str, str]) -> Table:
    """Return a row per run and a column per named value of a key of the ledger, in joules."""
    sums = {label: joules.groupby(key)["energy_j"].sum() for label, joules in ledgers.items()}
    table = pd.DataFrame(sums).reindex(list(names)).dropna(how="all").rename(index=names).T
    table["all"] = [float(joules.sum()) for joules in sums.values()]
    shown = table.map(digits)
    columns = (f"{name} (J)" for name in shown.columns)
    return Table(("run", *columns), list(shown.itertuples(name=None)))


def _share(part_j: float, total_j: float) -> str:
    return percent(part_j / total_j) if total_j else NOTHING


def _bill_row(name: str, costs: pd.DataFrame, amounts: list[str]) -> tuple[str, ...]:
    return (
        name,
        count(total_of(costs, "num_clients")),
        digits(float(costs["busy_s"].sum()) / S_PER_HOUR),
        digits(float(costs["energy_j"].sum()) / J_PER_KWH),
        *(digits(total_of(costs, amount)) for amount in amounts),
    )
