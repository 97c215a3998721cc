"""Tables and header of a study, from which its page and its files are made.

An arm is what is compared, a condition one combination of levels of the varied keys, and a run one
(condition, arm, seed). A study that varies nothing has one condition, the empty text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

import pandas as pd

from fleetsim.report.pages.setup import SetupBlock
from fleetsim.studies.settings import Metric

METRICS: tuple[Metric, ...] = get_args(Metric)
"""Metrics of costs, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class StudyHeader:
    """Plan of a study, in the order of its file."""

    name: str
    question: str
    arms: tuple[str, ...]
    """Arms; in a sweep the labels of its levels."""
    baseline: str | None
    """None in a sweep whose levels are compared with the best."""
    seeds: tuple[int, ...]
    targets: tuple[str, ...]
    """Labels, such as "80 %"."""
    target_accuracies: tuple[float, ...] = ()
    """The same as fractions; empty if whole runs are compared."""
    primary: tuple[str, Metric] | None = None
    """Target and metric of the primary outcome, if the study declares one."""
    sweep_arm: str | None = None
    """Arm of a sweep, whose levels are the `arms`."""
    factors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Varied keys (columns of `runs`) with the labels of their levels."""
    conditions: tuple[str, ...] = ("",)
    notes: tuple[str, ...] = ()
    """Sentences that the reader must know, such as draws of the devices' errors."""
    setup: SetupBlock = field(default_factory=SetupBlock)

    @property
    def all_arms(self) -> tuple[str, ...]:
        """Arms with a look of their own in charts: the levels, then the arm, of a sweep."""
        return self.arms if self.sweep_arm is None else (*self.arms, self.sweep_arm)


@dataclass(frozen=True, slots=True)
class StudyTables:
    """Frames of a study, by what a row stands for; every one has the columns condition and arm."""

    runs: pd.DataFrame
    """Run."""
    costs: pd.DataFrame
    """Complete run, target and metric."""
    curves: pd.DataFrame
    """Evaluated round: seed, round, time_s, energy_j, accuracy."""
    ledgers: pd.DataFrame
    """Entry of a run's ledger until a target or its end: target, seed, component, energy_outcome,
    energy_j."""
    summaries: pd.DataFrame
    """Target and metric, over the seeds."""
    verdicts: pd.DataFrame
    """Target and metric of an arm that is not the baseline."""
