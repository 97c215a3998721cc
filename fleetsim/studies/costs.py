"""Costs of a run until it reached an accuracy, in the currencies that docs/studies.md defines.

A run that never reaches the accuracy is censored: its cost is what it spent until it ended, and
`is_reached` is false. Beyond a budget a run counts as ended.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fleetsim.record import prices
from fleetsim.record.measures.cost_to_target import first_reached
from fleetsim.record.prices import Prices
from fleetsim.record.saved_run import Run
from fleetsim.studies.settings import WHOLE_RUN, Budgets, Target


class Cost(NamedTuple):
    """Cost of one run in one currency."""

    target: str
    currency: str
    cost: float
    is_reached: bool


def costs(
    run: Run, targets: list[Target], priced: Prices | None, budgets: Budgets | None
) -> Iterator[Cost]:
    """Yield the costs of a complete run until each target; those of the whole run without any.

    Costs in seconds and joules end at their budgets.
    """
    rounds = run.rounds
    if rounds.empty:
        return
    if not targets:
        yield from _spent(run, WHOLE_RUN, None, priced)
    limits = {} if budgets is None else {"seconds": budgets.time_s, "joules": budgets.energy_j}
    for target in targets:
        position = first_reached(rounds, target.accuracy, smooth_rounds=target.smooth_rounds)
        run_costs = _spent(run, target.label, position, priced, is_reached=position is not None)
        for cost in run_costs:
            limit = limits.get(cost.currency)
            if limit is not None and cost.cost > limit:
                yield cost._replace(cost=limit, is_reached=False)
            else:
                yield cost


def _spent(
    run: Run, label: str, position: int | None, priced: Prices | None, *, is_reached: bool = True
) -> Iterator[Cost]:
    """Yield what a run spent until the end of a row of its rounds; until its end if None."""
    row = run.rounds.iloc[-1 if position is None else position]
    spent = {
        "rounds": float(row["round"]),
        "seconds": float(row["finished_at_s"]),
        "joules": float(row["energy_total_j"]),
    }
    if priced is not None:
        spent |= _priced(run, priced, int(row["round"]))
    for currency, cost in spent.items():
        yield Cost(label, currency, cost, is_reached)


def _priced(run: Run, priced: Prices, last_round: int) -> dict[str, float]:
    amounts = prices.amounts_until(run, priced, last_round)
    dollars = [amounts[name] for name in ("rent_run_usd", "electricity_usd") if name in amounts]
    result = {"dollars": float(np.sum(dollars))} if dollars else {}
    if "carbon_gram" in amounts:
        result["grams"] = amounts["carbon_gram"]
    return result
