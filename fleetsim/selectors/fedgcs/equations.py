"""Equations of FedGCS: the score of a selection, its normalisation, losses and a step of ascent.

    (1)  p = p_perf (L / p_L)^(a 1[L < p_L]) (E / p_E)^(b 1[E < p_E])
    (6)  L_seq2seq = - sum over t of ln P(s_t | s_<t, E_s)
    (7)  L_score = (p - p^)^2
    (8)  L = alpha L_seq2seq + (1 - alpha) L_score
    (9)  E+ = E + eta d omega(E) / d E

p_perf, p_L and p_E are performance, seconds and joules of the selection, L and E budgets of these.

The paper leaves the budgets to the developer; here they are the medians of the records unless they
are given. It does not say whether scores are normalised; here the evaluator learns scores scaled to
[0, 1] over the records, as in the authors' code, because (8) weighs squared differences of scores
against logarithms. (6) is a sum over some ten tokens, which leaves (7) little weight; the mean is
another reading. T of (6) here includes the token that ends a selection, which the decoder must
learn to generate.

Source: Ning, Tian, Xiao, Fan, Wang, Li, Wang, Zhou, "FedGCS: a generative framework for efficient
client selection in federated learning via gradient-based optimization", IJCAI 2024, arXiv
2405.06312, equations (1) and (6) to (9); zhiyuan-ning/GenerativeFL@785773b.
"""

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.selectors.argument_checks import require_lengths


def scores(
    performance: FloatArray,
    latency_s: FloatArray,
    energy_j: FloatArray,
    *,
    budget_s: float,
    budget_j: float,
    latency_exponent: float = 2.0,
    energy_exponent: float = 2.0,
) -> FloatArray:
    """Return (1): comprehensive scores of selections [R]; more is better.

    Performance is not negative [R]. Selections that take longer than L seconds or more than E
    joules are penalised, with the exponents a and b.

    >>> performance, seconds, joules = np.full(3, 0.5), np.array([5.0, 20.0, 20.0]), np.ones(3)
    >>> scores(performance, seconds, np.array([9.0, 9.0, 30.0]), budget_s=10.0, budget_j=15.0)
    array([0.5    , 0.125  , 0.03125])

    Source: FedGCS (arXiv 2405.06312), (1).
    """
    require_lengths(performance.shape[0], latency_s=latency_s, energy_j=energy_j)
    # L / p_L is at most 1, and costs of 0 do not divide.
    share_s = budget_s / np.maximum(latency_s, budget_s)
    share_j = budget_j / np.maximum(energy_j, budget_j)
    factors = share_s**latency_exponent * share_j**energy_exponent
    return np.asarray(performance * factors, dtype=np.float64)


def scaled(values: FloatArray, low: float, high: float) -> FloatArray:
    """Return values scaled so that the range from low to high is [0, 1]; 0 if it is empty [R].

    >>> scaled(np.array([4.0, 8.0]), 2.0, 6.0).tolist()
    [0.5, 1.5]

    Source: the scores of zhiyuan-ning/GenerativeFL@785773b.
    """
    # The range of a few equal numbers must not divide by zero.
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
