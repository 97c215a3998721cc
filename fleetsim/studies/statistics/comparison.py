"""Comparison of one arm with the baseline, paired by seed.

Both arms of a seed meet the same world, so the spread that the world causes cancels in the ratio of
their costs (common random numbers: Law, Simulation Modeling and Analysis, 5th ed., 2015, sections
10.2.1 and 11.2).
"""

import math
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray
from fleetsim.studies.statistics.bootstrap import bca_interval
from fleetsim.studies.statistics.paired_costs import (
    are_open,
    ordered_log_ratios,
    restricted_log_ratios,
)
from fleetsim.studies.statistics.rank_tests import pairs_needed, sign_test, signed_rank_test
from fleetsim.studies.statistics.t_test import mean_and_error, seeds_needed, t_interval, t_test

ALPHA = 0.05
"""Highest share of false verdicts; intervals have the level 1 - ALPHA."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Costs of an arm over costs of the baseline; NaN is what the runs do not tell."""

    num_pairs: int
    """Seeds that both have completed."""
    num_reached: int
    """Seeds of them with which the arm reached the target."""
    num_baseline_reached: int
    """Seeds of them with which the baseline did."""
    num_wins: int
    """Pairs in which the arm cost less; a run that reached the target beats one that never did."""
    num_open: int
    """Pairs that count as a ratio of 1 because the runs do not tell it (`are_open`)."""
    ratio: float
    """Geometric mean of the ratios, each counted up to the limit of its pair
    (`restricted_log_ratios`); NaN if all pairs are open."""
    low: float
    """Lower end of the 95 % interval of the ratio by Student's t, the primary one; NaN for one
    pair."""
    high: float
    """Upper end of the same interval."""
    bca_low: float
    """Lower end of the 95 % interval of the ratio by the BCa bootstrap; NaN for less than three
    pairs."""
    bca_high: float
    """Upper end of the same interval."""
    log_error: float
    """Standard error of the mean log-ratio; NaN for one pair, and where a run never reached the
    target: ratios up to limits are closer to 1 than the costs' own."""
    p_t: float
    """p-value of the paired t-test of the log-ratios. If all ratios are the same, but not 1, there
    is no spread to test with, and it is the exact signed-rank p-value of the same log-ratios."""
    p_wilcoxon: float
    """p-value of the exact signed-rank test; with n pairs never less than 2^(1 - n)."""
    p_sign: float
    """p-value of the exact sign test, by the order of the costs alone; as for the ranks."""
    is_restricted: bool
    """True: some run never reached the target, so costs are counted up to limits."""
    num_more_seeds: int | None
    """Further seeds until the test at 0.05 / number of arms has a power of 0.8, if the true
    effect is the one observed; None: no estimate, or more than 1,000 seeds."""


def compare(
    arm: FloatArray,
    arm_reached: BoolArray,
    baseline: FloatArray,
    baseline_reached: BoolArray,
    *,
    seed: int,
    num_arms: int = 1,
) -> Comparison:
    """Compare the costs of an arm with those of the baseline: arrays [n] of the same seeds.

    Costs are finite and positive: until the target was reached, or the run ended. `seed` is the
    address of the bootstrap's draws. `num_arms` arms are compared with this baseline, and share the
    false verdicts.
    """
    pairs = (arm, arm_reached, baseline, baseline_reached)
    log_ratio, ordered = restricted_log_ratios(*pairs), ordered_log_ratios(*pairs)
    is_open = are_open(*pairs)
    is_told = not np.all(is_open)
    mean = float(np.mean(log_ratio)) if is_told else math.nan
    is_restricted = not (np.all(arm_reached) and np.all(baseline_reached))
    low, high = t_interval(log_ratio, 1.0 - ALPHA)
    bca_low, bca_high = bca_interval(log_ratio, seed, 1.0 - ALPHA)
    return Comparison(
        num_pairs=log_ratio.size,
        num_reached=int(np.sum(arm_reached)),
        num_baseline_reached=int(np.sum(baseline_reached)),
        num_wins=int(np.sum(ordered < 0.0)),
        num_open=int(np.sum(is_open)),
        ratio=_ratio_of(mean),
        low=_ratio_of(low) if is_told else math.nan,
        high=_ratio_of(high) if is_told else math.nan,
        bca_low=_ratio_of(bca_low) if is_told else math.nan,
        bca_high=_ratio_of(bca_high) if is_told else math.nan,
        log_error=math.nan if is_restricted else float(mean_and_error(log_ratio)[1]),
        p_t=_p_of_mean(log_ratio) if is_told else math.nan,
        p_wilcoxon=signed_rank_test(ordered),
        p_sign=sign_test(ordered),
        is_restricted=is_restricted,
        num_more_seeds=_more_seeds(log_ratio, ALPHA / num_arms) if is_told else None,
    )


def _ratio_of(log_ratio: float | FloatArray) -> float:
    """Return the exponential; infinite for the end of an interval that two pairs leave open."""
    with np.errstate(over="ignore"):
        return float(np.exp(log_ratio))


def _p_of_mean(log_ratio: FloatArray) -> float:
    if log_ratio.size > 1 and np.all(log_ratio == log_ratio[0]) and log_ratio[0] != 0.0:
        return signed_rank_test(log_ratio)
    return float(t_test(log_ratio))


def _more_seeds(log_ratio: FloatArray, alpha: float) -> int | None:
    """Return the further seeds that a test needs; None without an effect or a spread."""
    num, first = log_ratio.size, float(log_ratio[0])
    if num < 2:
        return None
    if np.all(log_ratio == first):
        needed = None if first == 0.0 else pairs_needed(alpha)
    else:
        effect = float(np.mean(log_ratio)) / float(np.std(log_ratio, ddof=1))
        needed = seeds_needed(effect, alpha)
    return None if needed is None else max(needed - num, 0)
