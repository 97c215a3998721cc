"""Accountant of differential privacy: epsilon after each round.

Each aggregation is a Gaussian mechanism (`fleetsim.learning.aggregation.privacy`). Its Renyi
divergences of many orders are added up over the rounds and converted to (epsilon, delta) by
`dp-accounting` (Google, extra `fleetsim[privacy]`), whose bound is tighter than the conversion of
Mironov, "Renyi differential privacy", CSF 2017. Neighbours differ by one client that is there or
not.

With `sampling: poisson` a client takes part in a round with the chance m / E of being one of the m
selected of E eligible ones, each client by a draw of its own (Mironov, Talwar, Zhang, "Renyi
differential privacy of the sampled Gaussian mechanism", 2019). With `sampling: none` it always
does.
"""

import importlib
from typing import Any

import numpy as np

from fleetsim.contracts import State
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.privacy import CentralPrivacySettings

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256)
"""Orders of the divergences. Whole ones are sums of a few terms; those between take a series that
does not always converge, and would make epsilon smaller by a few percent where it is large."""


class RdpAccountant:
    """Privacy that a run has spent, by Renyi divergences."""

    def __init__(self, settings: CentralPrivacySettings) -> None:
        self._settings = settings
        try:
            self._events: Any = importlib.import_module("dp_accounting")
            rdp: Any = importlib.import_module("dp_accounting.rdp")
        except ModuleNotFoundError as missing:
            raise ScenarioError(
                f"server.privacy needs {missing.name}, which counts epsilon;"
                " pip install 'fleetsim[privacy]'"
            ) from missing
        self._spent = rdp.RdpAccountant(orders=ORDERS)
        self._chances: list[float] = []
        """Chance of a client to take part in each aggregation so far."""

    @property
    def epsilon(self) -> float:
        """Bound epsilon of all aggregations so far, at the delta of the settings."""
        if not self._chances:
            return 0.0
        return float(self._spent.get_epsilon(self._settings.delta))

    def spend(self, num_selected: int, num_eligible: int) -> None:
        """Count an aggregation in which so many of the eligible clients were selected."""
        chance = 1.0
        if self._settings.sampling == "poisson":
            chance = min(1.0, num_selected / num_eligible)
        self._count(chance)

    def _count(self, chance: float) -> None:
        event = self._events.GaussianDpEvent(self._settings.noise_multiplier)
        if chance < 1.0:
            event = self._events.PoissonSampledDpEvent(chance, event)
        self._spent.compose(event)
        self._chances.append(chance)

    def state(self) -> State:
        """Return the chances of all aggregations."""
        return {"chances": np.array(self._chances, dtype=np.float64)}

    def restore(self, state: State) -> None:
        """Restore what `state` returned, into an accountant that has counted nothing."""
        for chance in state["chances"].tolist():
            self._count(chance)
