"""Strategies of before the message API, without flwr."""

from fleetsim.flower.grid import VirtualGrid
from fleetsim.flower.legacy import _telling_strategy


class _Grid(VirtualGrid):
    """Grid without server, record or flwr."""

    def __init__(self):
        self.told = []

    def measured(self, metrics):
        self.told.append(("measured", metrics))

    def aggregated(self, metrics):
        self.told.append(("aggregated", metrics))


class _Strategy:
    def __init__(self, central, federated):
        self._central, self._federated = central, federated

    def evaluate(self, server_round, parameters):
        return self._central

    def aggregate_evaluate(self, server_round, results, failures):
        return self._federated


def test_a_strategy_tells_the_grid_what_it_measured_and_aggregated():
    grid, strategy = _Grid(), _Strategy((0.5, {"accuracy": 0.75}), (0.25, {"accuracy": 0.875}))
    _telling_strategy(grid, strategy)

    assert strategy.evaluate(1, None) == (0.5, {"accuracy": 0.75})
    assert strategy.aggregate_evaluate(1, [], []) == (0.25, {"accuracy": 0.875})
    assert grid.told == [
        ("measured", {"loss": 0.5, "accuracy": 0.75}),
        ("aggregated", {"loss": 0.25, "accuracy": 0.875}),
    ]


def test_a_strategy_that_found_nothing_tells_nothing():
    grid, strategy = _Grid(), _Strategy(None, (None, {}))
    _telling_strategy(grid, strategy)

    assert strategy.evaluate(1, None) is None
    assert strategy.aggregate_evaluate(1, [], []) == (None, {})
    assert grid.told == []
