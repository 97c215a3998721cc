"""Score of a selection by accuracy, time and energy together (FedGCS).

    p = p_perf * (L / p_L)^(a [L < p_L]) * (E / p_E)^(b [E < p_E])

Within the budgets L and E the score is the performance. Beyond a budget it is reduced by a power of
the ratio. The score is defined for a selection: of a round, or of a run for the policy that made
its selections, each with its own budgets.

Source: Ning et al., "FedGCS: a generative framework for efficient client selection in federated
learning via gradient-based optimization", IJCAI 2024, equation (1), a = b = 2. The budgets are the
user's; the paper gives none.
"""

import numpy as np

from fleetsim.contracts import FloatArray


def comprehensive_score(
    performance: FloatArray,
    latency_s: FloatArray,
    energy_j: FloatArray,
    *,
    budget_s: float,
    budget_j: float,
    latency_penalty: float = 2.0,
    energy_penalty: float = 2.0,
) -> FloatArray:
    """Return the score p of every selection [n].

    Performance is p_perf, such as an accuracy, larger is better; seconds and joules are totals, all
    [n]. The penalties are the exponents a and b.

    Within both budgets; twice the time; twice the time and ten times the energy:

    >>> perf, spent_s, spent_j = np.full(3, 0.8), np.array([5., 20., 20.]), np.array([1., 1., 100.])
    >>> comprehensive_score(perf, spent_s, spent_j, budget_s=10.0, budget_j=10.0).round(6).tolist()
    [0.8, 0.2, 0.002]
    """
    for name, budget in (("budget_s", budget_s), ("budget_j", budget_j)):
        if not budget > 0.0:
            raise ValueError(f"{name} must be above 0, got {budget}")
    # Within the budget the ratio is 1, for any exponent.
    over_s = np.maximum(latency_s, budget_s)
    over_j = np.maximum(energy_j, budget_j)
    return (
        performance * (budget_s / over_s) ** latency_penalty * (budget_j / over_j) ** energy_penalty
    )
