"""Belief propagation between neighbours: the sum-product algorithm on a graph of clients.

Every client n has a state s_n, 1 if it should be selected and 0 if not, with a local potential
phi_n(s_n) and, for each neighbour i, a compatibility psi_in(s_i, s_n). Neighbours send each other

    m_in(s_n) = sum over s_i of phi_i(s_i) psi_in(s_i, s_n) prod of m_ki(s_i)      (6)

with the product over the neighbours k of i other than n. All messages are sent at once, normalised
to 1, from uniform ones on, until they stay the same. Then, with the product over all neighbours i
of n,

    b_n(s_n) ~ phi_n(s_n) prod of m_in(s_n)                                       (4)

is the belief of client n: its exact marginal on a tree, an approximation on a graph with loops.

The potentials follow from the opinions r_n and from e = exp(-C d^beta) of two clients at distance
d. In print (5, 7) they do not depend on the states, so that every belief is 1/2; that is `printed`.
Two readings carry information:

    agreement (default)   phi(1) = r^2,  psi(equal states) = (1 + e) / 2,
                          phi(0) = 1 - r^2,  psi(other states) = (1 - e) / 2
    pue                   phi likewise,  psi(equal states) = e,  psi(other states) = 1 - e

With `agreement` near clients are alike and far ones independent (an Ising coupling J = atanh e);
with `pue` far ones are opposites.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", section III-B, (4) to (7), and theorem 2. In print the products run over all clients
with a factor e_in in {0, 1}, which makes all of them 0; they are read as products over neighbours.
The readings of the potentials are fleetsim's; `pue` has its name from the primary user emulation of
the paper's reference for (7), which was not at hand.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from fleetsim.contracts import FloatArray, IntArray

Potentials = Literal["agreement", "printed", "pue"]

LEAST_POTENTIAL = 1e-12
"""Lower bound of potentials: two contradicting certainties (opinions 1 and 0 at distance 0) still
give a belief."""


class Propagation(NamedTuple):
    """Result of an exchange of messages."""

    beliefs: FloatArray
    """b_n(s_n), each row of sum 1 [N, 2]."""
    num_exchanges: int
    """Number of exchanges: in each, every client sends every neighbour two scalars."""
    is_converged: bool
    """True if the messages stopped changing."""


def distance_factors(
    distance_m: FloatArray, *, decay: float = 1e-3, exponent: float = 3.7, unit_m: float = 100.0
) -> FloatArray:
    """Return factors e = exp(-C d^beta) of pairs at these distances, of the same shape.

    C is the paper's -30 dB, and beta the paper's, which names no unit of d: in kilometres all
    clients in its square of 1 km would be alike, in metres all independent. With 100 m e falls to
    1/e at 647 m.

    >>> round(float(distance_factors(np.array([646.9]))[0]), 3)
    0.368

    Source: Tong et al., "From learning to analytics", (7).
    """
    return np.exp(-decay * (distance_m / unit_m) ** exponent)


def local_potentials(opinions: FloatArray, kind: Potentials = "agreement") -> FloatArray:
    """Return phi_n(s_n) [N, 2] of the clients' opinions [N].

    >>> local_potentials(np.array([0.6])).round(2).tolist()
    [[0.64, 0.36]]

    Source: Tong et al., "From learning to analytics", (5).
    """
    power = opinions**2
    other = power if kind == "printed" else 1.0 - power
    return np.maximum(np.stack([other, power], axis=1), LEAST_POTENTIAL)


def compatibilities(factors: FloatArray, kind: Potentials = "agreement") -> FloatArray:
    """Return psi_in(s_i, s_n) [E, 2, 2] of the pairs' distance factors e [E].

    >>> compatibilities(np.array([0.5])).tolist()
    [[[0.75, 0.25], [0.25, 0.75]]]

    Source: Tong et al., "From learning to analytics", (7).
    """
    if kind == "agreement":
        equal, other = (1.0 + factors) / 2.0, (1.0 - factors) / 2.0
    elif kind == "pue":
        equal, other = factors, 1.0 - factors
    else:
        equal = other = factors
    pairs = np.stack([equal, other, other, equal], axis=1).reshape(-1, 2, 2)
    return np.maximum(pairs, LEAST_POTENTIAL)


def propagated(
    local: FloatArray,
    edges: IntArray,
    pairs: FloatArray,
    *,
    tolerance: float = 1e-9,
    max_exchanges: int = 200,
    damping: float = 0.0,
) -> Propagation:
    """Return the beliefs of all clients from their potentials.

    Potentials phi_n(s_n) [N, 2] and psi(s_i, s_n) of each pair of neighbours [E, 2, 2] are above 0.
    A change of a normalised message of at most `tolerance` counts as none; after `max_exchanges`
    the present messages are used. The share `damping` of the old message in [0, 1) is kept, which
    helps where loops oscillate.

    Source: Tong et al., "From learning to analytics", (4) and (6).
    """
    num_edges = edges.shape[0]
    source = np.concatenate([edges[:, 0], edges[:, 1]])
    target = np.concatenate([edges[:, 1], edges[:, 0]])
    factors = np.concatenate([pairs, pairs.transpose(0, 2, 1)])
    backwards = np.concatenate([np.arange(num_edges) + num_edges, np.arange(num_edges)])
    log_local = np.log(local)
    messages = np.full((2 * num_edges, 2), 0.5)
    num_exchanges, change = 0, math.inf if num_edges else 0.0
    while change > tolerance and num_exchanges < max_exchanges:
        log_messages = np.log(messages)
        products = _log_products(log_local, log_messages, target)
        # A message to n leaves out the message from n.
        outgoing = _normalised(products[source] - log_messages[backwards])
        fresh = np.einsum("ds,dst->dt", outgoing, factors)
        fresh /= fresh.sum(axis=1, keepdims=True)
        fresh = (1.0 - damping) * fresh + damping * messages
        change = float(np.abs(fresh - messages).max())
        messages = fresh
        num_exchanges += 1
    beliefs = _normalised(_log_products(log_local, np.log(messages), target))
    return Propagation(beliefs, num_exchanges, change <= tolerance)


def convergence_bound(
    num_clients: int,
    longest_m: float,
    *,
    decay: float = 1e-3,
    exponent: float = 3.7,
    unit_m: float = 100.0,
) -> float:
    """Return (N - 1) tanh(C d_max^beta); theorem 2 promises one fixed point if it is below 1.

    Only fit for a warning: the proof of the theorem loses C, takes J = -C d^beta for the coupling
    where `agreement` has J = atanh e, and fails in the paper's own set-up, where the bound without
    C is 19.

    >>> round(convergence_bound(20, 1414.2, unit_m=1000.0), 4)
    0.0685

    Source: Tong et al., "From learning to analytics", theorem 2.
    """
    return (num_clients - 1) * math.tanh(decay * (longest_m / unit_m) ** exponent)


def _log_products(log_local: FloatArray, log_messages: FloatArray, target: IntArray) -> FloatArray:
    """Return the logarithm of phi_n times all messages to n [N, 2]."""
    total = log_local.copy()
    np.add.at(total, target, log_messages)
    return total


def _normalised(logarithms: FloatArray) -> FloatArray:
    """Return rows [n, 2] of sum 1 from their logarithms."""
    values = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    result: FloatArray = values / values.sum(axis=1, keepdims=True)
    return result
