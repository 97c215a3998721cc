"""Runs after which the cost of training a selector is saved.

  break-even in runs = cost before use / mean saving of one run,

and never, if it saves nothing. The cost is that of the runs from which it learns and of the machine
that fits it. The saving is the difference to a baseline in a run to a target,
by seeds in pairs; its interval is that of the mean difference over seeds (t).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from fleetsim.contracts import FloatArray
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.selectors.learned_weights import WeightFile
from fleetsim.studies.statistics.t_test import t_interval


class Spent(NamedTuple):
    """Cost of a selector before its first use, per fleet."""

    fleets: int
    virtual_s: float
    """Virtual seconds of the runs from which it learned."""
    energy_j: float
    server_s: float
    """Seconds of the host that fitted it; 0 where it learned during the runs."""
    server_j: float
    """Joules of that host, at the power that is assumed for it."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Cost before use against the saving of one run, in one metric."""

    metric: str
    target: str
    spent: float
    num_seeds: int
    """Seeds in which arm and baseline both reached the target."""
    saving: float
    """Mean saving of a run; negative: it costs more."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    rounds_of_run: float

    @property
    def rounds(self) -> float | None:
        """Rounds of the arm after which the cost is saved; None: never."""
        return None if self.runs is None else self.runs * self.rounds_of_run

    @property
    def runs(self) -> float | None:
        """Runs after which the cost is saved; None: never."""
        return self.spent / self.saving if self.saving > 0.0 else None


def spent_before_use(file: WeightFile, *, server_w: float) -> Spent:
    """Return what a file's weights cost, averaged over fleets; the host draws `server_w` watt."""
    rows = [_row(facts) for facts in facts_by_clients(file).values()]
    if not rows:
        raise ScenarioError("the weight file does not say what it cost; train it again")
    virtual_s, energy_j, server_s = np.mean(rows, axis=0).tolist()
    return Spent(len(rows), virtual_s, energy_j, server_s, server_s * server_w)


def facts_by_clients(file: WeightFile) -> dict[str, dict[str, str]]:
    """Return the facts of a weight file by the hash of the clients that they are about."""
    result: dict[str, dict[str, str]] = {clients: {} for clients in file.weights}
    for name, value in file.facts.items():
        clients, _, key = name.partition("/")
        if clients in result:
            result[clients][key] = value
    return result


def _row(facts: Mapping[str, str]) -> tuple[float, float, float]:
    """Return virtual seconds and joules of the runs, and seconds of a fit after them."""
    try:
        if "collecting_energy_j" in facts:
            return (
                float(facts["collecting_virtual_s"]),
                float(facts["collecting_energy_j"]),
                float(facts["training_host_s"]),
            )
        return float(facts["training_virtual_s"]), float(facts["training_energy_j"]), 0.0
    except (KeyError, ValueError) as fault:
        raise ScenarioError(
            f"the weight file does not say what it cost ({quoted(str(fault))}); train it again"
        ) from fault


def break_even(costs: pd.DataFrame, spent: Spent, *, arm: str, baseline: str) -> list[BreakEven]:
    """Return how soon an arm pays, by the table of costs of a study, in seconds and joules."""
    for name in (arm, baseline):
        if name not in set(costs["arm"]):
            known = ", ".join(dict.fromkeys(costs["arm"])) or "no arm"
            raise ScenarioError(
                f"the study has no complete run of {quoted(name)}; complete are runs of {known};"
                " `fleetsim study run` makes the others; if they are elsewhere, name the folder"
                " with --home"
            )
    before = {
        "seconds": spent.virtual_s + spent.server_s,
        "joules": spent.energy_j + spent.server_j,
    }
    result = []
    reached = costs[costs["is_reached"]]
    for (condition, target), rows in reached.groupby(["condition", "target"], sort=False):
        label = ", ".join(filter(None, (str(condition), str(target))))
        cost = rows.set_index(["metric", "arm", "seed"])["cost"]
        rounds_of_run = float(_costs_of(cost, "rounds", arm).mean())
        for metric, spent_before in before.items():
            saved = _costs_of(cost, metric, baseline) - _costs_of(cost, metric, arm)
            savings: FloatArray = np.array(saved.dropna(), dtype=np.float64)
            low, high = t_interval(savings) if savings.size > 1 else (np.nan, np.nan)
            result.append(
                BreakEven(
                    metric=metric,
                    target=label,
                    spent=spent_before,
                    num_seeds=savings.size,
                    saving=float(savings.mean()) if savings.size else np.nan,
                    low=float(low),
                    high=float(high),
                    rounds_of_run=rounds_of_run,
                )
            )
    return result


def _costs_of(cost: pd.Series[float], metric: str, arm: str) -> pd.Series[float]:
    chosen = cost[[(key[0], key[1]) == (metric, arm) for key in cost.index]]
    return chosen.droplevel(["metric", "arm"])
