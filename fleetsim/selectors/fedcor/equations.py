"""Equations of FedCor: covariance of clients' loss changes, scores and the choice.

The changes of all N clients' losses in a round are modelled as one draw of a Gaussian process,

    Delta l ~ N(mu, Sigma),    Sigma = X^T X + sigma_n^2 I,    X = [x_1 ... x_N] of D x N,

with a point x_k for every client (linear kernel; `fleetsim.selectors.fedcor.correlation_fit` fits
them). If client k trains, its loss falls by about alpha_k standard deviations, and the expected
change of the total loss is proportional to

    s_k = alpha_k / sqrt(Sigma_kk) * sum over i of p_i Sigma_ik.

FedCor takes the k with the largest s_k, conditions Sigma on it (its row and column become 0),

    Sigma <- Sigma - Sigma_.k Sigma_k. / Sigma_kk,

and continues until K are chosen. alpha_k falls by the factor beta whenever k is chosen, and is 1
again after every fit, so that no client is always chosen by an old covariance.

Source: Tang, Ning, Wang, Sun, Wang, Li, Chen, "FedCor: correlation-based active client selection
strategy for heterogeneous federated learning", CVPR 2022, as in Yoruko-Tang/FedCor@d941083
`src/GPR.py` and `src/federated_main.py`. That code sums s_k over the clients not yet chosen; over
all it is the same, because the rows of those chosen are 0.
"""

from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.selectors.tie_breaking import best

SumOver = Literal["remaining", "all"]
_LEAST_NOISE = 1e-12
"""Least noise variance per squared length of the longest point."""


def noise_variance(points: FloatArray, noise: float) -> float:
    """Return sigma_n^2, or the least variance at which Sigma is not singular by rounding.

    That is 1e-12 of the largest squared length of a point, which doubles resolve. The authors'
    sigma_n of 0.01 is above it for points up to a length of 10,000.

    Source: sigma_n of the authors' code (Yoruko-Tang/FedCor@d941083); the floor is fleetsim's.

    >>> noise_variance(np.array([[3.0], [4.0]]), 0.01), noise_variance(np.array([[1e3]]), 1e-12)
    (0.0001, 1e-06)
    """
    return float(max(noise**2, _LEAST_NOISE * np.square(points).sum(axis=0).max(initial=0.0)))


def covariance(points: FloatArray, noise: float = 0.01) -> FloatArray:
    """Return Sigma = X^T X + sigma_n^2 I [N, N] of the points [D, N].

    Source: FedCor (Tang et al., CVPR 2022), the linear kernel.
    """
    return points.T @ points + noise_variance(points, noise) * np.eye(points.shape[1])


def conditioned(covariance: FloatArray, client: int) -> FloatArray:
    """Return Sigma [N, N] conditioned on the loss change of one client; a new array.

    Source: FedCor (Tang et al., CVPR 2022), the posterior covariance.
    """
    variance = covariance[client, client]
    column = covariance[:, client]
    result: FloatArray = covariance - np.outer(column, column / variance)
    # A known change has variance 0, exactly 0 also after rounding.
    result[client, :] = 0.0
    result[:, client] = 0.0
    return result


def scores(
    covariance: FloatArray, alpha: FloatArray, weights: FloatArray, counted: BoolArray
) -> FloatArray:
    """Return s_k of every client [N], NaN where its variance is 0.

    Of Sigma [N, N], the fall alpha of a client's loss by its training in its standard deviations
    [N], its share p_i in the total loss [N], and the clients i that the sum runs over [N].

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
    """Return the ids of the chosen candidates, in the order of the choice.

    Sigma [N, N] is not changed; alpha are the factors of `annealed` [N], p_i shares of the samples
    [N], and of equal scores the smaller key by id goes first [N]. `remaining` sums over the
    candidates not yet chosen, as the authors' code does, `all` also over clients that are not
    available.

    Source: FedCor (Tang et al., CVPR 2022), as in Yoruko-Tang/FedCor@d941083 `src/GPR.py`.
    """
    is_left = np.zeros(weights.size, dtype=np.bool_)
    is_left[candidates] = True
    all_clients = np.ones(weights.size, dtype=np.bool_)
    chosen: list[int] = []
    while len(chosen) < wanted and is_left.any():
        left = np.flatnonzero(is_left)
        values = scores(
            covariance, alpha, weights, is_left if sum_over == "remaining" else all_clients
        )
        client = int(left[best(values[left], 1, keys[left])[0]])
        chosen.append(client)
        is_left[client] = False
        covariance = conditioned(covariance, client)
    return np.array(chosen, dtype=np.int64)


def annealed(alpha: FloatArray, chosen: IntArray, factor: float) -> FloatArray:
    """Return the factors alpha [N] after a round: those of chosen clients times beta.

    >>> annealed(np.array([1.0, 0.5, 1.0]), np.array([1, 2]), 0.5).tolist()
    [1.0, 0.25, 0.5]

    Source: FedCor (Tang et al., CVPR 2022), the annealing coefficient.
    """
    result = alpha.copy()
    result[chosen] *= factor
    return result
