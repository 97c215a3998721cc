"""Bytes, joules and seconds of a selector's probes on one fleet.

The fleet consists of 100 phones of four models under a fading channel, which their owners do not
use. The task is that of the scenario quickstart (digits, 2nn with 200 and 200 hidden units, 5
epochs), with cohorts of 10. `ucb` and `quick-init-ucb`, which list all sets of clients, get 20 of
these phones and cohorts of 5, as in their paper. Time and energy are simulated, so the figures are
the same on any machine.

Figures by round leave out the first `SET_UP_ROUNDS` rounds. The `CYCLE_ROUNDS` that follow are
whole cycles of every selector: of 5 rounds (fedgra), 10 (fedcor, tifl) or 15 (slots of bandits).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetsim.scenario import load
from fleetsim.selectors import DEMANDS
from fleetsim.selectors.demands import Demand
from fleetsim.simulate import run

if TYPE_CHECKING:
    import pandas as pd

SET_UP_ROUNDS = max(d.set_up_choices for variants in DEMANDS.values() for d in variants.values())
CYCLE_ROUNDS = 30
NUM_CLIENTS, COHORT = 100, 10
NUM_CLIENTS_OF_SETS, COHORT_OF_SETS = 20, 5
PHONES = "{pixel-6: 0.35, oneplus-10-pro: 0.25, redmi-note-10: 0.25, realme-q3s: 0.15}"


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of probes or of training."""

    down_byte: float
    up_byte: float
    energy_j: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Prices:
    """Costs of one selector on the fleet."""

    set_up: Cost
    """Total cost of the probes of its first choices."""
    by_round: Cost
    """Mean cost of the probes of a round."""
    training: Cost
    """Mean cost of a round without its probes."""


def selector_text(kind: str, variant: str, size: int, cohort: int) -> str:
    """Return the settings of a selector in YAML, with the keys that have no default.

    `rbcs-f` guarantees each client half of an even share of the rounds.
    """
    keys = [f"kind: {kind}", *([variant] if variant else [])]
    if kind == "fixed":
        keys.append(f"clients: {list(range(cohort))}")
    if kind == "rbcs-f":
        keys.append(f"guaranteed_fraction: {0.5 * cohort / size}")
    return f"{{{', '.join(keys)}}}"


def changes_for(kind: str, variant: str, demand: Demand) -> list[str]:
    """Return the overrides that turn the scenario quickstart into the reference fleet."""
    size, cohort = NUM_CLIENTS, COHORT
    if demand.has_sets:
        size, cohort = NUM_CLIENTS_OF_SETS, COHORT_OF_SETS
    return [
        f"fleet.size={size}",
        f"fleet.devices={PHONES}",
        "fleet.usage={}",
        "evaluate={every_rounds: 1000, validation_fraction: 0.1}",
        f"server={{cohort: {cohort}, selector: {selector_text(kind, variant, size, cohort)}}}",
        f"stop={{rounds: {SET_UP_ROUNDS + CYCLE_ROUNDS}}}",
    ]


def measured(kind: str, variant: str, demand: Demand) -> Prices:
    """Run the fleet with a selector and add up its costs."""
    scenario = load("quickstart", changes_for(kind, variant, demand))
    with tempfile.TemporaryDirectory() as home:
        done = run(scenario, out=Path(home) / "run", workers=1)
        return prices(done.rounds, done.tasks, demand.set_up_choices)


def prices(rounds: pd.DataFrame, tasks: pd.DataFrame, set_up_choices: int) -> Prices:
    """Compute the costs from the tables of a run."""
    of_round = tasks.groupby(["round", "purpose"])[["download_byte", "upload_byte"]].sum()
    byte = of_round.unstack(fill_value=0).reindex(rounds["round"], fill_value=0)
    by_round = rounds.set_index("round")
    training_s = by_round["finished_at_s"] - by_round["started_at_s"] - by_round["idle_s"]
    energy_j = {"probe": by_round["energy_probe_j"], "train": by_round["energy_j"]}
    energy_j["train"] = energy_j["train"] - energy_j["probe"]
    seconds = {"probe": by_round["probe_s"], "train": training_s - by_round["probe_s"]}

    def cost(purpose: str, first: int, last: int, over: int) -> Cost:
        def total(column: pd.Series[float]) -> float:
            return float(column.loc[first:last].sum()) / over

        is_there = ("download_byte", purpose) in byte
        return Cost(
            down_byte=total(byte["download_byte", purpose]) if is_there else 0.0,
            up_byte=total(byte["upload_byte", purpose]) if is_there else 0.0,
            energy_j=total(energy_j[purpose]),
            seconds=total(seconds[purpose]),
        )

    cycle = (SET_UP_ROUNDS + 1, SET_UP_ROUNDS + CYCLE_ROUNDS, CYCLE_ROUNDS)
    return Prices(
        set_up=cost("probe", 1, set_up_choices, 1),
        by_round=cost("probe", *cycle),
        training=cost("train", *cycle),
    )
