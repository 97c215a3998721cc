"""Accuracy of arms over time, energy or rounds: mean over seeds on a common grid.

At each x of the grid, a seed has the accuracy of its last round that was evaluated by then (last
observation carried forward), also after its run has ended: the model does not change any more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fleetsim.contracts import FloatArray
from fleetsim.studies.page import intervals

MOST_POINTS = 200
"""Points of a mean; more cannot be seen, and make the page larger."""
EARLY_FRACTION = 0.2
"""Share of the axis by which a curve has to have gained most, to count as early."""
_MOST_GAIN = 0.8
_OPENING_FRACTION = 0.1
"""Share of the axis whose gain a zoomed axis leaves out."""
_LEAST_ZOOM = 0.25


@dataclass(frozen=True, slots=True)
class SeedCurve:
    """Accuracy of one run."""

    seed: int
    x: FloatArray
    accuracy: FloatArray


@dataclass(frozen=True, slots=True)
class ArmCurve:
    """Accuracy of an arm: mean over seeds with its range, at points of x."""

    arm: str
    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    seeds: tuple[SeedCurve, ...]


def arm_curves(curves: pd.DataFrame, arms: Sequence[str], column: str) -> list[ArmCurve]:
    """Return the curves of the arms that have any, against a column of one condition's curves."""
    result = []
    evaluated = curves.dropna(subset=["accuracy"]).sort_values(["seed", "round"])
    for arm in arms:
        of_arm = evaluated[evaluated["arm"] == arm]
        seeds = tuple(
            SeedCurve(
                int(str(seed)),
                rows[column].to_numpy(dtype=np.float64),
                rows["accuracy"].to_numpy(dtype=np.float64),
            )
            for seed, rows in of_arm.groupby("seed", sort=True)
        )
        if seeds:
            x = common_grid(seeds)
            values = np.stack([carried_forward(curve, x) for curve in seeds])
            mean, low, high = intervals.over_seeds(values)
            low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
            result.append(ArmCurve(arm, x, mean, low, high, seeds))
    return result


def common_grid(seeds: Sequence[SeedCurve]) -> FloatArray:
    """Return every x at which a seed changes once all have begun, or `MOST_POINTS` of them."""
    every: FloatArray = np.unique(np.concatenate([curve.x for curve in seeds]))
    every = every[every >= max(curve.x[0] for curve in seeds)]
    if len(every) > MOST_POINTS:
        every = every[np.linspace(0, len(every) - 1, MOST_POINTS).round().astype(np.int64)]
    return every


def carried_forward(curve: SeedCurve, x: FloatArray) -> FloatArray:
    """Return the accuracy of the last round that was evaluated by each x.

    >>> carried_forward(SeedCurve(1, np.array([1.0, 5.0]), np.array([0.2, 0.6])), np.array([4.9]))
    array([0.2])
    """
    accuracy: FloatArray = curve.accuracy[np.searchsorted(curve.x, x, side="right") - 1]
    return accuracy


def is_early(curves: Sequence[ArmCurve]) -> bool:
    """Return True if most gain lies at the left of the axis, which a logarithm spreads out."""
    if not curves:
        return False
    most = max(float(curve.x[-1]) for curve in curves)
    if min(float(curve.x[0]) for curve in curves) <= 0.0:
        return False
    reached = []
    for curve in curves:
        best = np.maximum.accumulate(curve.mean)
        gained = best[0] + _MOST_GAIN * (best[-1] - best[0])
        reached.append(float(curve.x[np.argmax(best >= gained)]))
    return float(np.median(reached)) < EARLY_FRACTION * most


def zoomed_from(curves: Sequence[ArmCurve], targets: Sequence[float], *, is_log: bool) -> float:
    """Return the accuracy at which an axis begins: below all means after the opening tenth of x.

    It begins below all targets too. 0 if a quarter of the range would not be left out.
    """
    if not curves:
        return 0.0
    first, last = min(curve.x[0] for curve in curves), max(curve.x[-1] for curve in curves)
    at = first + _OPENING_FRACTION * (last - first)
    if is_log:
        at = first * (last / first) ** _OPENING_FRACTION
    later = [curve.mean[max(np.sum(curve.x <= at) - 1, 0) :].min() for curve in curves]
    means = np.concatenate([curve.mean for curve in curves])
    lowest = min(*later, *targets, 1.0)
    begin = math.floor(100 * (lowest - 0.05 * (means.max() - lowest))) / 100
    return begin if begin > means.min() + _LEAST_ZOOM * np.ptp(means) else 0.0
