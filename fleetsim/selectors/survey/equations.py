"""Equations of the survey's policies: average loss, its confidence bound, and no repeats.

    policy 1   A_k(t) = p_k L_k / N_k                                  p_k = n_k / sum of all n
    policy 2   A_k(t) = p_k (L_k / N_k + sqrt(2 ln t / N_k))
    policy 3   uniformly among those that did not take part in the round before

L_k is the sum of the N_k mean training losses that client k has reported. The bonus of policy 2 is
multiplied by p_k, too. The paper divides by N_k = 0: a client that never reported scores +infinity
here, so that the first rounds select all clients once. The logarithm is the natural one.

Policies 1 and 2 take the largest scores (`fleetsim.selectors.tie_breaking.best`). Policy 3
needs twice as many clients as are wanted; with fewer it takes all others first and fills up at
random.

Source: Bhuyan, Banzal, Zacharia, Laddha, "Survey of client selection methods in federated
learning", course project CS 726, 2022, equations (1) and (2).
"""

import math

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.selectors.argument_checks import require_lengths
from fleetsim.selectors.tie_breaking import best


def sample_shares(num_samples: IntArray) -> FloatArray:
    """Return p_k of every client of the fleet [N]; they sum to 1.

    >>> sample_shares(np.array([1, 3])).tolist()
    [0.25, 0.75]

    Source: Bhuyan et al., CS 726, 2022, p_k.
    """
    total = int(num_samples.sum())
    return num_samples / max(total, 1)


def with_losses(
    loss_sum: FloatArray, num_losses: IntArray, clients: IntArray, losses: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return L_k and N_k after a round [N], [N].

    Sums and numbers are 0 at first. A loss that is not finite does not count [n].

    Source: Bhuyan et al., CS 726, 2022, L_k and N_k of (1).
    """
    require_lengths(clients.shape[0], losses=losses)
    is_known = np.isfinite(losses)
    total, num = loss_sum.copy(), num_losses.copy()
    total[clients[is_known]] += losses[is_known]
    num[clients[is_known]] += 1
    return total, num


def average_loss_scores(
    shares: FloatArray, loss_sum: FloatArray, num_losses: IntArray
) -> FloatArray:
    """Return (1): policy 1's score of each client considered [n]; +infinity where N_k = 0.

    Source: Bhuyan et al., CS 726, 2022, (1).
    """
    require_lengths(shares.shape[0], loss_sum=loss_sum, num_losses=num_losses)
    scores = np.full(shares.shape, np.inf)
    seen = np.flatnonzero(num_losses)
    scores[seen] = shares[seen] * loss_sum[seen] / num_losses[seen]
    return scores


def confidence_bound_scores(
    shares: FloatArray, loss_sum: FloatArray, num_losses: IntArray, round_: int
) -> FloatArray:
    """Return (2): policy 2's score in round t >= 1 of each client considered [n].

    Source: Bhuyan et al., CS 726, 2022, (2).
    """
    scores = average_loss_scores(shares, loss_sum, num_losses)
    seen = np.flatnonzero(num_losses)
    scores[seen] += shares[seen] * np.sqrt(2.0 * math.log(round_) / num_losses[seen])
    return scores


def choose_others(took_part: BoolArray, num: int, keys: FloatArray) -> IntArray:
    """Return policy 3's positions of `num` clients, those of the round before last.

    The mask is of clients selected in the round before; independent uniform keys make the draw
    uniform [n].

    >>> choose_others(np.array([True, False, False]), 2, np.array([0.1, 0.9, 0.4])).tolist()
    [2, 1]

    Source: Bhuyan et al., CS 726, 2022, policy 3.
    """
    return best(-took_part.astype(np.float64), num, keys)
