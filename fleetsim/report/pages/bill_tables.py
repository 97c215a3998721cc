"""Tables of costs in money and carbon."""

import pandas as pd

from fleetsim.record.prices import AMOUNTS, Bill, Prices, total_of
from fleetsim.report import quantities
from fleetsim.report.markup import Table
from fleetsim.report.quantities import NOTHING
from fleetsim.units import J_PER_KWH, S_PER_HOUR


def table(found: Bill) -> Table:
    """Return costs by device, in total, and of energy that was not used."""
    amounts = found.prices.amounts
    rows = [
        _row(str(device), found.by_device.loc[[device]], amounts)
        for device in found.by_device.index
    ]
    rows.append(_row("all", found.by_device, amounts))
    rows.append(_row("of it not used", found.not_used, amounts))
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


def _row(name: str, found: pd.DataFrame, amounts: list[str]) -> tuple[str, ...]:
    num_clients = total_of(found, "num_clients")
    return (
        name,
        NOTHING if num_clients is None else f"{num_clients:,.0f}",
        quantities.digits(float(found["busy_s"].sum()) / S_PER_HOUR),
        quantities.digits(float(found["energy_j"].sum()) / J_PER_KWH),
        *(quantities.digits(total_of(found, amount)) for amount in amounts),
    )
