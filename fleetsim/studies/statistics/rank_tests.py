"""Exact tests of paired differences by their order alone.

Signed-rank test: Wilcoxon, Biometrics Bulletin 1:80-83, 1945; zeros are ranked, then left out
(Pratt, JASA 54:655-667, 1959), ties have mean ranks. The p-value is the share of all 2^m signs of
the m differences that are not zero, with a rank sum at least as far from its mean. So differences
may be infinite: a run that never reached the target is beaten by any that did.

Sign test: Dixon and Mood, JASA 41:557-566, 1946: binomial, zeros left out.

No p-value can be less than 2^(1 - n): with 5 pairs 0.0625, so neither test can decide at 5 % then.
"""

import numpy as np
from scipy import stats

from fleetsim.contracts import FloatArray


def signed_rank_test(difference: FloatArray) -> float:
    """Return the exact two-sided p-value of Wilcoxon's signed-rank test of [n].

    >>> signed_rank_test(np.array([-3.0, -1.0, -2.0, -5.0, -4.0]))
    0.0625
    """
    is_ordered = difference != 0.0
    # Mean ranks are halves, so twice the ranks are whole numbers: sums index an array.
    ranks = np.rint(2.0 * stats.rankdata(np.abs(difference))[is_ordered]).astype(np.int64)
    total, positive = int(np.sum(ranks)), int(np.sum(ranks[difference[is_ordered] > 0.0]))
    share = np.zeros(total + 1)
    share[0] = 1.0
    for rank in ranks:
        share[rank:] += share[: total + 1 - rank].copy()
        share *= 0.5
    tail = float(np.sum(share[: min(positive, total - positive) + 1]))
    return min(2.0 * tail, 1.0)


def sign_test(difference: FloatArray) -> float:
    """Return the exact two-sided p-value of the sign test of [n].

    >>> sign_test(np.array([-3.0, -1.0, 0.0, -5.0, -4.0]))
    0.125
    """
    num_ordered = int(np.sum(difference != 0.0))
    if num_ordered == 0:
        return 1.0
    return float(stats.binomtest(int(np.sum(difference > 0.0)), num_ordered).pvalue)


def least_p(num_pairs: int) -> float:
    """Return the least p-value that either test can have: all differences of one sign.

    >>> least_p(5), least_p(6)
    (0.0625, 0.03125)
    """
    return min(2.0 ** (1 - num_pairs), 1.0)


def pairs_needed(alpha: float) -> int:
    """Return the fewest pairs with which either test can have p <= alpha.

    >>> pairs_needed(0.05), pairs_needed(0.05 / 3)
    (6, 7)
    """
    num_pairs = 1
    while least_p(num_pairs) > alpha:
        num_pairs += 1
    return num_pairs
