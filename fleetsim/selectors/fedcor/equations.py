"""What FedCor computes from how clients' losses move together: whom to train.

The changes of all N clients' losses in a round are taken as one draw of a Gaussian process,

    Delta l ~ N(mu, Sigma),    Sigma = X^T X + sigma_n^2 I,    X = [x_1 ... x_N] of D x N,

with a point x_k for every client (linear kernel; `fleetsim.selectors.fedcor.correlation_fit` fits
them). If client k trains, its loss falls by about alpha_k standard deviations, and the expected
change of the total loss is proportional to

    s_k = alpha_k / sqrt(Sigma_kk) * sum over i of p_i Sigma_ik.

FedCor takes the k with the largest s_k, conditions Sigma on it (its row and column become 0),

    Sigma <- Sigma - Sigma_.k Sigma_k. / Sigma_kk,

and goes on until K are chosen. alpha_k falls by the factor beta whenever k is chosen, and is 1
again after every fit, so that nobody is chosen for ever on an old covariance.

Source: Tang, Ning, Wang, Sun, Wang, Li, Chen, "FedCor: correlation-based active client selection
strategy for heterogeneous federated learning", CVPR 2022, as in Yoruko-Tang/FedCor@d941083
`src/GPR.py` and `src/federated_main.py`. That code sums s_k over the clients not yet chosen; over
all it is the same, because the rows of those chosen are 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.selectors.tie_breaking import best

SumOver = Literal["remaining", "all"]


def covariance(points: FloatArray, noise: float = 0.01) -> FloatArray:
    """Sigma = X^T X + sigma_n^2 I [N, N] of the points [D, N].

    Raises:
        ValueError: `noise` (sigma_n) is not above 0.

    Source: FedCor (Tang et al., CVPR 2022), the linear kernel.
    """
    if not noise > 0.0:
        raise ValueError(f"noise must be above 0, got {noise}")
    return points.T @ points + noise**2 * np.eye(points.shape[1])


def conditioned(covariance: FloatArray, client: int) -> FloatArray:
    """Sigma [N, N] once the loss change of one client is known; a new array.

    Raises:
        ValueError: its variance is not above 0, as after it was conditioned on already.

    Source: FedCor (Tang et al., CVPR 2022), the posterior covariance.
    """
    variance = covariance[client, client]
    if not variance > 0.0:
        raise ValueError(f"the variance of client {client} must be above 0, got {variance}")
    column = covariance[:, client]
    result: FloatArray = covariance - np.outer(column, column / variance)
    # What is known varies no more: exactly 0, also after rounding.
    result[client, :] = 0.0
    result[:, client] = 0.0
    return result


def scores(
    covariance: FloatArray, alpha: FloatArray, weights: FloatArray, counted: BoolArray
) -> FloatArray:
    """s_k of every client [N], NaN where its variance is 0.

    Args:
        covariance: Sigma [N, N].
        alpha: how much of its standard deviation a client's loss falls [N].
        weights: p_i, the share of each client in the total loss [N].
        counted: clients i that the sum runs over [N].

    Source: FedCor (Tang et al., CVPR 2022), the selection criterion.
    """
    variance = np.diagonal(covariance)
    result = np.full(variance.shape, np.nan)
    total = covariance @ np.where(counted, weights, 0.0)
    np.divide(alpha * total, np.sqrt(variance), out=result, where=variance > 0.0)
    return result


def choose(
    covariance: FloatArray,
    alpha: FloatArray,
    weights: FloatArray,
    candidates: IntArray,
    wanted: int,
    keys: FloatArray,
    sum_over: SumOver = "remaining",
) -> IntArray:
    """Ids of the chosen candidates, one after the other.

    Args:
        covariance: Sigma [N, N]; not changed.
        alpha: [N], see `annealed`.
        weights: p_i, shares of the samples [N].
        candidates: ids of the clients that are there [C].
        wanted: how many to choose (all, if there are fewer).
        keys: order among equal scores, by id [N]; the smaller goes first.
        sum_over: `remaining` counts what a choice does for the candidates not yet chosen, as the
            authors' code does, `all` also what it does for clients that are not there. With
            everybody there the two are the same.

    Raises:
        ValueError: `wanted` is negative.

    Source: FedCor (Tang et al., CVPR 2022), as in Yoruko-Tang/FedCor@d941083 `src/GPR.py`.
    """
    if wanted < 0:
        raise ValueError(f"wanted must not be negative, got {wanted}")
    is_left = np.zeros(weights.size, dtype=np.bool_)
    is_left[candidates] = True
    everybody = np.ones(weights.size, dtype=np.bool_)
    chosen: list[int] = []
    while len(chosen) < wanted and is_left.any():
        left = np.flatnonzero(is_left)
        values = scores(
            covariance, alpha, weights, is_left if sum_over == "remaining" else everybody
        )
        client = int(left[best(values[left], 1, keys[left])[0]])
        chosen.append(client)
        is_left[client] = False
        covariance = conditioned(covariance, client)
    return np.array(chosen, dtype=np.int64)


def annealed(alpha: FloatArray, chosen: IntArray, factor: float) -> FloatArray:
    """Factors alpha [N] after a round in which some clients were chosen: theirs times beta.

    >>> annealed(np.array([1.0, 0.5, 1.0]), np.array([1, 2]), 0.5).tolist()
    [1.0, 0.25, 0.5]

    Source: FedCor (Tang et al., CVPR 2022), the annealing coefficient.
    """
    result = alpha.copy()
    result[chosen] *= factor
    return result
