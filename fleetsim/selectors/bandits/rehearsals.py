"""Rehearsals: slots of a group played in probes, from the initial model.

The group trains for L rounds of federated averaging, weighted by samples. Then all candidates
report the accuracy of the resulting model. Every training and every evaluation is a probe, and
costs its seconds, bytes and joules; the global model does not change.
"""

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import FleetView, IntArray, ProbeRequest, Report
from fleetsim.selectors import probing


class Rehearsal:
    """Slot of one group, stage by stage: `requests`, then `take` with the reports."""

    def __init__(self, clients: IntArray, fleet: FleetView, *, num_rounds: int) -> None:
        self.clients = clients
        """Ids of the group."""
        self._model = fleet.parameters
        self._num_left = num_rounds
        self._work = fleet.training
        self._is_evaluated = False

    @property
    def is_over(self) -> bool:
        """Return whether all candidates were asked for an opinion."""
        return self._is_evaluated

    def requests(self, candidates: IntArray) -> Sequence[ProbeRequest]:
        """Return the requests of the next stage; empty without candidates."""
        members = self.clients[np.isin(self.clients, candidates)]
        if self._num_left and members.size:
            self._num_left -= 1
            return [
                ProbeRequest(client, self._work, parameters=self._model)
                for client in members.tolist()
            ]
        self._is_evaluated = True
        return probing.evaluations(candidates, parameters=self._model)

    def take(self, reports: Sequence[Report]) -> None:
        """Average the delivered models; without any the model stays."""
        model = probing.average_model(reports)
        self._model = self._model if model is None else model
