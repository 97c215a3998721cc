"""Cost of an accuracy in rounds, seconds and joules, with the cost of probes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetsim.record.measures.ledger import energy_of
from fleetsim.record.saved_run import Run


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of a run until it reached an accuracy."""

    rounds: int
    seconds: float
    joules: float
    probing_fraction: float
    """Share of the joules that went to tasks other than training."""


def price(run: Run, target: float) -> Price | None:
    """Return the price of an accuracy; None if it was never reached."""
    rounds = run.rounds_to_accuracy(target)
    seconds, joules = run.time_to_accuracy(target), run.energy_to_accuracy(target)
    if rounds is None or seconds is None or joules is None:
        return None
    tasks = run.tasks
    probes = tasks[(tasks["round"] <= rounds) & (tasks["purpose"] != "train")]
    return Price(
        int(rounds), float(seconds), float(joules), float(energy_of(probes).sum() / joules)
    )


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """Return the geometric mean of the ratios by seed.

    >>> round(ratio([2.0, 8.0], [1.0, 1.0]), 6)
    4.0
    """
    logs = [math.log(one / other) for one, other in zip(of, to, strict=True)]
    return math.exp(math.fsum(logs) / len(logs))
