"""Costs of arms to a target: in the time-energy plane, and by level of a varied key.

A run that never reached the target counts with what it spent until it ended, a lower bound of its
cost. Arms with such runs are marked, and are left out of the Pareto front, which bounds of costs
cannot decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fleetsim.contracts import FloatArray
from fleetsim.studies.page import intervals
from fleetsim.studies.page.intervals import Mean


@dataclass(frozen=True, slots=True)
class SeedPoint:
    """Costs of one run."""

    seed: int
    seconds: float
    joules: float
    is_reached: bool


@dataclass(frozen=True, slots=True)
class PlanePoint:
    """Costs of an arm in seconds and joules."""

    arm: str
    seconds: Mean
    joules: Mean
    seeds: tuple[SeedPoint, ...]
    is_on_front: bool

    @property
    def num_reached(self) -> int:
        """Seeds that reached the target."""
        return sum(seed.is_reached for seed in self.seeds)

    @property
    def is_complete(self) -> bool:
        """True if all seeds reached the target."""
        return self.num_reached == len(self.seeds)


@dataclass(frozen=True, slots=True)
class LevelCost:
    """Cost of an arm at one level of a varied key, over seeds and other conditions."""

    level: str
    cost: Mean
    num_reached: int
    num_runs: int


Effects = Mapping[str, Sequence[LevelCost]]
"""Costs at every level of a varied key that has runs, by arm."""


def plane(costs: pd.DataFrame, arms: Sequence[str]) -> list[PlanePoint]:
    """Return the arms' points from the costs of one condition and target, in order of the arms."""
    wide = costs.pivot_table(index=["arm", "seed"], columns="metric", values="cost")
    if not {"seconds", "joules"} <= set(wide.columns):
        return []
    wide = wide.dropna(subset=["seconds", "joules"])
    wide = wide[(wide["seconds"] > 0) & (wide["joules"] > 0)]
    reached = costs.groupby(["arm", "seed"])["is_reached"].all()
    points = []
    for arm in arms:
        if arm not in wide.index.get_level_values("arm"):
            continue
        of_arm = wide.loc[arm]
        spent = of_arm[["seconds", "joules"]].to_numpy(dtype=np.float64)
        seeds = tuple(
            SeedPoint(int(seed), float(time_s), float(energy_j), bool(reached.loc[(arm, seed)]))
            for seed, (time_s, energy_j) in zip(of_arm.index, spent, strict=True)
        )
        seconds, joules = map(intervals.geometric, spent.T)
        points.append(PlanePoint(arm, seconds, joules, seeds, is_on_front=False))
    centers = [
        (point.seconds.center, point.joules.center) if point.is_complete else (np.nan, np.nan)
        for point in points
    ]
    best = pareto(np.reshape(centers, (-1, 2)))
    return [replace(point, is_on_front=index in best) for index, point in enumerate(points)]


def front(points: Sequence[PlanePoint]) -> list[PlanePoint]:
    """Return the points on the Pareto front, the fastest first."""
    on_front = [point for point in points if point.is_on_front]
    return sorted(on_front, key=lambda point: point.seconds.center)


def pareto(points: FloatArray) -> set[int]:
    """Return the rows of [N, 2] costs that no other row beats in one and equals in the other.

    >>> sorted(pareto(np.array([[1.0, 5.0], [2.0, 2.0], [3.0, 2.0], [np.nan, np.nan]])))
    [0, 1]
    """
    no_more, less = (points[:, None] <= points).all(axis=2), (points[:, None] < points).any(axis=2)
    is_beaten = (no_more & less).any(axis=0) | np.isnan(points).any(axis=1)
    return set(np.flatnonzero(~is_beaten).tolist())


def effects(
    costs: pd.DataFrame, levels: pd.Series, order: Sequence[str], arms: Sequence[str]
) -> Effects:
    """Return the arms' costs by level, from the costs of one target and metric.

    `levels` holds the level of each condition. A seed counts once at each level, with the geometric
    mean over the conditions that have it; so the range is one over seeds.
    """
    leveled = costs[costs["cost"] > 0].assign(level=costs["condition"].map(levels))
    result = {}
    for arm in arms:
        of_arm = leveled[leveled["arm"] == arm]
        points = []
        for level in order:
            runs = of_arm[of_arm["level"] == level]
            if runs.empty:
                continue
            by_seed = np.log(runs["cost"]).groupby(runs["seed"]).mean()
            points.append(
                LevelCost(
                    level,
                    intervals.geometric(np.exp(by_seed.to_numpy(dtype=np.float64))),
                    int(runs["is_reached"].sum()),
                    len(runs),
                )
            )
        if points:
            result[arm] = points
    return result


def mean_ledger(
    ledgers: pd.DataFrame, part: str, arms: Sequence[str], order: Sequence[str]
) -> pd.DataFrame:
    """Return joules [arms, parts] of one condition, a mean over the runs of each arm."""
    if ledgers.empty:
        return pd.DataFrame()
    by_run = ledgers.pivot_table(
        index=["arm", "seed"], columns=part, values="energy_j", aggfunc="sum", fill_value=0.0
    )
    means = by_run.groupby("arm").mean()
    present = set(means.columns)
    columns = [name for name in order if name in present]
    columns += sorted(present - set(columns))
    return means.reindex(index=[arm for arm in arms if arm in means.index], columns=columns)
