"""Costs of a run until it reached an accuracy, in every metric.

A run that never reaches the accuracy is censored: its cost is what it spent until it ended, and
`is_reached` is false. Beyond a budget a run counts as ended.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from fleetsim.record import prices
from fleetsim.record.measures import ledger
from fleetsim.record.measures.cost_to_target import first_reached
from fleetsim.record.prices import Prices
from fleetsim.record.saved_run import Run
from fleetsim.studies.settings import WHOLE_RUN, Budgets, Target


class Cost(NamedTuple):
    """Cost of one run in one metric."""

    target: str
    """Accuracy as text, such as `80 %`, or `the whole run`."""
    metric: str
    """Rounds, seconds, joules, dollars or grams; client updates instead of rounds where servers of
    different modes are compared."""
    cost: float
    """Amount that the run had spent when it reached the target, else when it ended."""
    is_reached: bool
    """True: the run reached the target. False: its cost is more than it spent."""


def ends(run: Run, targets: list[Target]) -> dict[str, int | None]:
    """Return the position of the round that reached each target, by label; None: none did.

    Without targets: that of the whole run.
    """
    if not targets:
        return {WHOLE_RUN: len(run.rounds) - 1}
    return {
        target.label: first_reached(run.rounds, target.accuracy, smooth_rounds=target.smooth_rounds)
        for target in targets
    }


def ledgers(run: Run, targets: list[Target]) -> pd.DataFrame:
    """Return joules by target, component and outcome, until each target or the end of the run."""
    run.ledger()  # checks that the joules add up
    parts = [
        ledger.energy_by(
            ledger.ledger(run.rounds.iloc[: None if end is None else end + 1], run.tasks),
            *("component", "energy_outcome"),
        )
        .rename("energy_j")
        .reset_index()
        .assign(target=label)
        for label, end in ends(run, targets).items()
    ]
    return pd.concat(parts, ignore_index=True)


def costs(
    run: Run, targets: list[Target], priced: Prices | None, budgets: Budgets | None
) -> Iterator[Cost]:
    """Yield the costs of a complete run until each target; those of the whole run without any.

    Costs in seconds and joules end at their budgets.
    """
    if run.rounds.empty:
        return
    limits = {} if budgets is None else {"seconds": budgets.time_s, "joules": budgets.energy_j}
    for label, end in ends(run, targets).items():
        for cost in _spent(run, label, end, priced):
            limit = limits.get(cost.metric) if targets else None
            if limit is not None and cost.cost > limit:
                yield cost._replace(cost=limit, is_reached=False)
            else:
                yield cost


def _spent(run: Run, label: str, end: int | None, priced: Prices | None) -> Iterator[Cost]:
    """Yield what a run spent until the end of a row of its rounds; until its end if None."""
    last = len(run.rounds) - 1 if end is None else end
    row = run.rounds.iloc[last]
    spent = {
        "rounds": float(row["round"]),
        "client updates": float(run.rounds["num_delivered"].iloc[: last + 1].sum()),
        "seconds": float(row["finished_at_s"]),
        "joules": float(row["energy_total_j"]),
    }
    if priced is not None:
        spent |= _priced(run, priced, int(row["round"]))
    for metric, cost in spent.items():
        yield Cost(label, metric, cost, end is not None)


def _priced(run: Run, priced: Prices, last_round: int) -> dict[str, float]:
    amounts = prices.amounts_until(run, priced, last_round)
    dollars = [amounts[name] for name in ("rent_run_usd", "electricity_usd") if name in amounts]
    result = {"dollars": float(np.sum(dollars))} if dollars else {}
    if "carbon_gram" in amounts:
        result["grams"] = amounts["carbon_gram"]
    return result
