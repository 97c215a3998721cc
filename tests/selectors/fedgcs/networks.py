"""Small networks with fixed weights, and records whose clients matter."""

from typing import Any

import numpy as np

from fleetsim import rng
from fleetsim.selectors.fedgcs.network import Network, Widths, initial_network
from fleetsim.selectors.fedgcs.records import SelectionRecords

TINY = Widths(embedding=2, hidden=3, evaluator=4)


def tiny(num_clients: int = 6, start: Any = "last", seed: int = 1, scale: float = 3.0) -> Network:
    """A network whose weights are so large that all of its nonlinearities matter."""
    network = initial_network(num_clients, TINY, start, seed)
    weights = network.arrays()
    network.load({name: np.multiply(scale, array) for name, array in weights.items()})
    return network


def worth_of(num_clients: int, seed: int):
    """Worth of each client, in (0, 1)."""
    return rng.stream(seed, "tests/fedgcs/worth").random(num_clients)


def additive_records(num: int, num_clients: int, size: int, seed: int = 0) -> SelectionRecords:
    """Random sets whose performance is the mean worth of their clients, and which cost the same."""
    worth = worth_of(num_clients, seed)
    dice = rng.stream(seed, "tests/fedgcs/sets")
    sets = [dice.choice(num_clients, size, replace=False) for _ in range(num)]
    performance = [float(worth[chosen].mean()) for chosen in sets]
    return SelectionRecords.of(sets, performance, np.ones(num), np.ones(num))
