"""Equations of GPFL: gradient projections, rewards, and confidence bounds.

    (3)  c_i = <g_i, G> / |G|                        projection of the client's vector, a length
    (5)  c~_i = exp(c_i) / sum over all j of exp(c_j)
    (8)  mu_i = c~_i * factor for selected clients, c~_i for the others;
         factor = 2 exp(A - A_before) if the accuracy changed, else exp(F - F_before)
    (6)  u_i = mean of mu_i + alpha sqrt(2 ln n / n_i);  (7)  alpha = rho t / T

G is the mean of the vectors aggregated last (at first: of all initial vectors). A client's c_i
stays until its next answer; a client that never answered has c_i = NaN, no share in (5), no reward,
and the bound +infinity.

Choices that the paper leaves open (the first is the default):

* g_i is the sum of the gradients of the SGD steps, (w - w_i) / eta (`gradient`), or w - w_i
  (`delta`);
* mu is averaged over all rounds (`per_round`) or over those in which the client took part
  (`per_pull`);
* n is the sum of all n_i (`pulls`) or t + 1 (`rounds`);
* (8) is as printed, although it rewards a fall in accuracy of less than ln 2 and a rise in loss, or
  exp(A - A_before) and exp(F_before - F) (`corrected`).

The order of a round is: train, update c and the rewards, aggregate, then the bounds of all clients.
(5) depends on the scale: with short vectors all c~ are 1/N and alpha alone decides.

Source: Na, Liang, Yiu, "GPFL: a gradient projection-based client selection framework for efficient
federated learning", arXiv 2403.17833, equations (1) to (8), Algorithm 1.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Parameters

Vector = Literal["gradient", "delta"]
"""Direction of a client: (w - w_i) / eta or w - w_i."""
Adjustment = Literal["printed", "corrected"]
"""Signs and the factor 2 of (8)."""
RewardMean = Literal["per_round", "per_pull"]
"""Rounds over which rewards are averaged: all, or those in which the client took part."""
PlayCount = Literal["pulls", "rounds"]
"""n of (6): the sum of all n_i, or t + 1."""


def client_vector(
    base: Parameters, local: Parameters, learning_rate: float, vector: Vector = "gradient"
) -> FloatArray:
    """Return g_i of one client from the model that it started from and the one returned [P].

    Source: GPFL (arXiv 2403.17833), g_i of (3).
    """
    delta = base.astype(np.float64) - local
    return delta / learning_rate if vector == "gradient" else delta


def direction(vectors: Sequence[Parameters | FloatArray]) -> FloatArray:
    """Return G, the mean of the clients' vectors [P].

    Source: GPFL (arXiv 2403.17833), G of (3).
    """
    total = np.zeros(vectors[0].shape)
    for vector in vectors:
        total += vector
    return total / len(vectors)


def gradient_projection(
    vectors: Iterable[Parameters | FloatArray], global_direction: FloatArray
) -> FloatArray:
    """Return (3): length of each client's vector along the global direction, maybe negative [n].

    All are 0 where the direction is 0.

    >>> gradient_projection([np.array([3.0, 4.0])], np.array([0.0, 2.0])).tolist()
    [4.0]

    Source: GPFL (arXiv 2403.17833), (3).
    """
    length = float(np.linalg.norm(global_direction))
    if length == 0.0:
        return np.array([0.0 for _ in vectors], dtype=np.float64)
    unit = global_direction / length
    return np.array([np.dot(vector, unit) for vector in vectors], dtype=np.float64)


def first_scores(projections: FloatArray) -> FloatArray:
    """Return the scores of round 1: the projections, +infinity where NaN [N].

    Source: GPFL (arXiv 2403.17833), Algorithm 1, initialisation.
    """
    return np.where(np.isnan(projections), np.inf, projections)


def normalised(projections: FloatArray) -> FloatArray:
    """Return (5): softmax over all clients with a projection; NaN for the others [N].

    >>> normalised(np.array([1e4, np.nan, 1e4])).tolist()
    [0.5, nan, 0.5]

    Source: GPFL (arXiv 2403.17833), (5).
    """
    is_known = ~np.isnan(projections)
    if not is_known.any():
        return projections.copy()
    powers: FloatArray = np.exp(projections - projections[is_known].max())
    return powers / float(powers[is_known].sum())


def reward_factor(
    accuracy: float,
    accuracy_before: float,
    loss: float,
    loss_before: float,
    adjustment: Adjustment = "printed",
) -> float:
    """Return (8): factor on the rewards of a round's cohort.

    Accuracies in [0, 1] and losses are of the models after the round and before it, on samples for
    selectors. The adjustment is as printed, or with the signs that the text describes.

    Source: GPFL (arXiv 2403.17833), (8).
    """
    if adjustment == "corrected":
        if accuracy != accuracy_before:
            return math.exp(accuracy - accuracy_before)
        return math.exp(loss_before - loss)
    if accuracy != accuracy_before:
        return 2.0 * math.exp(accuracy - accuracy_before)
    return math.exp(loss - loss_before)


def rewards(shares: FloatArray, is_observed: BoolArray, factor: float) -> FloatArray:
    """Return (5, 8): mu of a round: shares c~, times the factor for clients that delivered [N].

    Source: GPFL (arXiv 2403.17833), (5) and (8).
    """
    return np.where(is_observed, shares * factor, shares)


def with_rewards(
    reward_sum: FloatArray,
    num_rewards: IntArray,
    reward: FloatArray,
    is_observed: BoolArray,
    mean: RewardMean = "per_round",
) -> tuple[FloatArray, IntArray]:
    """Return sums and numbers of rewards after one more round [N], [N].

    The reward mu is NaN for clients that never answered, which do not change [N]. `per_round` also
    counts the rewards of clients that did not deliver. With `per_pull` the initial share is the
    first pull of each client that gave an initial vector.

    Source: GPFL (arXiv 2403.17833), the mean of (6).
    """
    counts = ~np.isnan(reward)
    if mean == "per_pull":
        counts &= is_observed
    return np.where(counts, reward_sum + reward, reward_sum), num_rewards + counts


def exploration_weight(round_: int, planned_rounds: int, rho: float = 1.0) -> float:
    """Return (7): alpha in round t of T; it grows with t.

    Source: GPFL (arXiv 2403.17833), (7).
    """
    return rho * round_ / planned_rounds


def num_plays(num_pulls: IntArray, round_: int, count: PlayCount = "pulls") -> int:
    """Return the number of all plays after round t, n of (6).

    >>> num_plays(np.array([1, 3]), 7), num_plays(np.array([1, 3]), 7, "rounds")
    (4, 8)

    Source: GPFL (arXiv 2403.17833), n of (6).
    """
    return int(num_pulls.sum()) if count == "pulls" else round_ + 1


def confidence_bound(
    reward_sum: FloatArray, num_rewards: IntArray, num_pulls: IntArray, alpha: float, plays: int
) -> FloatArray:
    """Return (6): u of every client [N]; +infinity for one without a reward or a pull.

    Sums and numbers are those of `with_rewards` [N]; n_i is 1 after an initial vector and one more
    for every delivered update [N]; alpha is of `exploration_weight`, n of `num_plays`.

    Source: GPFL (arXiv 2403.17833), (6).
    """
    bound = np.full(reward_sum.shape, np.inf)
    seen = np.flatnonzero((num_rewards > 0) & (num_pulls > 0))
    bonus = np.sqrt(2.0 * math.log(max(plays, 1)) / num_pulls[seen])
    bound[seen] = reward_sum[seen] / num_rewards[seen] + alpha * bonus
    return bound
