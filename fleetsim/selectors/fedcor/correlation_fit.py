"""Maximum-likelihood fit of FedCor's covariance: a point for each client.

The points X = [x_1 ... x_N] of D x N give the covariance Sigma
(`fleetsim.selectors.fedcor.equations`). They are fitted to observed loss changes y_1 ... y_S of
ages a_s by Adam on the discounted log marginal likelihood

    L(X) = sum over s of gamma^(a_s) log N(y_s; 0, Sigma),     Sigma = X^T X + sigma_n^2 I,

each observation with the clients that answered (NaN for the others). With C = sigma_n^2 I +
X X^T of D x D it is X Sigma^-1 = C^-1 X, so that with the changes R = y of S x N and the
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
    noise: float = 0.01,
    learning_rate: float = 0.01,
) -> FloatArray:
    """Return X after steps of Adam on L [D, N]; a new array.

    Every fit begins with new moments, as in the authors' code.
    Points X are [D, N], loss changes [S, N], NaN where not observed, of rows `ages` rounds old [S].
    The noise is sigma_n, the discount gamma.

    Source: FedCor (Tang et al., CVPR 2022); Adam as in Yoruko-Tang/FedCor@d941083.
    """
    observed = patterns(changes, discount ** ages.astype(np.float64))
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
    """y [S, n]."""
    weights: FloatArray
    """Weight of each observation [S]."""


def patterns(changes: FloatArray, weights: FloatArray) -> list[Pattern]:
    """Return observations by the clients that they observe.

    Loss changes are [S, N], NaN where not observed, with weights gamma^age of the rows [S].

    Source: FedCor (Tang et al., CVPR 2022), with missing answers, which it does not have.
    """
    seen, number_of = np.unique(~np.isnan(changes), axis=0, return_inverse=True)
    result = []
    for number, is_seen in enumerate(seen):
        rows, clients = np.flatnonzero(number_of.ravel() == number), np.flatnonzero(is_seen)
        result.append(Pattern(clients, changes[np.ix_(rows, clients)], weights[rows]))
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
