"""The energy ledger: what every joule of a run was spent on, and what became of it.

A joule has a client, a component (computing, receiving, transmitting, radio tail, idle while at
work, idle while enlisted), a purpose (train, probe, evaluate) and a fate. The tasks table holds the
first three and the outcome of the task; the fate follows from that and from the task's round:

* of a task that was not delivered it is the outcome: late, offline, battery, link, ...;
* of a delivered one it is `used` if something came of it, else `unused`: of a train task if its
  round made a new global model, of a probe if its round went on to send out train tasks, of an
  evaluation always.

Double entry: the ledger comes from the tasks, and must add up to what the rounds say and to the
meters of the clients, which the engine keeps apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from fleetsim.contracts import IntArray, Outcome, Purpose, TaskRow
from fleetsim.errors import DataError
from fleetsim.rounding import ROUNDING_SLACK

if TYPE_CHECKING:
    import pandas as pd

USED = "used"
UNUSED = "unused"
FATES: tuple[str, ...] = (USED, UNUSED, *(o.value for o in Outcome if o is not Outcome.DELIVERED))
"""What can become of a joule, in the order in which it is shown."""

COMPONENTS: Mapping[str, str] = MappingProxyType(
    {
        name.removeprefix("energy_").removesuffix("_j"): name
        for name in TaskRow._fields
        if name.startswith("energy_") and name.endswith("_j")
    }
)
"""What a joule can be spent on, and its column in the tables of tasks and of clients.

Idle while enlisted has a column only in runs that charge it."""

COLUMNS = ("client", "device", "purpose", "fate", "component", "energy_j")
KEYS = COLUMNS[:-1]
"""What a ledger can be added up by."""

_RANKS: Mapping[str, Mapping[str, int]] = {
    key: {str(name): rank for rank, name in enumerate(names)}
    for key, names in (("purpose", Purpose), ("fate", FATES), ("component", COMPONENTS))
}
_WAY_OUT = "run the scenario again into a new folder"


def components_in(table: pd.DataFrame) -> dict[str, str]:
    """Those of `COMPONENTS` that a table of tasks or clients has columns for."""
    return {name: column for name, column in COMPONENTS.items() if column in table.columns}


def with_fates(rounds: pd.DataFrame, tasks: pd.DataFrame) -> pd.DataFrame:
    """The tasks of the recorded rounds, with what became of each in a further column `fate`."""
    of_round = rounds[["round", "aggregated", "num_selected"]]
    known = tasks.merge(of_round, on="round")
    purpose, outcome = known["purpose"], known["outcome"]
    came_of_it = (
        ((purpose == Purpose.TRAIN) & known["aggregated"])
        | ((purpose == Purpose.PROBE) & (known["num_selected"] > 0))
        | (purpose == Purpose.EVALUATE)
    )
    delivered = np.where(came_of_it, USED, UNUSED)
    fate = outcome.where(outcome != Outcome.DELIVERED, delivered)
    return known.assign(fate=fate).drop(columns=["aggregated", "num_selected"])


def ledger(rounds: pd.DataFrame, tasks: pd.DataFrame) -> pd.DataFrame:
    """Where the joules of the recorded rounds went.

    Args:
        rounds: the rounds table.
        tasks: the tasks table; tasks of a round that was cut off are left out.

    Returns:
        Frame with `COLUMNS`, a row for each combination that any energy was spent on, ordered by
        client, purpose, fate and component.
    """
    known = with_fates(rounds, tasks)
    spent = known.groupby(["client", "device", "purpose", "fate"], as_index=False, sort=False)
    components = components_in(known)
    sums = spent[list(components.values())].sum()
    names = {column: name for name, column in components.items()}
    tidy = sums.rename(columns=names).melt(
        id_vars=["client", "device", "purpose", "fate"],
        value_vars=list(components),
        var_name="component",
        value_name="energy_j",
    )
    tidy = tidy[tidy["energy_j"] != 0.0]
    order = np.lexsort(
        (
            _rank(tidy, "component"),
            _rank(tidy, "fate"),
            _rank(tidy, "purpose"),
            tidy["client"].to_numpy(),
        )
    )
    return tidy.iloc[order].reset_index(drop=True)[list(COLUMNS)]


def energy_by(entries: pd.DataFrame, *keys: str) -> pd.Series[float]:
    """Joules of a ledger added up by some of its keys, in their usual order.

    Args:
        entries: a ledger.
        keys: any of `KEYS`, each once.

    Raises:
        ValueError: a key is none of them, or there twice, or there is none.
    """
    if not keys or len(set(keys)) < len(keys) or not set(keys) <= set(KEYS):
        raise ValueError(f"keys must be one or more of {', '.join(KEYS)}, each once, got {keys}")
    sums: pd.Series[float] = entries.groupby(list(keys))["energy_j"].sum()
    return sums.sort_index(
        key=lambda level: level.map(_RANKS[str(level.name)]) if level.name in _RANKS else level
    )


def check_balance(
    entries: pd.DataFrame,
    rounds: pd.DataFrame,
    clients: pd.DataFrame | None,
    *,
    run: str,
) -> None:
    """A ledger must hold what the rounds and the clients' meters say was spent.

    Args:
        entries: the ledger.
        rounds: the rounds table.
        clients: the clients table; None if the run has none yet.
        run: what the message calls the run.

    Raises:
        DataError: it does not, by more than rounding explains.
    """
    spent_j = float(entries["energy_j"].sum())
    total_j = float(rounds["energy_total_j"].iloc[-1]) if len(rounds) else 0.0
    if not np.isclose(spent_j, total_j, rtol=ROUNDING_SLACK, atol=ROUNDING_SLACK):
        raise DataError(
            f"{run}: joules do not add up: its tasks spent {spent_j!r} J, its rounds say"
            f" {total_j!r} J; {_WAY_OUT}"
        )
    if clients is None:
        return
    size = len(clients)
    if len(entries) and not 0 <= entries["client"].min() <= entries["client"].max() < size:
        raise DataError(
            f"{run}: has a task of client {int(entries['client'].max())}, but {size} clients;"
            f" {_WAY_OUT}"
        )
    for component, column in COMPONENTS.items():
        own = entries[entries["component"] == component]
        sums_j = np.bincount(own["client"], weights=own["energy_j"], minlength=size)
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
                f" {float(meters_j[client])!r} J; {_WAY_OUT}"
            )


def _rank(tidy: pd.DataFrame, key: str) -> IntArray:
    return np.asarray(tidy[key].map(_RANKS[key]), dtype=np.int64)
