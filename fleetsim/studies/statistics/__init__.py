"""Statistics of costs to a target: pure functions on arrays, one value for each seed.

A cost is what a run had spent (rounds, seconds, joules, dollars, grams) when it reached the
target, or when it ended without reaching it: then it is right-censored. Runs are never dropped.
`docs/statistics.md` has every formula with its source, and what simulations measured.

- `summary`: Summary of the costs of one arm over seeds, under right censoring.
- `paired_costs`: Log-ratios of the costs of two arms, paired by seed, where runs may be censored.
- `t_test`: Student's t for the mean of paired log-ratios: the primary interval and test.
- `bootstrap`: BCa bootstrap interval of the mean of paired log-ratios.
- `rank_tests`: Exact tests of paired differences by their order alone.
- `power`: Power of the paired t-test, and the number of seeds that would settle a comparison.
- `comparison`: Comparison of one arm with the baseline, paired by seed.
- `verdict`: Verdicts: which arms of one condition, target and metric differ from the baseline.
- `shares`: Share of wins with its interval, and its sentence: how often a ranking survives.
"""
