"""Costs of a run in money and carbon, by prices of joules and hours.

docs/reports.md defines the amounts, and says what is charged for which device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.fleet.devices.figures import Figure, Text
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.record.measures import ledger
from fleetsim.record.saved_run import Run
from fleetsim.schema import faults, strict_yaml
from fleetsim.settings import Settings
from fleetsim.units import J_PER_KWH, S_PER_HOUR

AMOUNTS: Mapping[str, str] = {
    "rent_busy_usd": "rent at work (USD)",
    "rent_run_usd": "rent, whole run (USD)",
    "electricity_usd": "electricity (USD)",
    "carbon_gram": "carbon (g CO2e)",
}


class PriceFigure(Figure):
    """A price or a carbon intensity."""

    value: Annotated[float, Field(ge=0.0, le=1e6)]


class Prices(Settings):
    """One file of prices; costs that it does not name are not computed."""

    title: Text
    grid_gram_per_kwh: PriceFigure | None = None
    """Carbon intensity of the electricity that charges or feeds the devices, CO2e."""
    usd_per_kwh: PriceFigure | None = None
    """Price of that electricity."""
    usd_per_hour: dict[Text, PriceFigure] = Field(default_factory=dict)
    """Rent of a device by the name of its profile."""

    @model_validator(mode="after")
    def _names_a_price(self) -> Prices:
        if not self.amounts:
            raise ValueError("names no price; give grid_gram_per_kwh, usd_per_kwh or usd_per_hour")
        return self

    @property
    def amounts(self) -> list[str]:
        """Those of `AMOUNTS` that these prices give."""
        rents = ["rent_busy_usd", "rent_run_usd"] if self.usd_per_hour else []
        electricity = ["electricity_usd"] if self.usd_per_kwh is not None else []
        carbon = ["carbon_gram"] if self.grid_gram_per_kwh is not None else []
        return [*rents, *electricity, *carbon]


@dataclass(frozen=True)
class Bill:
    """Costs of a run."""

    prices: Prices
    by_device: pd.DataFrame
    """A row per device: num_clients, busy_s, energy_j and the amounts that the prices give; 0
    where none is due, NaN where unknown: the number of clients of a run that is not done."""
    not_used: pd.DataFrame
    """The same for the tasks whose energy was not used; their part of the rent of the whole run is
    unknown."""

    def total(self, amount: str) -> float | None:
        """Return an amount of the whole run; None if it is unknown for any device."""
        return total_of(self.by_device, amount)


def load(name: str, *, named_by: str = "prices") -> Prices:
    """Read a file of prices by its bundled name or path, given by an option or key."""
    path = bundled.find("prices", name)
    if path is None or not paths.is_file(path):
        raise DataError(f"{named_by} {quoted(name)}: {bundled.not_found('prices', name)}")
    return faults.check(Prices, strict_yaml.read(path, DataError), DataError)


def bill(run: Run, prices: Prices) -> Bill:
    """Compute the costs of a run."""
    tasks = _with_spending(ledger.with_energy_outcomes(run.rounds, run.tasks))
    is_done = run.manifest.status == "done"
    num_clients = run.clients["device"].value_counts() if is_done else None
    virtual_s = run.virtual_s
    return Bill(
        prices,
        _weighed(tasks, prices, num_clients, virtual_s),
        _weighed(tasks[tasks["energy_outcome"] != ledger.USED], prices, None, virtual_s),
    )


def amounts_until(run: Run, prices: Prices, last_round: int) -> dict[str, float]:
    """Return what a complete run costs up to the end of a round, by amount, all devices."""
    rounds = run.rounds[run.rounds["round"] <= last_round]
    tasks = _with_spending(run.tasks[run.tasks["round"] <= last_round])
    num_clients = run.clients["device"].value_counts()
    virtual_s = float(rounds["finished_at_s"].iloc[-1])
    costs = _weighed(tasks, prices, num_clients, virtual_s)
    return {amount: float(costs[amount].sum()) for amount in prices.amounts}


def _with_spending(tasks: pd.DataFrame) -> pd.DataFrame:
    return tasks.assign(
        energy_j=ledger.energy_of(tasks), busy_s=tasks["finished_at_s"] - tasks["dispatched_at_s"]
    )


def _weighed(
    tasks: pd.DataFrame, prices: Prices, num_clients: pd.Series[int] | None, virtual_s: float
) -> pd.DataFrame:
    """Return sums and amounts by device; `num_clients` None: unknown."""
    result = tasks.groupby("device")[["busy_s", "energy_j"]].sum()
    if num_clients is not None:
        result = result.reindex(num_clients.index.union(result.index), fill_value=0.0)
    sizes = pd.Series(math.nan, result.index) if num_clients is None else num_clients
    result["num_clients"] = sizes.reindex(result.index)
    kwh = result["energy_j"] / J_PER_KWH
    rents = {device: figure.value for device, figure in prices.usd_per_hour.items()}
    is_rented = result.index.isin(list(rents))
    if rents:
        usd_per_s = pd.Series(rents, dtype=np.float64).reindex(result.index) / S_PER_HOUR
        run_usd = result["num_clients"] * virtual_s * usd_per_s
        result["rent_busy_usd"] = (result["busy_s"] * usd_per_s).where(is_rented, 0.0)
        result["rent_run_usd"] = run_usd.where(is_rented, 0.0)
    if prices.usd_per_kwh is not None:
        result["electricity_usd"] = (kwh * prices.usd_per_kwh.value).where(~is_rented, 0.0)
    if prices.grid_gram_per_kwh is not None:
        result["carbon_gram"] = kwh * prices.grid_gram_per_kwh.value
    return result


def total_of(costs: pd.DataFrame, column: str) -> float | None:
    """Return the sum of a column over devices; None if it is unknown for any."""
    total = float(costs[column].sum(skipna=False))
    return None if math.isnan(total) else total
