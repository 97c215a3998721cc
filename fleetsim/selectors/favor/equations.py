"""Equations of Favor: principal axes of models, reward, target of double Q-learning, and choice.

    state   s = ((w_0 - m) V, ..., (w_N - m) V)    row 0 the global model, row k client k [N + 1, d]
    reward  r = Xi^(A - Omega) - 1                 A accuracy, Omega target accuracy, Xi = 64
    target  y = r + gamma Q'(s', argmax over a of Q(s', a));  y = r where s' ends the episode
    choice  the largest Q(s, a) of the candidates; each place with probability epsilon at random

m is the mean and V [P, d] the principal axes of the first models. The notes print s_t in the
target where s_{t+1} is meant.

Axes of principal component analysis have no sign, and those of equal variance no order, so that a
network trained in one run could not read the coordinates of the next. The axes of a run are
therefore turned onto the coordinates that the same clients had where training began, by the
orthogonal Procrustes problem (fleetsim's; distances between models do not change).

Source: Wang, Kaplan, Niu, Li, "Optimizing federated learning on non-IID data with reinforcement
learning", INFOCOM 2020, by secondary sources: notes in translation and a fork of iQua/flsim with a
deep Q-network. The full text was not at hand. van Hasselt, Guez, Silver, "Deep reinforcement
learning with double Q-learning", AAAI 2016 (arXiv 1509.06461), for the target. Schönemann, "A
generalized solution of the orthogonal Procrustes problem", Psychometrika 31, 1966.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Parameters
from fleetsim.selectors.argument_checks import require_all, require_lengths
from fleetsim.selectors.tie_breaking import best

Scaling = Literal["none", "standard"]
"""Models as they are, or each parameter divided by its standard deviation over the models."""

_BLOCK_NUMBERS = 1 << 22
"""Numbers of a block of parameters of all models, 32 MiB."""


def principal_axes(
    models: Sequence[Parameters], num: int, scaling: Scaling = "none"
) -> tuple[FloatArray, FloatArray]:
    """Return the mean [P] and the principal axes [num, P] of models; axes of no variance are 0.

    The largest coordinate of a model along an axis is positive. With `standard` an axis includes
    the division by the standard deviations. Computed by the inner products of the models, in
    blocks of parameters: O(n^2 P) time, and memory for n^2 + num P numbers.

    >>> mean, axes = principal_axes([np.array([1.0, 0.0]), np.array([5.0, 0.0])], 2)
    >>> mean.tolist(), np.abs(axes).round(9).tolist()
    ([3.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])

    Source: Favor (INFOCOM 2020), compression of the state, by notes; `standard` by the fork.
    """
    require_all("principal axes need at least one model", len(models), len(models) > 0)
    mean = np.zeros(models[0].size)
    for model in models:
        mean += model
    mean /= len(models)
    gram = np.zeros((len(models), len(models)))
    for _, centred, _ in _blocks(models, mean, scaling):
        gram += centred @ centred.T
    variances, vectors = np.linalg.eigh(gram)
    order = np.argsort(variances)[::-1][: min(num, len(models))]
    variances, vectors = variances[order], vectors[:, order]
    is_real = variances > len(models) * np.finfo(np.float64).eps * max(variances[0], 0.0)
    variances, vectors = variances[is_real], vectors[:, is_real]
    if variances.size:
        largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(variances.size)]
        vectors = vectors * np.sign(largest)
    axes = np.zeros((num, mean.size))
    for block, centred, deviation in _blocks(models, mean, scaling):
        unit = (vectors.T @ centred) / np.sqrt(variances)[:, np.newaxis]
        axes[: variances.size, block] = unit / deviation
    return mean, axes


def _blocks(
    models: Sequence[Parameters], mean: FloatArray, scaling: Scaling
) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Yield blocks of parameters: their slice, scaled models [n, b] and the divisors [b]."""
    size = max(1, _BLOCK_NUMBERS // len(models))
    for first in range(0, mean.size, size):
        block = slice(first, first + size)
        centred = np.stack([model[block] for model in models]).astype(np.float64) - mean[block]
        deviation = np.ones(centred.shape[1])
        if scaling == "standard":
            spread = np.sqrt(np.mean(centred**2, axis=0))
            deviation = np.where(spread > 0.0, spread, 1.0)
        yield block, centred / deviation, deviation


def coordinates(
    models: Sequence[Parameters], mean: FloatArray, axes: FloatArray | Parameters
) -> FloatArray:
    """Return the coordinates of models along axes [n, d].

    >>> coordinates([np.array([3.0, 4.0])], np.array([1.0, 1.0]), np.array([[0.0, 2.0]])).tolist()
    [[6.0]]

    Source: Favor (INFOCOM 2020), compression of the state, by notes.
    """
    result = np.empty((len(models), axes.shape[0]))
    for row, model in enumerate(models):
        # In the precision of the axes, which a conversion would copy.
        result[row] = axes @ (model - mean).astype(axes.dtype)
    return result


def turn_onto(points: FloatArray, reference: FloatArray) -> FloatArray:
    """Return the orthogonal matrix R [d, d] for which points R is nearest to the reference.

    Points and reference are coordinates of n models [n, d].

    >>> turn_onto(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 3.0], [-1.0, 0.0]])).round(9)
    array([[ 0.,  1.],
           [-1.,  0.]])

    Source: Schönemann (1966); fleetsim's addition to Favor.
    """
    require_lengths(points.shape[0], reference=reference)
    left, _, right = np.linalg.svd(points.T @ reference)
    turn: FloatArray = left @ right
    return turn


def reward(accuracy: float, target_accuracy: float, base: float = 64.0) -> float:
    """Return the reward of a round, Xi^(A - Omega) - 1: 0 at the target, negative below it.

    >>> reward(0.5, 1.0), reward(0.9, 0.9)
    (-0.875, 0.0)

    Source: Favor (INFOCOM 2020), reward, by notes and the fork.
    """
    return math.pow(base, accuracy - target_accuracy) - 1.0


def double_q_target(
    rewards: FloatArray,
    next_values: FloatArray,
    next_target_values: FloatArray,
    is_last: BoolArray,
    discount: float,
) -> FloatArray:
    """Return the target y of each transition [B].

    The network that learns has Q(s', a), which chooses a, and the target network Q'(s', a), which
    evaluates it [B, N]. `is_last` is true where s' ends the episode [B].

    >>> double_q_target(
    ...     np.array([1.0]), np.array([[3.0, 5.0]]), np.array([[8.0, 2.0]]), np.array([False]), 0.5
    ... ).tolist()
    [2.0]

    Source: Favor (INFOCOM 2020), target, by notes, with s_{t+1}; van Hasselt et al. (2016), (4).
    """
    require_lengths(
        rewards.shape[0],
        next_values=next_values,
        next_target_values=next_target_values,
        is_last=is_last,
    )
    chosen = next_values.argmax(axis=1)
    future = next_target_values[np.arange(rewards.size), chosen]
    return rewards + np.where(is_last, 0.0, discount * future)


def exploration_rate(num_rounds: int, first: float, last: float, decay_rounds: float) -> float:
    """Return epsilon after a number of rounds: it falls from the first to the last exponentially.

    >>> exploration_rate(0, 0.9, 0.05, 200.0)
    0.9

    Source: fleetsim's; the sources name epsilon-greedy exploration without its numbers.
    """
    return last + (first - last) * math.exp(-num_rounds / decay_rounds)


def choose(
    values: FloatArray, num: int, num_random: int, keys: FloatArray, draws: FloatArray
) -> IntArray:
    """Return the positions of the largest values, then those of random others.

    Values Q, keys (of equal values the smaller goes first) and draws are of each candidate [C]; the
    `num_random` others are those of the smallest draws.

    >>> values, draws = np.array([1.0, 4.0, 3.0, 2.0]), np.array([0.1, 0.2, 0.9, 0.3])
    >>> choose(values, 3, 2, np.zeros(4), draws).tolist()
    [1, 0, 3]

    Source: Favor (INFOCOM 2020), the largest Q, by notes; epsilon-greedy places, fleetsim's.
    """
    require_lengths(values.shape[0], keys=keys, draws=draws)
    num = min(num, values.size)
    num_random = min(num_random, num)
    greedy = best(values, num - num_random, keys)
    others = np.setdiff1d(np.arange(values.size, dtype=np.int64), greedy, assume_unique=True)
    return np.concatenate([greedy, others[np.argsort(draws[others], kind="stable")][:num_random]])
