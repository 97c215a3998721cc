"""Verdicts: which arms of one condition, target and metric differ from the baseline.

The rule: an arm differs if the p-value of its paired t-test on log-ratios, adjusted over the arms
by Holm's method, is at most 0.05. If it does not, and two one-sided tests, adjusted alike, put the
ratio within a margin of 1, it is equal within that margin. The tests by ranks stand beside them and
decide nothing.

Without a baseline, arms are compared with the best of the same seeds: an arm is excluded from the
best if its one-sided p-value against the least costly arm, times the number of other arms, is at
most 0.05. Then the arm that is truly best is excluded in at most 5 % of families, whichever arm
looks best (multiple comparisons with the best under common random numbers: Nelson and Matejcik,
Management Science 41:1935-1945, 1995, by Bonferroni's inequality).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.studies.settings import EQUIVALENCE_MARGIN, WHOLE_RUN
from fleetsim.studies.statistics.comparison import ALPHA, Comparison
from fleetsim.studies.statistics.t_test import MOST_SEEDS, equivalence_p

VerdictKind = Literal["less", "more", "equal", "undecided", "one seed"]

_STEPS = (1.0, 2.0, 5.0)

_NO_EVIDENCE = "one seed: no evidence"
_MAX_DECIMALS = 5
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision on one arm, with the comparison that it rests on."""

    arm: str
    baseline: str
    """Arm, or level of a sweep, with which it is compared."""
    metric: str
    """Plural of what is counted, such as `joules`."""
    target: str
    """The target as text, such as `80 %`."""
    comparison: Comparison
    p_holm: float
    """p-value `p_t` of a difference, adjusted over the arms by Holm's method."""
    p_equal: float
    """p-value of a difference of the margin or more, adjusted likewise; NaN if it cannot be
    tested."""
    equal_within: float
    """Least of some round margins up to the one given, such as 0.01, within which the costs are
    equal at the level 0.05 (adjusted); NaN if there is none. A claim of the least margin is as safe
    as one of the largest, since the tests are nested."""

    @property
    def kind(self) -> VerdictKind:
        """The decision: less, more, equal, undecided or one seed."""
        if self.comparison.num_pairs == 1:
            return "one seed"
        if self.p_holm <= ALPHA:  # false for NaN
            return "less" if self.comparison.ratio < 1.0 else "more"
        if not math.isnan(self.equal_within):
            return "equal"
        return "undecided"

    @property
    def sentence(self) -> str:
        """The verdict in plain English."""
        comparison = self.comparison
        if comparison.num_reached == comparison.num_baseline_reached == 0:
            return _of_nothing_reached(self)
        if self.kind == "one seed":
            return f"{_of_one_seed(self)}; {_NO_EVIDENCE}."
        if math.isnan(comparison.ratio):
            return f"{_claim(self)}; {self.metric} cannot be compared, longer runs would tell."
        return f"{_claim(self)}: {_decision(self)}."


def decide(
    comparisons: Mapping[str, Comparison],
    *,
    baseline: str,
    metric: str,
    target: str,
    margin: float = EQUIVALENCE_MARGIN,
    is_best: bool = False,
) -> list[Verdict]:
    """Decide on every arm of one condition, target and metric.

    The comparisons are all of the family: made with `num_arms=len(comparisons)`. `is_best` says
    that the baseline is the least costly arm of the family, and was not chosen before the runs.
    """
    p = np.array([comparison.p_t for comparison in comparisons.values()])
    if is_best:
        costs_less = np.array([comparison.ratio < 1.0 for comparison in comparisons.values()])
        adjusted = np.minimum(np.where(costs_less, 1.0 - p / 2.0, p / 2.0) * len(p), 1.0)
    else:
        adjusted = holm(p)
    margins = _round_margins(margin)
    by_margin = np.array([_equivalence(comparisons, each) for each in margins])
    within = np.where(by_margin <= ALPHA, margins[:, None], np.inf).min(axis=0)
    return [
        Verdict(arm, baseline, metric, target, *row)
        for arm, *row in zip(
            *(comparisons, comparisons.values(), adjusted.tolist(), by_margin[-1].tolist()),
            np.where(np.isinf(within), np.nan, within).tolist(),
            strict=True,
        )
    ]


def _equivalence(comparisons: Mapping[str, Comparison], margin: float) -> FloatArray:
    """Return the p-values of a difference of a margin or more, adjusted over the arms."""
    p = [
        equivalence_p(math.log(each.ratio), each.log_error, each.num_pairs, margin)
        if each.log_error > 0.0
        else math.nan
        for each in comparisons.values()
    ]
    return holm(np.array(p))


def _round_margins(most: float) -> FloatArray:
    """Return 0.1, 0.2, 0.5, 1, 2 ... % below the largest margin, and that.

    >>> _round_margins(0.03).tolist()
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.03]
    """
    steps = [float(f"{step * 10.0**power:.0e}") for power in range(-3, 1) for step in _STEPS]
    return np.array([*(step for step in steps if step < most), most])


