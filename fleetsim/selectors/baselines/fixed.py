"""Fixed selection: always the same named clients.

Every choice takes the available ones of `clients` in the given order, at most as many as wanted. No
other client replaces a missing one. With the right clients this is the "optimal selection" that
some papers compare with, because an exhaustive search is infeasible beyond toy fleets.

The server must be told the clients. No probes, no state.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", who always choose the five clients with i.i.d. data.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import FleetView, IntArray, RoundView
from fleetsim.errors import ScenarioError
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.ranges import ClientId
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.tie_breaking import available_in_order

ClientIds = Annotated[tuple[ClientId, ...], Field(min_length=1), Distinct()]
"""At least one client, none of them twice."""


class FixedSettings(SelectorKind):
    """Always the same named clients, those of them that are available."""

    demands: ClassVar[Demands] = {
        "": Demand(
            "the clients to take",
            "oracle",
            "which clients are the right ones shows after a run; a mere list of devices is real",
        )
    }

    selector = "FixedSelector"
    kind: Literal["fixed"] = "fixed"
    clients: ClientIds = Field(examples=[(0, 1, 2)])
    """Ids of the clients, most wanted first, none twice."""


def require_clients(clients: Iterable[int], num_clients: int, key: str) -> None:
    """Refuse ids that the fleet does not have."""
    for client in clients:
        if client >= num_clients:
            raise ScenarioError(
                f"{key}: there is no client {client}; a fleet of {num_clients} "
                f"has the clients 0 to {num_clients - 1}"
            )


def sets_of_clients(
    sets: tuple[ClientIds, ...] | None, num_clients: int, key: str
) -> list[IntArray]:
    """Return the sets of a setting, each as ids [n]."""
    result = []
    for index, clients in enumerate(sets or ()):
        require_clients(clients, num_clients, f"server.selector.{key}[{index}]")
        result.append(np.array(clients, dtype=np.int64))
    return result


class FixedSelector(ConfiguredSelector[FixedSettings]):
    """Selector of the same clients in every round, without a state."""

    def _begin(self, fleet: FleetView) -> None:
        require_clients(self._settings.clients, self._size, "server.selector.clients")
        self._clients = np.array(self._settings.clients, dtype=np.int64)

    def select(self, view: RoundView) -> IntArray:
        """Return the available ones in the given order."""
        return available_in_order(self._clients, view.candidates, view.wanted)
