"""Equations of UCB over sets of clients: arms, indices, and the quick initialisation.

An arm is a set of K of the N clients. Its reward in slot t is the average opinion, the mean over
all N clients of the accuracy that each finds on its own data for the model that the set trained.
The arm with the largest index is played:

    Psi_a = r_a + mu sqrt(ln t / Pi_a)      (11)

with r_a the mean reward and Pi_a the number of plays. *Conventional UCB* has to play each arm once
first. *Quick-Init UCB* cuts the clients into ceil(N / K) groups, plays these, and gives every arm
the mean over its members of the reward of the member's group, as if it had been played once.

With mu = 1 the bonus of an arm that was played twice is smaller by sqrt(ln t) (1 - 1/sqrt(2)), 0.67
in slot 200. Accuracies differ by less. So within the paper's 500 slots nearly every slot plays
another arm, in the order of the first estimates.

C(100, 5) is 75 million: the paper could not run Quick-Init with 100 clients, and `arms` refuses
it.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", section IV, Algorithm 1, equations (3), (8), (10), (11). Open there, decided here: the
meaning of "adds the reward of client i to the arms containing client i" (`initial_means`). Members
of a last group that is not full are drawn from the other clients.

BP-UCB has the index (17) of its own (`fleetsim.selectors.bp_ucb.selector`).
"""

import itertools
import math
from typing import Literal

import numpy as np

from fleetsim.contracts import FloatArray, IntArray

Init = Literal["mean", "sum"]

MOST_ARMS = 1_000_000
"""Sets beyond which a bandit over sets is refused, unless told otherwise."""


def arms(num_clients: int, size: int, most: int = MOST_ARMS) -> IntArray:
    """Return all sets of `size` clients, each ascending, in lexicographic order [A, K].

    >>> arms(3, 2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> arms(100, 5)
    Traceback (most recent call last):
    ValueError: 100 clients have 75,287,520 sets of 5, more than 1,000,000

    Source: Tong et al., "From learning to analytics", section IV.
    """
    if not 1 <= size <= num_clients:
        raise ValueError(f"a set must have 1 to {num_clients} clients, got {size}")
    num = math.comb(num_clients, size)
    if num > most:
        raise ValueError(f"{num_clients} clients have {num:,} sets of {size}, more than {most:,}")
    members = itertools.chain.from_iterable(itertools.combinations(range(num_clients), size))
    return np.fromiter(members, dtype=np.int64, count=num * size).reshape(num, size)


def average_opinion(opinions: FloatArray) -> float:
    """Return the reward of a slot: the mean of the opinions that arrived; NaN if none did.

    Opinions are accuracies of the new model on each client's own data [N], NaN without an answer.

    >>> average_opinion(np.array([0.5, 1.0, np.nan, 0.0]))
    0.5

    Source: Tong et al., "From learning to analytics", (3) and (8).
    """
    known = opinions[~np.isnan(opinions)]
    return float(known.mean()) if known.size else math.nan


def index(means: FloatArray, plays: IntArray, slot: int, mu: float) -> FloatArray:
    """Return Psi of each arm [A]; infinite for an arm that was never played.

    Means r and plays Pi are of each arm [A]; slot t is 1 for the first; mu weighs exploration.

    sqrt(ln 2 / 2) = 0.588705:

    >>> index(np.array([0.5, 0.0]), np.array([2, 0]), 2, 1.0).round(6).tolist()
    [1.088705, inf]

    Source: Tong et al., "From learning to analytics", (11).
    """
    result = np.full(means.shape, np.inf)
    is_played = plays > 0
    result[is_played] = means[is_played] + mu * np.sqrt(math.log(slot) / plays[is_played])
    return result


def client_index(
    means: FloatArray, plays: IntArray, beliefs: FloatArray, slot: int, mu: float = 0.01
) -> FloatArray:
    """Return Psi of each client [N] in BP-UCB; infinite for a client without a counted opinion.

    Means r, plays Pi and beliefs b_n(1) in [0, 1] are of each client [N]; slot t is 1 for the
    first; mu weighs exploration.

    Source: Tong et al., "From learning to analytics", (17).
    """
    return index(means, plays, slot, mu) + beliefs / max(beliefs.size, 1)


def rewarded(
    means: FloatArray, plays: IntArray, played: IntArray, rewards: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return means and plays [A] after some arms brought rewards, (10); new arrays.

    The arms `played` are distinct, and each has a reward [n].

    >>> means, plays = rewarded(np.array([0.5, 0.2]), np.array([1, 1]), np.array([0]), np.ones(1))
    >>> means.tolist(), plays.tolist()
    ([0.75, 0.2], [2, 1])

    Source: Tong et al., "From learning to analytics", (10).
    """
    means, plays = means.copy(), plays.copy()
    before = plays[played]
    known = np.where(before > 0, means[played], 0.0)
    plays[played] = before + 1
    means[played] = known + (rewards - known) / (before + 1)
    return means, plays


def initial_means(sets: IntArray, of_clients: FloatArray, init: Init = "mean") -> FloatArray:
    """Return the mean r of every arm after the cold start [A], which counts as one play.

    The mean over the members [A, K] of the rewards of the clients' groups [N] lies in the range of
    rewards; their `sum`, the literal reading, is up to K.

    >>> initial_means(arms(3, 2), np.array([0.5, 0.75, 0.25])).tolist()
    [0.625, 0.375, 0.5]

    Source: Tong et al., "From learning to analytics", Algorithm 1.
    """
    total: FloatArray = of_clients[sets].sum(axis=1)
    return total / sets.shape[1] if init == "mean" else total
