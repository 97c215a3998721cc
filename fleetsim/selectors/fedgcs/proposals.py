"""Proposals of FedGCS: ascent from the best records, and beam search to sets of clients.

The representations of the records with the best scores move some steps along the gradient of their
estimates (9), and the decoder turns them into clients. The paper decodes the representation whose
estimate is the largest (`choice: representation`). With `generated` the sets of all steps are
encoded anew, and the one of the largest estimate, a mean over some orders of its clients, is
chosen.

The gradient of (9) is that of the mean of T states, so it is small, 1 / T of the evaluator's slope,
and the same for all positions. The paper says nothing of eta and of the number of steps. With steps
of 1 the decoder reproduces the record that the ascent began with. The estimate of a representation
grows without limit in the direction of the ascent, far from any selection. That is what `generated`
avoids.

The LSTM reads clients in an order, which a set does not have. It is drawn anew for each proposal.

Source: FedGCS (arXiv 2405.06312), sections 4.4 and 4.5, (9).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.selectors.fedgcs import network as networks
from fleetsim.selectors.fedgcs.network import Encoded, Network
from fleetsim.selectors.fedgcs.settings import FedGCSSettings

_NUM_ORDERS = 10
"""Orders over which the estimate of a generated set is averaged."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Distinct proposed sets, best first, and the course of the ascent."""

    sets: tuple[IntArray, ...]
    """Tokens of each, in the order of generation."""
    estimates: FloatArray
    """Estimate by which each was ranked."""
    curve: FloatArray
    """Estimates of the representations before the first step and after each [steps + 1, K]."""


def propose(
    network: Network,
    starts: Sequence[IntArray],
    is_allowed: BoolArray,
    wanted: int,
    settings: FedGCSSettings,
    generator: np.random.Generator,
) -> Proposals:
    """Return sets of at most `wanted` allowed tokens [V] that the ascent from selections leads to.

    `starts` are the tokens of the selections with the best scores, at least one.
    """
    with networks.one_thread():
        encoded = network.encode(network.tokens([generator.permutation(s) for s in starts]))
        path, curve = ascend(network, encoded, settings)
        if settings.choice == "representation":
            path = path[-1:]
        generated = [
            tokens
            for states in path
            for tokens in decode(network, states, is_allowed, wanted, settings)
        ]
        if settings.choice == "representation":
            sets, estimates = generated, curve[-1]
        else:
            sets = list({frozenset(tokens.tolist()): tokens for tokens in generated}.values())
            estimates = estimates_of(network, sets, generator)
    best_first = np.argsort(-estimates, kind="stable")
    distinct = {frozenset(sets[i].tolist()): i for i in best_first[::-1].tolist()}
    order = [i for i in best_first.tolist() if distinct[frozenset(sets[i].tolist())] == i]
    return Proposals(tuple(sets[i] for i in order), estimates[order], curve)


def ascend(
    network: Network, encoded: Encoded, settings: FedGCSSettings
) -> tuple[list[Encoded], FloatArray]:
    """Return the representations after each step of (9), and the estimates [steps + 1, B].

    Without steps, the first ones are returned.
    """
    path, curve = [], []
    states = encoded.states.detach()
    for step in range(settings.steps):
        estimates, gradient = network.estimates_and_gradient(Encoded(states, encoded.is_real))
        curve.append(networks.numbers(estimates))
        eta = settings.step_size * (1 + step * (settings.growth == "growing"))
        states = states + eta * gradient
        path.append(Encoded(states, encoded.is_real))
    last = Encoded(states, encoded.is_real)
    curve.append(networks.numbers(network.estimate(last)))
    return path or [last], np.stack(curve)


def decode(
    network: Network,
    encoded: Encoded,
    is_allowed: BoolArray,
    wanted: int,
    settings: FedGCSSettings,
) -> list[IntArray]:
    """Return the most likely sequence of distinct allowed tokens found for each representation."""
    most = min(wanted, int(is_allowed.sum()))
    least = most if settings.length == "fixed" else 1
    return networks.beam_search(network, encoded, is_allowed, least, most, settings.beam_width)


def estimates_of(
    network: Network, sets: Sequence[IntArray], generator: np.random.Generator
) -> FloatArray:
    """Return the estimate of each set [n], a mean over random orders of its tokens."""
    orders = [generator.permutation(tokens) for tokens in sets for _ in range(_NUM_ORDERS)]
    estimates = networks.numbers(network.estimate(network.encode(network.tokens(orders))))
    return np.asarray(estimates.reshape(len(sets), _NUM_ORDERS).mean(axis=1))
