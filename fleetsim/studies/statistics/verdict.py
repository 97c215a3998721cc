"""Verdicts: which arms of one condition, target and currency differ from the baseline.

The rule: an arm differs if the p-value of its paired t-test on log-ratios, adjusted over the arms
by Holm's method, is at most 0.05. The tests by ranks stand beside it and decide nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fleetsim.studies.statistics.comparison import ALPHA, Comparison
from fleetsim.studies.statistics.holm import holm
from fleetsim.studies.statistics.sentence import sentence_of

VerdictKind = Literal["less", "more", "undecided", "one seed"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision on one arm, with the comparison that it rests on."""

    arm: str
    baseline: str
    currency: str
    target: str
    comparison: Comparison
    p_holm: float
    kind: VerdictKind
    sentence: str


def decide(
    comparisons: Mapping[str, Comparison], *, baseline: str, currency: str, target: str
) -> list[Verdict]:
    """Decide on every arm of one condition, target and currency.

    Args:
        comparisons: Arms and their comparisons with the baseline, all of the family: made with
            `num_arms=len(comparisons)`.
        baseline: Name of the baseline.
        currency: Plural of what is counted, such as `joules`.
        target: The target as text, such as `80 %`.
    """
    adjusted = holm(np.array([comparison.p_t for comparison in comparisons.values()]))
    verdicts = []
    for (arm, comparison), p_holm in zip(comparisons.items(), adjusted.tolist(), strict=True):
        kind = _kind_of(comparison, p_holm)
        sentence = sentence_of(
            comparison,
            arm=arm,
            baseline=baseline,
            currency=currency,
            target=target,
            kind=kind,
            p_holm=p_holm,
        )
        verdicts.append(
            Verdict(arm, baseline, currency, target, comparison, p_holm, kind, sentence)
        )
    return verdicts


def _kind_of(comparison: Comparison, p_holm: float) -> VerdictKind:
    if comparison.num_pairs == 1:
        return "one seed"
    if p_holm <= ALPHA:  # false for NaN
        return "less" if comparison.ratio < 1.0 else "more"
    return "undecided"
