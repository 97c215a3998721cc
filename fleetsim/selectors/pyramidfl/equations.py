"""Equations of PyramidFL: the work and the upload of each chosen client.

Clients are chosen as by Oort. The gradient utility of a client measures its last update,

    G_k = |Delta_k|_2 * min(n_k, samples trained) / 100,

and among the K that are kept the one with the largest G has rank 0. Then

    dropout_k = lo + rank_k (hi - lo) / K         share of the update that is not uploaded
    T_k       = T_comp,k + (1 - dropout_k) T_comm,k    its round, with that smaller upload
    T         = max_k T_k                         the round
    ratio_k   = 1 + min(10, beta floor((T - T_k) / (T_comp,k / steps)) / steps)

so that less important clients upload less, and clients that would wait train longer: floor(ratio_k
steps) local steps.

Source: Li, Zeng, Zhang, Cao, "PyramidFL: a fine-grained client selection framework for efficient
federated learning", MobiCom 2022, as in liecn/PyramidFL@527b73e `training/param_server.py`
(`prune_client_tasks`), `training/learner.py` and `training/argParser.py`. That code takes the norm
of Delta minus the last global parameters; here it is the norm of Delta, as the text says. Its
dropout sets whole parameter tensors to zero, each with the probability dropout_k.
"""

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.rounding import ROUNDING_SLACK

MOST_EXTRA = 10.0
"""Largest extra work of a client, in times of its usual work."""


def gradient_utilities(
    update_norm: FloatArray, num_samples: IntArray, num_trained: IntArray
) -> FloatArray:
    """Return G of each client [n] from the norm of its update, its samples and those trained on.

    `num_trained` counts a sample as often as it was used.

    >>> gradient_utilities(np.array([2.0, 3.0]), np.array([50, 50]), np.array([100, 20])).tolist()
    [1.0, 0.6]

    Source: PyramidFL (Li et al., MobiCom 2022), as in liecn/PyramidFL@527b73e.
    """
    return update_norm * np.minimum(num_samples, num_trained) / 100.0


def ranks(utilities: FloatArray) -> IntArray:
    """Return the number of clients with a larger utility [n]; equals share the better rank.

    >>> ranks(np.array([1.0, 3.0, 3.0, 2.0])).tolist()
    [3, 0, 0, 2]

    Source: PyramidFL (Li et al., MobiCom 2022); that equals share a rank is fleetsim's.
    """
    ascending = np.sort(utilities)
    return utilities.size - np.searchsorted(ascending, utilities, side="right").astype(np.int64)


def dropout_fractions(rank: IntArray, *, lowest: float = 0.1, highest: float = 0.6) -> FloatArray:
    """Return the share of its update that each client does not upload [K].

    Rank 0, the best of K, drops the share lo, and rank K - 1 the share hi - (hi - lo) / K.

    >>> dropout_fractions(np.array([0, 4, 1, 2, 3])).round(9).tolist()
    [0.1, 0.5, 0.2, 0.3, 0.4]

    Source: PyramidFL (Li et al., MobiCom 2022), as in liecn/PyramidFL@527b73e.
    """
    return lowest + rank * (highest - lowest) / max(rank.size, 1)


def durations_s(
    compute_s: FloatArray, communicate_s: FloatArray, dropout_fraction: FloatArray
) -> FloatArray:
    """Return T of each client [n]: seconds of computing and of transfers without the dropped share.

    As in the authors' code the download shrinks with the upload. A caller that knows both gives the
    upload alone as `communicate_s` and adds the download to `compute_s`.

    Source: PyramidFL (Li et al., MobiCom 2022), as in liecn/PyramidFL@527b73e.
    """
    return compute_s + (1.0 - dropout_fraction) * communicate_s


def step_ratios(
    duration_s: FloatArray, compute_s: FloatArray, *, num_steps: int, beta: float = 1.0
) -> FloatArray:
    """Return the work of each client in times of its usual work [n], from 1 to 11.

    Seconds T, and those of computing (> 0), are of the usual work of each client [n], which has
    `num_steps` >= 1 local steps or epochs. The share beta of the idle steps is filled: 1 in the
    authors' options, 0.5 in their experiments.

    A round of 30 s, steps of 1 s: the first is idle for 20 s, which are 20 more steps.

    >>> step_ratios(np.array([10.0, 30.0]), np.array([5.0, 25.0]), num_steps=5).tolist()
    [5.0, 1.0]

    Source: PyramidFL (Li et al., MobiCom 2022), as in liecn/PyramidFL@527b73e.
    """
    if duration_s.size == 0:
        return np.empty(0)
    step_s = compute_s / num_steps
    idle_steps = np.floor((float(duration_s.max()) - duration_s) / step_s + ROUNDING_SLACK)
    return 1.0 + np.minimum(MOST_EXTRA, beta * idle_steps / num_steps)


def num_local_steps(ratio: FloatArray, num_steps: int) -> IntArray:
    """Return floor(ratio * steps) of each client [n].

    >>> num_local_steps(np.array([1.0, 1.25]), 10).tolist()
    [10, 12]

    Source: PyramidFL (Li et al., MobiCom 2022), as in liecn/PyramidFL@527b73e.
    """
    return np.floor(ratio * num_steps + ROUNDING_SLACK).astype(np.int64)
