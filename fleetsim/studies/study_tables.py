"""Tables and header of a study, from which its page and its files are made.

An arm is what is compared, a condition one combination of levels of the varied keys, and a run one
(condition, arm, seed). A study that varies nothing has one condition, the empty text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import pandas as pd

Currency = Literal["rounds", "seconds", "joules", "dollars", "grams"]
CURRENCIES: tuple[Currency, ...] = get_args(Currency)
"""Currencies of costs, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class StudyHeader:
    """Plan of a study, in the order of its file."""

    name: str
    question: str
    arms: tuple[str, ...]
    baseline: str
    seeds: tuple[int, ...]
    targets: tuple[str, ...]
    """Labels, such as "80 %"; the last one is the main one."""
    target_accuracies: tuple[float, ...] = ()
    """The same as fractions; empty if whole runs are compared."""
    factors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Varied keys (columns of `runs`) with the labels of their levels."""
    conditions: tuple[str, ...] = ("",)
    notes: tuple[str, ...] = ()
    """Sentences that the reader must know, such as draws of the devices' errors."""


@dataclass(frozen=True, slots=True)
class StudyTables:
    """Frames of a study; every frame has the columns condition and arm."""

    runs: pd.DataFrame
    """Run: a column for each varied key, seed, status (done, failed, damaged,
    missing), folder, reason, rounds, virtual_s, energy_j, final_accuracy, platform."""
    costs: pd.DataFrame
    """Run, target and currency: seed, cost until the target or the end of the run, is_reached."""
    curves: pd.DataFrame
    """Evaluated round: seed, round, time_s, energy_j, accuracy."""
    ledgers: pd.DataFrame
    """Entry of a run's ledger: seed, component, fate, energy_j."""
    summaries: pd.DataFrame
    """Target and currency: num_seeds, num_reached, mean, std, median, least, most and
    restricted_mean over the seeds."""
    verdicts: pd.DataFrame
    """Target and currency of an arm that is not the baseline: baseline, ratio, low, high, bca_low,
    bca_high, p_t, p_wilcoxon, p_sign, p_holm, num_pairs, num_reached, num_baseline_reached,
    num_more_seeds, kind (less, more, undecided, one seed), sentence."""
