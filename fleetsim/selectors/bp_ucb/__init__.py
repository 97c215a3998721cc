"""BP-UCB: a bandit over clients that agree with their neighbours by belief propagation.

- `selector`: settings, and the course of a slot.
- `equations`: index of a client.
- `belief_propagation`: beliefs of clients from messages between neighbours.
- `neighbour_graph`: graph of neighbours, and gossip along it.
"""

from fleetsim.selectors.bandits.equations import rewarded
from fleetsim.selectors.bp_ucb.belief_propagation import (
    compatibilities,
    convergence_bound,
    distance_factors,
    local_potentials,
    propagated,
)
from fleetsim.selectors.bp_ucb.equations import index, started
from fleetsim.selectors.bp_ucb.neighbour_graph import client_graph, gossip
from fleetsim.selectors.bp_ucb.selector import BpUcbSelector, BpUcbSettings

__all__ = [
    "BpUcbSelector",
    "BpUcbSettings",
    "client_graph",
    "compatibilities",
    "convergence_bound",
    "distance_factors",
    "gossip",
    "index",
    "local_potentials",
    "propagated",
    "rewarded",
    "started",
]
