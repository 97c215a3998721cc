"""The energy ledger: joules of a run by client, purpose, energy outcome and component.

- Component: computing, receiving, transmitting, radio tail, idle while at work, idle while
  enlisted.
- Purpose: train, probe or evaluate.
- Energy outcome (column `energy_outcome`): of a task that was not delivered it is the task's
  outcome: late, offline, battery, link, ... A delivered task's energy is `used` or `unused`. It is
  used if the round of a train task made a new global model, if that of a probe dispatched train
  tasks, and always for an evaluation.

The ledger comes from the tasks. It must add up to the rounds table and to the meters of the
clients, which the engine keeps separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from fleetsim.contracts import FloatArray, Outcome, Purpose, TaskRow
from fleetsim.errors import DataError
from fleetsim.rounding import ROUNDING_SLACK

if TYPE_CHECKING:
    import pandas as pd

USED = "used"
UNUSED = "unused"
ENERGY_OUTCOMES: tuple[str, ...] = (
    USED,
    UNUSED,
    *(o.value for o in Outcome if o is not Outcome.DELIVERED),
)
"""Energy outcomes, in the order in which they are shown."""

COMPONENTS: Mapping[str, str] = MappingProxyType(
    {
        name.removeprefix("energy_").removesuffix("_j"): name
        for name in TaskRow._fields
        if name.startswith("energy_") and name.endswith("_j")
    }
)
"""Components, and their columns in the tables of tasks and of clients.

Idle while enlisted has a column only in runs that charge it."""

COLUMNS = ("client", "device", "purpose", "energy_outcome", "component", "energy_j")
KEYS = COLUMNS[:-1]
"""Keys by which a ledger can be summed."""

_RANKS: Mapping[str, Mapping[str, int]] = {
    key: {str(name): rank for rank, name in enumerate(names)}
    for key, names in (
        ("purpose", Purpose),
        ("energy_outcome", ENERGY_OUTCOMES),
        ("component", COMPONENTS),
    )
}
_HINT = "run the scenario again into a new folder"


def components_in(table: pd.DataFrame) -> dict[str, str]:
    """Return the components for which a table of tasks or clients has columns."""
    return {name: column for name, column in COMPONENTS.items() if column in table.columns}


def energy_of(tasks: pd.DataFrame) -> FloatArray:
    """Return the joules of every task, all components [T]."""
    return tasks[list(components_in(tasks).values())].sum(axis=1).to_numpy(dtype=np.float64)


def with_energy_outcomes(rounds: pd.DataFrame, tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the tasks of the recorded rounds, with a column `energy_outcome`."""
    of_round = rounds[["round", "aggregated", "num_selected"]]
    known = tasks.merge(of_round, on="round")
    purpose, outcome = known["purpose"], known["outcome"]
    is_used = (
        ((purpose == Purpose.TRAIN) & known["aggregated"])
        | ((purpose == Purpose.PROBE) & (known["num_selected"] > 0))
        | (purpose == Purpose.EVALUATE)
    )
    delivered = np.where(is_used, USED, UNUSED)
    energy_outcome = outcome.where(outcome != Outcome.DELIVERED, delivered)
    return known.assign(energy_outcome=energy_outcome).drop(columns=["aggregated", "num_selected"])


def ledger(rounds: pd.DataFrame, tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the ledger of the recorded rounds; tasks of a round that was cut off are left out.

    The frame has `COLUMNS`, a row for each combination with energy, ordered by client, purpose,
    energy_outcome and component.
    """
    known = with_energy_outcomes(rounds, tasks)
    keys = ["client", "device", "purpose", "energy_outcome"]
    spent = known.groupby(keys, as_index=False, sort=False)
    components = components_in(known)
    sums = spent[list(components.values())].sum()
    names = {column: name for name, column in components.items()}
    tidy = sums.rename(columns=names).melt(
        id_vars=keys,
        value_vars=list(components),
        var_name="component",
        value_name="energy_j",
    )
    tidy = tidy[tidy["energy_j"] != 0.0]
    ranks = [tidy[key].map(_RANKS[key]).to_numpy() for key in reversed(tuple(_RANKS))]
    order = np.lexsort((*ranks, tidy["client"].to_numpy()))
    return tidy.iloc[order].reset_index(drop=True)[list(COLUMNS)]


def energy_by(entries: pd.DataFrame, *keys: str) -> pd.Series[float]:
    """Return joules of a ledger summed by some of its `KEYS`, in their usual order."""
    if not keys or len(set(keys)) < len(keys) or not set(keys) <= set(KEYS):
        raise ValueError(f"keys must be one or more of {', '.join(KEYS)}, each once, got {keys}")
    sums: pd.Series[float] = entries.groupby(list(keys))["energy_j"].sum()
    return sums.sort_index(
        key=lambda level: level.map(_RANKS[str(level.name)]) if level.name in _RANKS else level
    )


def check_balance(
    entries: pd.DataFrame, rounds: pd.DataFrame, clients: pd.DataFrame | None, *, run: str
) -> None:
    """Check that a ledger agrees with the rounds and with the clients' meters, if there are any."""
    spent_j = float(entries["energy_j"].sum())
    total_j = float(rounds["energy_total_j"].iloc[-1]) if len(rounds) else 0.0
    if not np.isclose(spent_j, total_j, rtol=ROUNDING_SLACK, atol=ROUNDING_SLACK):
        raise DataError(
            f"{run}: joules do not add up: its tasks spent {spent_j!r} J, its rounds say"
            f" {total_j!r} J; {_HINT}"
        )
    if clients is None:
        return
    size = len(clients)
    if len(entries) and not 0 <= entries["client"].min() <= entries["client"].max() < size:
        raise DataError(
            f"{run}: has a task of client {int(entries['client'].max())}, but {size} clients;"
            f" {_HINT}"
        )
    for component, column in COMPONENTS.items():
        spent = entries[entries["component"] == component]
        sums_j = np.bincount(spent["client"], weights=spent["energy_j"], minlength=size)
        metered = column in clients.columns
        meters_j = clients[column].to_numpy(dtype=np.float64) if metered else np.zeros(size)
        wrong = np.flatnonzero(
            ~np.isclose(sums_j, meters_j, rtol=ROUNDING_SLACK, atol=ROUNDING_SLACK)
        )
        if wrong.size:
            client = int(wrong[0])
            raise DataError(
                f"{run}: joules do not add up: the tasks of client {client} spent"
                f" {float(sums_j[client])!r} J on {component}, its meter says"
                f" {float(meters_j[client])!r} J; {_HINT}"
            )
