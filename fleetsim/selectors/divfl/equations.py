"""Equations of DivFL: distances between gradients, and a set that represents all of them.

    d_ik = |g_i - g_k|_2                                    dissimilarity
    cost(S) = sum over all clients i of min over k in S of d_ik

DivFL takes the S of K clients with the least cost, that is, whose gradients lie nearest to those of
all clients (facility location). The greedy rule takes the client that lowers the cost most, K
times; the first is the medoid. With d_0 >= all d the gain f(S) = N d_0 - cost(S) is monotone and
submodular with f({}) = 0, so that the greedy set reaches (1 - 1/e) of the best f. The stochastic
rule considers a random sample of the candidates in each step.

The represented clients (rows) and the candidates (columns) may differ: a client that is not
available still has an old gradient, and is to be represented.

Source: Balakrishnan, Li, Zhou, Himayat, Smith, Bilmes, "Diverse client selection for federated
learning via submodular maximization", ICLR 2022, as in melodi-lab/divfl@4a5b80d
`flearn/trainers/fedbase.py`, whose lazy greedy rule finds the same set as the plain one. The bound:
Nemhauser, Wolsey, Fisher, "An analysis of approximations for maximizing submodular set functions",
Mathematical Programming 14 (1978).
"""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.counts import floor_product
from fleetsim.rounding import ROUNDING_SLACK
from fleetsim.selectors.tie_breaking import best

Metric = Literal["l2", "squared_l2"]
Vectors = NDArray[np.floating[Any]]

_COLUMNS_AT_ONCE = 1 << 13
"""A hundred clients' block in double precision stays in a cache of 8 MB."""
_CANCELLED = 1e-6
"""Squared distances below this share of the squared norms are computed from the differences."""


def dissimilarities(
    gradients: Vectors, others: Vectors | None = None, metric: Metric = "l2"
) -> FloatArray:
    """Return distances d of gradients [A, P] to others [B, P] or among themselves: [A, B].

    Equal gradients have distance 0 exactly, and d_ik = d_ki exactly where they are compared among
    themselves.

    Source: DivFL (Balakrishnan et al., ICLR 2022); squared distances as in euphoria0-0's code.
    """
    if others is None:
        squared = _squared_distances(gradients, gradients)
        squared = np.minimum(squared, squared.T)
        np.fill_diagonal(squared, 0.0)
    else:
        squared = _squared_distances(gradients, others)
    return squared if metric == "squared_l2" else np.sqrt(squared)


def refreshed(
    dissimilarity: FloatArray, gradients: Vectors, clients: IntArray, metric: Metric = "l2"
) -> FloatArray:
    """Return dissimilarities [N, N] after the gradients of some clients have changed.

    The gradients [N, P] include the new ones, those of `clients` [n].

    Source: the lazy refresh of DivFL (Balakrishnan et al., ICLR 2022).
    """
    changed = dissimilarities(gradients[clients], gradients, metric)
    changed[np.arange(clients.size), clients] = 0.0
    result = dissimilarity.copy()
    result[:, clients] = changed.T
    # Both orders of a pair that changed are the same number.
    among = np.minimum(changed[:, clients], changed[:, clients].T)
    result[clients, :] = changed
    result[np.ix_(clients, clients)] = among
    return result


def greedy(
    dissimilarity: FloatArray,
    num: int,
    keys: FloatArray,
    uniforms: FloatArray | None = None,
    size: int = 0,
) -> IntArray:
    """Return the columns that lower the cost most, chosen in sequence, the medoid first.

    Dissimilarities are of represented clients to candidates [A, C]; among candidates that lower the
    cost equally the smaller key goes first [C]. The stochastic rule considers in step s the `size`
    >= 1 remaining candidates with the smallest uniforms of row s [num, C], otherwise all.

    >>> apart = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 8.0], [9.0, 8.0, 0.0]])
    >>> greedy(apart, 2, np.zeros(3)).tolist()
    [1, 2]

    Source: DivFL (Balakrishnan et al., ICLR 2022), the greedy rule; stochastic greedy in
    melodi-lab/divfl@4a5b80d.
    """
    num = min(num, dissimilarity.shape[1])
    left = np.arange(dissimilarity.shape[1], dtype=np.int64)
    nearest = np.full(dissimilarity.shape[0], np.inf)
    chosen = np.empty(num, dtype=np.int64)
    for step in range(num):
        sample = left
        if uniforms is not None and size < left.size:
            sample = np.sort(left[np.argpartition(uniforms[step, left], size)[:size]])
        closer = np.minimum(nearest[:, None], dissimilarity[:, sample])
        position = int(best(-_costs(closer), 1, keys[sample])[0])
        chosen[step] = sample[position]
        nearest = closer[:, position]
        left = left[left != chosen[step]]
    return chosen


def sample_size(num: int, num_candidates: int, fraction: float = 0.1) -> int:
    """Return the sample size of a step of the stochastic rule: max(K, floor(fraction C)).

    >>> sample_size(10, 300), sample_size(10, 20)
    (30, 10)

    Source: stochastic greedy in melodi-lab/divfl@4a5b80d.
    """
    return max(num, floor_product(fraction, num_candidates))


def cluster_sizes(dissimilarity: FloatArray, chosen: IntArray) -> IntArray:
    """Return the number of rows that each chosen column represents [n]; ties go to the first.

    These are the paper's weights gamma_k of an aggregation in which each chosen client represents
    its cluster.

    >>> apart = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 8.0], [9.0, 8.0, 0.0]])
    >>> cluster_sizes(apart, np.array([1, 2])).tolist()
    [2, 1]

    Source: DivFL (Balakrishnan et al., ICLR 2022), the weights gamma.
    """
    if chosen.size == 0:
        return np.zeros(0, dtype=np.int64)
    nearest = dissimilarity[:, chosen].argmin(axis=1)
    return np.bincount(nearest, minlength=chosen.size).astype(np.int64)


def _costs(nearest: FloatArray) -> FloatArray:
    """Return sums of the columns [A, C] -> [C], exact for those near the least sum.

    Two clients that are nearest to each other lower the cost equally: a tie with the same terms in
    another order, which the rounding of a sum must not decide.
    """
    costs: FloatArray = nearest.sum(axis=0)
    for column in np.flatnonzero(costs <= costs.min() * (1.0 + ROUNDING_SLACK)):
        costs[column] = math.fsum(nearest[:, column])
    return costs


def _squared_distances(a: Vectors, b: Vectors) -> FloatArray:
    """Return |a_i - b_k|^2 [A, B], by blocks of parameters in double precision."""
    norms_a = np.zeros(a.shape[0])
    norms_b = np.zeros(b.shape[0])
    products = np.zeros((a.shape[0], b.shape[0]))
    for first in range(0, a.shape[1], _COLUMNS_AT_ONCE):
        block = slice(first, first + _COLUMNS_AT_ONCE)
        left = a[:, block].astype(np.float64)
        right = left if b is a else b[:, block].astype(np.float64)
        norms_a += np.einsum("ip,ip->i", left, left)
        norms_b += np.einsum("ip,ip->i", right, right)
        products += left @ right.T
    norms = norms_a[:, None] + norms_b
    squared = norms - 2.0 * products
    # The difference cancels the digits of near pairs.
    for i, k in zip(*np.nonzero(squared <= _CANCELLED * norms), strict=True):
        difference = a[i].astype(np.float64) - b[k].astype(np.float64)
        squared[i, k] = difference @ difference
    return squared
