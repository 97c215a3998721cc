"""Rehearsals: a group's slot played in probes, from a given model, and thrown away.

The group trains for L rounds of federated averaging, weighted by samples; then all candidates say
how accurate they find what came of it. Every training and every evaluation is a probe, and costs
its seconds, bytes and joules; the global model does not change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import IntArray, Parameters, ProbeRequest, Report, Work
from fleetsim.selectors.common import answers


class Rehearsal:
    """One group's slot, stage by stage: `requests`, then `take` what came back."""

    def __init__(
        self, clients: IntArray, model: Parameters, *, num_rounds: int, work: Work
    ) -> None:
        self.clients = clients
        """Ids of the group."""
        self._model = model
        self._num_left = num_rounds
        self._work = work
        self._is_judged = False

    @property
    def is_over(self) -> bool:
        """Whether everybody was asked for an opinion."""
        return self._is_judged

    def requests(self, candidates: IntArray) -> Sequence[ProbeRequest]:
        """What the next stage asks; nobody, if nobody is there."""
        members = self.clients[np.isin(self.clients, candidates)]
        if self._num_left and members.size:
            self._num_left -= 1
            return [
                ProbeRequest(client, self._work, parameters=self._model)
                for client in members.tolist()
            ]
        self._is_judged = True
        return answers.evaluations(candidates, parameters=self._model)

    def take(self, reports: Sequence[Report]) -> None:
        """Average what was trained; if nothing came back the model stays."""
        model = answers.average_model(reports)
        self._model = self._model if model is None else model
