"""Equations of RBCS-F: fairness queues, estimates of exchange times, and the choice of a round.

    z_k   = max(0, z_k + beta - x_k)                          virtual queue, x_k = 1 if selected
    c_k   = (1 / mu_k, s_k, M / B_k)                          context of the round
    H_k   = lambda I + sum of c c^T, b_k = sum of tau c       over the rounds that k delivered in
    tau_k = max(0, c_k^T H_k^-1 b_k - alpha sqrt(c_k^T H_k^-1 c_k))
    S     = argmin over sets of m clients of V max over S of tau_k - sum over S of z_k

mu is the share of the processor that is free, s whether the client took part in the last round, M
the model in bit and B the client's rate. beta is the least share of rounds in which each client
shall be selected, so beta N <= m. A queue grows in every round in which its client is not
selected, available or not; V weighs speed against fairness.

The choice is exact: it takes, for every tau that could be the slowest, the m longest queues among
the clients that are not slower. A heap of m queues over the clients by tau takes O(n log n).

Source: Huang, Lin, Wu, He, Li, Zomaya, "An efficiency-boosting client selection scheme for
federated learning with fairness guarantee", IEEE TPDS 32(7), 2021 (arXiv 2011.01783). Its full text
was not at hand; the equations and numbers are those of a students' re-implementation, with two
corrections: it adds the number c^T c to all of H, and the time of the round before to b.
"""

import heapq

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.selectors.tie_breaking import best

NUM_FEATURES = 3
"""Length of a context."""


def require_guarantee(guaranteed_fraction: float, num_clients: int, wanted: int) -> None:
    """Refuse a share of rounds that m of N clients per round cannot give to all.

    Source: RBCS-F (Huang et al., IEEE TPDS 2021), the fairness constraint.
    """
    if guaranteed_fraction * num_clients > wanted:
        raise ValueError(
            f"guaranteed_fraction must be at most {wanted}/{num_clients} = "
            f"{wanted / num_clients:.4g}, got {guaranteed_fraction}"
        )


def queues_after(
    queues: FloatArray, is_selected: BoolArray, guaranteed_fraction: float = 0.15
) -> FloatArray:
    """Return the queues z after a round [N].

    Queues are 0 at first. The mask has all selected clients, whether they delivered or not [N].

    Source: RBCS-F (Huang et al., IEEE TPDS 2021), the virtual queues.
    """
    return np.maximum(0.0, queues + guaranteed_fraction - is_selected)


def contexts(
    free_fraction: FloatArray, took_part: BoolArray, payload_bit: float, rate_bit_per_s: FloatArray
) -> FloatArray:
    """Return contexts c of the clients considered [n, 3]: 1 / mu, s, and the transfer's seconds.

    mu is the free share of the processor, s tells who was selected in the round before [n].

    Source: RBCS-F (Huang et al., IEEE TPDS 2021), the context.
    """
    return np.column_stack([1.0 / free_fraction, took_part, payload_bit / rate_bit_per_s])


def initial_estimate(num_clients: int, ridge: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Return H and b before the first round: lambda I and 0 [N, 3, 3], [N, 3].

    Source: RBCS-F (Huang et al., IEEE TPDS 2021), the contextual bandit.
    """
    gram = np.tile(ridge * np.eye(NUM_FEATURES), (num_clients, 1, 1))
    return gram, np.zeros((num_clients, NUM_FEATURES))


def with_exchanges(
    gram: FloatArray,
    moment: FloatArray,
    clients: IntArray,
    context: FloatArray,
    exchange_s: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return H and b after a round [N, 3, 3], [N, 3].

    Of distinct clients that delivered: contexts c at the choice of the round [n, 3], and seconds
    from dispatch to answer [n].

    Source: RBCS-F (Huang et al., IEEE TPDS 2021), the contextual bandit.
    """
    gram, moment = gram.copy(), moment.copy()
    gram[clients] += context[:, :, np.newaxis] * context[:, np.newaxis, :]
    moment[clients] += exchange_s[:, np.newaxis] * context
    return gram, moment


def estimated_exchange_s(
    gram: FloatArray, moment: FloatArray, context: FloatArray, alpha: float = 0.1
) -> FloatArray:
    """Return the lower confidence bound tau of each client's exchange time, at least 0 [n].

    H [n, 3, 3], b [n, 3] and c [n, 3] are of each client; alpha is the width of the interval.

    Source: RBCS-F (Huang et al., IEEE TPDS 2021), the contextual bandit.
    """
    if context.shape[0] == 0:
        return np.empty(0)
    weights = np.linalg.solve(gram, context[:, :, np.newaxis])[:, :, 0]
    mean_s: FloatArray = (weights * moment).sum(axis=1)
    variance: FloatArray = (weights * context).sum(axis=1)
    # Rounding can make it negative where transfers take very long.
    return np.maximum(0.0, mean_s - alpha * np.sqrt(np.maximum(variance, 0.0)))


def choose(
    queues: FloatArray, exchange_s: FloatArray, num: int, keys: FloatArray, penalty: float = 10.0
) -> IntArray:
    """Return positions of the `num` clients (all, if there are fewer) of the least cost.

    The longest queue comes first. Among sets of equal cost the one with the fastest slowest client
    is taken.
    Queues z, times tau and distinct keys are of each client considered [n]; among equal queues the
    smaller key goes first. The penalty V is the price of a second.

    Source: RBCS-F (Huang et al., IEEE TPDS 2021), the objective of a round.
    """
    num = min(num, queues.size)
    if num == 0:
        return np.empty(0, dtype=np.int64)
    limit_s = _best_limit_s(queues, exchange_s, num, penalty)
    not_slower = np.flatnonzero(exchange_s <= limit_s)
    return not_slower[best(queues[not_slower], num, keys[not_slower])]


def _best_limit_s(queues: FloatArray, exchange_s: FloatArray, num: int, penalty: float) -> float:
    """Return the time of the slowest client in the best set of `num` clients."""
    order = np.lexsort((queues, exchange_s))
    largest_total = float(np.partition(queues, queues.size - num)[queues.size - num :].sum())
    longest: list[float] = []
    total, least_cost, limit_s = 0.0, np.inf, 0.0
    for client in order.tolist():
        queue, time_s = float(queues[client]), float(exchange_s[client])
        if penalty * time_s - largest_total >= least_cost:
            break
        if len(longest) < num:
            heapq.heappush(longest, queue)
            total += queue
        elif queue > longest[0]:
            total += queue - heapq.heapreplace(longest, queue)
        if len(longest) == num and penalty * time_s - total < least_cost:
            least_cost, limit_s = penalty * time_s - total, time_s
    return limit_s
