"""Log-ratios of the costs of two arms, paired by seed, where runs may be censored.

Two forms, because an average needs numbers and a rank test only an order:

* **Restricted** (`restricted_log_ratios`). The limit L of a pair is where the first of its runs
  that never reached the target ended (infinite if both reached it). Both runs are compared up to
  it: d = ln(min(arm, L) / min(baseline, L)). This is the restriction of restricted mean survival
  times (Royston and Parmar, BMC Medical Research Methodology 13:152, 2013) with a limit of each
  pair, so that d is observed in full and no run looks cheap because it ended early.
* **Ordered** (`ordered_log_ratios`). A run that never reached the target has an infinite cost: the
  worst rank (Lachin, Controlled Clinical Trials 20:408-422, 1999). Two such runs are a tie.
"""

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray

DECIMALS = 9
"""Decimals of a log-ratio; costs that differ by less are equal but for rounding."""


def restricted_log_ratios(
    arm: FloatArray, arm_reached: BoolArray, baseline: FloatArray, baseline_reached: BoolArray
) -> FloatArray:
    """Return ln(arm / baseline) of each pair, both counted up to the pair's limit: [..., n].

    A run that never reached the target is never cheaper than one that did: where it ended before
    it had spent what the other needed, both cost the limit and d = 0.
    """
    limit = np.minimum(_end(arm, arm_reached), _end(baseline, baseline_reached))
    ratio = np.minimum(arm, limit) / np.minimum(baseline, limit)
    return _rounded(np.log(ratio))


def ordered_log_ratios(
    arm: FloatArray, arm_reached: BoolArray, baseline: FloatArray, baseline_reached: BoolArray
) -> FloatArray:
    """Return ln(arm / baseline) of each pair: infinite if one never reached it, 0 if both."""
    log_ratio = _rounded(np.log(arm / baseline))
    only_arm, only_baseline = arm_reached & ~baseline_reached, baseline_reached & ~arm_reached
    return np.select(
        [arm_reached & baseline_reached, only_arm, only_baseline],
        [log_ratio, np.full_like(log_ratio, -np.inf), np.full_like(log_ratio, np.inf)],
        0.0,
    )


def are_open(
    arm: FloatArray, arm_reached: BoolArray, baseline: FloatArray, baseline_reached: BoolArray
) -> BoolArray:
    """Tell the pairs whose ratio the runs leave open, although it counts as 1: [..., n].

    Either no run of the pair reached the target, or the one that did not had ended before it had
    spent as much as the other needed.
    """
    ended_early = np.where(arm_reached, baseline < arm, arm < baseline)
    is_open: BoolArray = (~arm_reached & ~baseline_reached) | (
        (arm_reached != baseline_reached) & ended_early
    )
    return is_open


def _end(cost: FloatArray, is_reached: BoolArray) -> FloatArray:
    return np.where(is_reached, np.inf, cost)


def _rounded(log_ratio: FloatArray) -> FloatArray:
    """Return log-ratios to `DECIMALS`, without a negative zero."""
    rounded: FloatArray = np.round(log_ratio, DECIMALS) + 0.0
    return rounded