def holm(p: FloatArray) -> FloatArray:
    """Return the adjusted p-values of families [..., m]; NaN stays NaN and does not count.

    Holm, Scandinavian Journal of Statistics 6:65-70, 1979: the i-th smallest of m p-values is
    multiplied by m - i + 1 and is never less than the one before it. Rejecting what is at most
    alpha then has a false rejection in at most a share alpha of families, whatever their
    dependence; so arms may share their baseline.

    >>> holm(np.array([0.01, 0.04, np.nan, 0.03])).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    if p.shape[-1] == 0:
        return p
    order = np.argsort(p, axis=-1)  # NaN comes last
    num = np.sum(~np.isnan(p), axis=-1, keepdims=True)
    factor = np.maximum(num - np.arange(p.shape[-1]), 1)
    raised = np.maximum.accumulate(np.take_along_axis(p, order, axis=-1) * factor, axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(raised, 1.0), axis=-1)
    return adjusted


def _of_nothing_reached(verdict: Verdict) -> str:
    neither = f"neither {verdict.arm} nor {verdict.baseline} reached {verdict.target}"
    if verdict.comparison.num_pairs == 1:
        return f"{neither}; {_NO_EVIDENCE}."
    return f"{neither} in any of {verdict.comparison.num_pairs} seeds: nothing to compare."


def _of_one_seed(verdict: Verdict) -> str:
    arm, baseline, target = verdict.arm, verdict.baseline, verdict.target
    if verdict.comparison.num_reached == 0:
        return f"{arm} never reached {target}, {baseline} did"
    if verdict.comparison.num_baseline_reached == 0:
        return f"{arm} reached {target}, {baseline} never did"
    return f"{arm} needs {_ratio_text(verdict)} {'for' if target == WHOLE_RUN else 'to'} {target}"


def _claim(verdict: Verdict) -> str:
    comparison, target = verdict.comparison, verdict.target
    arm, baseline = verdict.arm, verdict.baseline
    num, reached = comparison.num_pairs, comparison.num_reached
    ratio, is_open = _ratio_text(verdict), math.isnan(comparison.ratio)
    if comparison.num_baseline_reached == 0:
        seen = f"{arm} reached {target} ({reached} of {num} seeds), {baseline} never did"
        if is_open:
            return f"{seen}, but its runs ended early"
        return f"{seen}; by the end of {baseline}'s runs {arm} used {ratio}"
    both = f"{reached} of {num} seeds; {baseline}: {comparison.num_baseline_reached}"
    if reached == 0:
        seen = f"{arm} never reached {target} ({both})"
        if is_open:
            return f"{seen}, but its runs ended early"
        return f"{seen}; by the end of its runs it used {ratio}"
    if is_open:
        return f"{arm} and {baseline} never reached {target} in the same world ({both})"
    if comparison.is_restricted:
        return f"{arm} needs {ratio} to {target}, or until a run without it ended ({both})"
    if target == WHOLE_RUN:
        return f"{arm} needs {ratio} for {target} ({num} seeds)"
    return f"{arm} needs {ratio} to {target} ({num} of {num} seeds reached it)"


def decimals_of(ratio: float, low: float, high: float) -> int:
    """Return two decimals, or as many as two digits of a ratio and one of its interval need.

    >>> decimals_of(0.84, 0.7, 1.0), decimals_of(0.998, 0.997, 0.9995), decimals_of(0.012, 0.0, 1.0)
    (2, 3, 3)
    """
    decimals = 2
    if ratio > 0.0:
        decimals = max(decimals, 1 - math.floor(math.log10(ratio)))
    if low < high:
        decimals = max(decimals, -math.floor(math.log10(min(high - low, 1.0))))
    return min(decimals, _MAX_DECIMALS)


def _ratio_text(verdict: Verdict) -> str:
    """Return the ratio with its interval and what it is a ratio of."""
    comparison, baseline = verdict.comparison, verdict.baseline
    ratio, low, high = comparison.ratio, comparison.low, comparison.high
    unit = "grams of CO2e" if verdict.metric == "grams" else verdict.metric
    if low == high == 1.0:
        return f"the same {unit} as {baseline}"
    decimals = decimals_of(ratio, low, high)
    interval = f" [{_number(low, decimals)}, {_number(high, decimals)}]" if low < high else ""
    exactly = "exactly " if low == high else ""
    of = f"of {baseline}'s" if ratio < 1.0 else f"times {baseline}'s"
    return f"{exactly}{_number(ratio, decimals)}{interval} {of} {unit}"


def _number(value: float, decimals: int) -> str:
    """Return a ratio; from 10 on without decimals, from a million on without digits.

    >>> _number(0.842, 2), _number(1.149, 2), _number(1234.5, 2), _number(2.6e20, 2)
    ('0.84', '1.15', '1,234', 'over 1,000,000')
    """
    if value >= _MOST:
        return f"over {_MOST:,}"
    return f"{value:,.0f}" if value >= 9.995 else f"{value:.{decimals}f}"


def _decision(verdict: Verdict) -> str:
    comparison, baseline = verdict.comparison, verdict.baseline
    if verdict.kind in ("less", "more"):
        amount = "fewer" if verdict.kind == "less" else "more"
        return f"significantly {amount} than {baseline} (p {_p_text(verdict.p_holm)})"
    if verdict.kind == "equal":
        within = f"{100.0 * verdict.equal_within:g} %"
        return f"equal within {within} (two one-sided tests, p <= {ALPHA})"
    if comparison.low == comparison.high == 1.0:
        return "no difference was seen"
    return f"not significantly different from {baseline}; power analysis: {_seeds_text(comparison)}"


def _seeds_text(comparison: Comparison) -> str:
    if comparison.num_more_seeds is None:
        return f"more than {MOST_SEEDS:,} seeds"
    total = comparison.num_pairs + comparison.num_more_seeds
    if comparison.low == comparison.high:
        return f"{total} such seeds"
    step = 10 ** max(len(str(total)) - 2, 0)
    return f"{math.ceil(total / step) * step:,} seeds"


def _p_text(p: float) -> str:
    """Return a p-value to two digits, with its relation.

    >>> _p_text(0.0123), _p_text(0.05), _p_text(0.00001)
    ('= 0.012', '= 0.050', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"= {p:#.2g}"
