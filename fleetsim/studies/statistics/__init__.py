"""Statistics of costs to a target: pure functions on arrays, one value for each seed.

A cost is what a run had spent (rounds, seconds, joules, dollars, grams) when it reached the
target, or when it ended without reaching it: then it is right-censored. Runs are never dropped.
`docs/statistics.md` has every formula with its source, and what simulations measured.

- `summary`: costs of one arm over seeds.
- `paired_costs`: log-ratios of two arms, seed by seed.
- `t_test`: interval and test of the mean log-ratio; the primary ones.
- `bootstrap`: BCa interval of the mean log-ratio.
- `rank_tests`: exact Wilcoxon signed-rank test and sign test.
- `holm`: p-values adjusted for several comparisons.
- `power`: number of seeds that would settle a comparison.
- `comparison`: one arm against the baseline.
- `verdict`: decision on each arm of a condition, target and currency.
- `sentence`: decisions in plain English.
- `shares`: share of wins with its interval.
"""

from fleetsim.studies.statistics.comparison import Comparison, compare
from fleetsim.studies.statistics.holm import holm
from fleetsim.studies.statistics.paired_costs import up_to_budget
from fleetsim.studies.statistics.sentence import survival_sentence
from fleetsim.studies.statistics.shares import Share, survival_share
from fleetsim.studies.statistics.summary import Summary, summarise
from fleetsim.studies.statistics.verdict import Verdict, decide

__all__ = [
    "Comparison",
    "Share",
    "Summary",
    "Verdict",
    "compare",
    "decide",
    "holm",
    "summarise",
    "survival_sentence",
    "survival_share",
    "up_to_budget",
]
