"""Verdicts in plain English, one sentence each."""

import math

from fleetsim.studies.settings import WHOLE_RUN
from fleetsim.studies.statistics.comparison import Comparison
from fleetsim.studies.statistics.power import MOST_SEEDS
from fleetsim.studies.statistics.shares import Share

NO_EVIDENCE = "one seed: no evidence"

_MAX_DECIMALS = 5
_MOST = 1_000_000


def sentence_of(
    comparison: Comparison,
    *,
    arm: str,
    baseline: str,
    currency: str,
    target: str,
    kind: str,
    p_holm: float,
) -> str:
    """Return the verdict on an arm as one sentence."""
    if comparison.num_reached == comparison.num_baseline_reached == 0:
        return _of_nothing_reached(comparison, arm, baseline, target)
    if kind == "one seed":
        return _of_one_seed(comparison, arm, baseline, currency, target)
    claim = _claim(comparison, arm, baseline, currency, target)
    if math.isnan(comparison.ratio):
        return f"{claim}; {currency} cannot be compared, longer runs would tell."
    return f"{claim}: {_decision(comparison, baseline, kind, p_holm)}."


def survival_sentence(arm: str, other: str, share: Share) -> str:
    """Return how often a ranking survives.

    >>> survival_sentence("oort", "random", Share(17, 24, 17 / 24, 0.508, 0.851))
    'oort before random in 71 % [51, 85] of 24 plausible fleets.'
    """
    low, middle, high = (f"{part * 100:.0f}" for part in (share.low, share.share, share.high))
    return f"{arm} before {other} in {middle} % [{low}, {high}] of {share.num} plausible fleets."


def _of_nothing_reached(comparison: Comparison, arm: str, baseline: str, target: str) -> str:
    neither = f"neither {arm} nor {baseline} reached {target}"
    if comparison.num_pairs == 1:
        return f"{neither}; {NO_EVIDENCE}."
    return f"{neither} in any of {comparison.num_pairs} seeds: nothing to compare."


def _claim(comparison: Comparison, arm: str, baseline: str, currency: str, target: str) -> str:
    num, reached = comparison.num_pairs, comparison.num_reached
    ratio = _ratio_text(comparison, baseline, currency)
    if comparison.num_baseline_reached == 0:
        seen = f"{arm} reached {target} ({reached} of {num} seeds), {baseline} never did"
        if math.isnan(comparison.ratio):
            return f"{seen}, but its runs ended early"
        return f"{seen}; by the end of {baseline}'s runs {arm} used {ratio}"
    both = f"{reached} of {num} seeds, {baseline} {comparison.num_baseline_reached}"
    if reached == 0:
        seen = f"{arm} never reached {target} ({both})"
        if math.isnan(comparison.ratio):
            return f"{seen}, but its runs ended early"
        return f"{seen}; by the end of its runs it used {ratio}"
    if math.isnan(comparison.ratio):
        return f"{arm} and {baseline} never reached {target} in the same world ({both})"
    if comparison.is_restricted:
        return f"{arm} needs {ratio} to {target}, or until a run without it ended ({both})"
    if target == WHOLE_RUN:
        return f"{arm} needs {ratio} for {target} ({num} seeds)"
    return f"{arm} needs {ratio} to {target} ({num} of {num} seeds reached it)"


def _of_one_seed(
    comparison: Comparison, arm: str, baseline: str, currency: str, target: str
) -> str:
    if comparison.num_reached == 0:
        return f"{arm} never reached {target}, {baseline} did; {NO_EVIDENCE}."
    if comparison.num_baseline_reached == 0:
        return f"{arm} reached {target}, {baseline} never did; {NO_EVIDENCE}."
    ratio = _ratio_text(comparison, baseline, currency)
    return f"{arm} needs {ratio} {'for' if target == WHOLE_RUN else 'to'} {target}; {NO_EVIDENCE}."


def _ratio_text(comparison: Comparison, baseline: str, currency: str) -> str:
    """Return the ratio with its interval and what it is a ratio of.

    Two decimals, or as many as two digits of the ratio and one of the interval's width need.
    """
    ratio, low, high = comparison.ratio, comparison.low, comparison.high
    unit = "grams of CO2e" if currency == "grams" else currency
    if low == high == 1.0:
        return f"the same {unit} as {baseline}"
    decimals = 2
    if ratio > 0.0:
        decimals = max(decimals, 1 - math.floor(math.log10(ratio)))
    if low < high:
        decimals = max(decimals, -math.floor(math.log10(min(high - low, 1.0))))
    decimals = min(decimals, _MAX_DECIMALS)
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


def _decision(comparison: Comparison, baseline: str, kind: str, p_holm: float) -> str:
    if kind in ("less", "more"):
        return f"{'fewer' if kind == 'less' else 'more'} than {baseline} (p {_p_text(p_holm)})"
    if comparison.low == comparison.high == 1.0:
        return "no difference was seen"
    return f"cannot be told from {baseline}; {_seeds_text(comparison)}"


def _seeds_text(comparison: Comparison) -> str:
    if comparison.num_more_seeds is None:
        return f"more than {MOST_SEEDS:,} seeds would be needed"
    total = comparison.num_pairs + comparison.num_more_seeds
    if comparison.low == comparison.high:
        return f"{total} such seeds would"
    step = 10 ** max(len(str(total)) - 2, 0)
    return f"about {math.ceil(total / step) * step:,} seeds would"


def _p_text(p: float) -> str:
    """Return a p-value to two digits, with its relation.

    >>> _p_text(0.0123), _p_text(0.05), _p_text(0.00001)
    ('= 0.012', '= 0.050', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"= {p:#.2g}"
