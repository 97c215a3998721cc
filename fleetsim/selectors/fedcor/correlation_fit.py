"""Maximum-likelihood fit of FedCor's covariance: a point for each client.

The points X = [x_1 ... x_N] of D x N give the covariance Sigma
(`fleetsim.selectors.fedcor.equations`). They are fitted to observed loss changes y_1 ... y_S of
ages a_s by Adam on the discounted log marginal likelihood

    L(X) = sum over s of gamma^(a_s) log N(y_s; mu, Sigma),    Sigma = X^T X + sigma_n^2 I,

each observation with the clients that answered (NaN for the others). With C = sigma_n^2 I +
X X^T of D x D it is X Sigma^-1 = C^-1 X, so that with the residuals R = y - mu of S x N and the
weights g_s = gamma^(a_s)

    dL/dX = C^-1 X ( R^T diag(g) R Sigma^-1 - (sum of g) I ),

which takes O(S N D + N D^2) and no inverse of N x N.

Source: as `fleetsim.selectors.fedcor.equations`; the closed gradient in place of automatic
differentiation is fleetsim's.
"""

import math
from typing import NamedTuple

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.selectors.fedcor.equations import noise_variance

_FIRST_MOMENT, _SECOND_MOMENT, _ADAM_EPSILON = 0.9, 0.999, 1e-8


def initial_points(normals: FloatArray) -> FloatArray:
    """Return the initial X [D, N] from independent standard normals [D, N]: |x_k| is about 1.

    >>> initial_points(np.full((4, 1), 3.0)).ravel().tolist()
    [1.5, 1.5, 1.5, 1.5]

    Source: Yoruko-Tang/FedCor@d941083 `src/GPR.py`.
    """
    return normals / math.sqrt(normals.shape[0])


def mean_changes(changes: FloatArray, ages: IntArray, discount: float) -> FloatArray:
    """Return the discounted mean mu of the observed changes [N]; 0 for a client never observed.

    Rows of loss changes [S, N] are NaN where not observed, and `ages` rounds old [S].

    >>> mean_changes(np.array([[-4.0, np.nan], [-1.0, np.nan]]), np.array([1, 0]), 0.5).tolist()
    [-2.0, 0.0]

    Source: Yoruko-Tang/FedCor@d941083 `src/GPR.py`, the discounted mean.
    """
    is_observed = ~np.isnan(changes)
    weights = (discount**ages)[:, None] * is_observed
    sums = (weights * np.where(is_observed, changes, 0.0)).sum(axis=0)
    totals = weights.sum(axis=0)
    mean = np.zeros(totals.shape)
    np.divide(sums, totals, out=mean, where=totals > 0.0)
    return mean


def remembered(changed_in: IntArray, round_: int, history: int) -> BoolArray:
    """Return a mask of the observations at most `history` rounds old in a round [S].

    >>> remembered(np.array([1, 5, 6]), 15, 10).tolist()
    [False, True, True]

    Source: Yoruko-Tang/FedCor@d941083 `src/GPR.py`, the group size.
    """
    return changed_in + history >= round_


def fitted(
    points: FloatArray,
    changes: FloatArray,
    ages: IntArray,
    *,
    num_steps: int,
    discount: float,
    mean: FloatArray | None = None,
    noise: float = 0.01,
    learning_rate: float = 0.01,
) -> FloatArray:
    """Return X after steps of Adam on L [D, N]; a new array.

    Every fit begins with new moments, as in the authors' code.
    Points X are [D, N], loss changes [S, N], NaN where not observed, of rows `ages` rounds old [S].
    Without a mean mu [N] it is zero; the noise is sigma_n, the discount gamma.

    Source: FedCor (Tang et al., CVPR 2022); Adam as in Yoruko-Tang/FedCor@d941083.
    """
    mean = np.zeros(points.shape[1]) if mean is None else mean
    observed = patterns(points, changes, discount ** ages.astype(np.float64), mean)
    points = points.copy()
    first, second = np.zeros(points.shape), np.zeros(points.shape)
    for step in range(1, num_steps + 1):
        _, gradient = log_likelihood(points, observed, noise)
        first = _FIRST_MOMENT * first + (1.0 - _FIRST_MOMENT) * gradient
        second = _SECOND_MOMENT * second + (1.0 - _SECOND_MOMENT) * gradient**2
        direction = first / (1.0 - _FIRST_MOMENT**step)
        scale = np.sqrt(second / (1.0 - _SECOND_MOMENT**step)) + _ADAM_EPSILON
        points += learning_rate * direction / scale
    return points


class Pattern(NamedTuple):
    """Observations with the same observed clients."""

    clients: IntArray
    """Ids of the n clients [n]."""
    residuals: FloatArray
    """y - mu [S, n]."""
    weights: FloatArray
    """Weight of each observation [S]."""


def patterns(
    points: FloatArray, changes: FloatArray, weights: FloatArray, mean: FloatArray
) -> list[Pattern]:
    """Return observations by the clients that they observe.

    Points X are [D, N], loss changes [S, N], NaN where not observed, with weights gamma^age of the
    rows [S], and means mu [N].

    Source: FedCor (Tang et al., CVPR 2022), with missing answers, which it does not have.
    """
    seen, number_of = np.unique(~np.isnan(changes), axis=0, return_inverse=True)
    result = []
    for number, is_seen in enumerate(seen):
        rows, clients = np.flatnonzero(number_of.ravel() == number), np.flatnonzero(is_seen)
        residuals = changes[np.ix_(rows, clients)] - mean[clients]
        result.append(Pattern(clients, residuals, weights[rows]))
    return result


def log_likelihood(
    points: FloatArray, observed: list[Pattern], noise: float
) -> tuple[float, FloatArray]:
    """Return L and its gradient dL/dX [D, N].

    Source: FedCor (Tang et al., CVPR 2022), the likelihood that the embedding maximises.
    """
    value, gradient = 0.0, np.zeros(points.shape)
    variance = noise_variance(points, noise)
    for clients, residuals, weights in observed:
        seen = points[:, clients]
        inner = variance * np.eye(seen.shape[0]) + seen @ seen.T
        projected = np.linalg.solve(inner, seen)
        # Sigma^-1 R^T without Sigma: (R - R X^T C^-1 X) / sigma_n^2.
        whitened = (residuals - (residuals @ seen.T) @ projected) / variance
        quadratic = np.einsum("si,si->s", residuals, whitened)
        # det Sigma = sigma_n^(2 (n - D)) det C.
        log_det = (clients.size - seen.shape[0]) * math.log(variance) + np.linalg.slogdet(inner)[1]
        density = -0.5 * (quadratic + log_det + clients.size * math.log(2.0 * math.pi))
        value += float(weights @ density)
        part = ((projected @ residuals.T) * weights) @ whitened - weights.sum() * projected
        gradient[:, clients] += part
    return value, gradient
