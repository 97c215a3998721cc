"""Slots: several rounds of federated averaging with the same clients, judged as one play.

The bandits of Tong et al. do not choose for every round but for a time slot, in which the chosen
clients train for L rounds; only then do all clients evaluate the model. Their random and
round-robin baselines change their clients from slot to slot as well.

Whether the model goes on from slot to slot (`persist`, as in the paper, whose best set needs six
slots to its first target) or every slot begins with the initial model (`reset`) is open there. With
`persist` a set is judged by what others trained before it, so that rewards drift; with `reset` they
are the set's own, as the theory of bandits has it, and the run never has a model of more than L
rounds.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, Cohort, IntArray, Parameters, RoundOutcome, State
from fleetsim.schema.ranges import Rounds

SlotModel = Literal["persist", "reset"]
SlotRounds = Annotated[Rounds, Field(examples=[15])]
"""Rounds of a slot of a baseline, which looks at nothing else than the number of a round."""


def slot_of(round_: int, slot_rounds: int) -> int:
    """Number of the slot that a round is in; both count from 1.

    >>> [slot_of(round_, 3) for round_ in range(1, 8)]
    [1, 1, 1, 2, 2, 2, 3]
    """
    return (round_ - 1) // slot_rounds + 1


def ends_slot(round_: int, slot_rounds: int) -> bool:
    """Whether a round is the last one of its slot.

    >>> [round_ for round_ in range(1, 8) if ends_slot(round_, 3)]
    [3, 6]
    """
    return round_ % slot_rounds == 0


def sent_out(members: IntArray, start: Parameters | None) -> IntArray | Cohort:
    """What a selector answers: these clients, who go on with the global model or with `start`."""
    return members if start is None else Cohort(members, start=start)


class Slot:
    """Whose turn it is, and for how many more rounds."""

    def __init__(self, num_clients: int) -> None:
        self._clients: IntArray = np.empty(0, dtype=np.int64)
        self._num_left = 0
        self.delivered: BoolArray = np.zeros(num_clients, dtype=np.bool_)
        """Who delivered an update that went into a model of this slot [N]."""

    @property
    def is_over(self) -> bool:
        """Whether a new slot is to begin; true before the first."""
        return self._num_left == 0

    def begin(self, clients: IntArray, num_rounds: int) -> None:
        """A new slot of these clients, most wanted first."""
        self._clients = clients.copy()
        self._num_left = num_rounds
        self.delivered = np.zeros(self.delivered.size, dtype=np.bool_)

    def members(self, candidates: IntArray, wanted: int) -> IntArray:
        """The first `wanted` clients of the slot that are there."""
        return self._clients[np.isin(self._clients, candidates)][:wanted]

    def observe(self, outcome: RoundOutcome) -> None:
        """A round of the slot is over, if anybody took part in it."""
        if outcome.selected.size == 0 or self.is_over:
            return
        self._num_left -= 1
        if outcome.aggregated:
            delivered = [report.client for report in outcome.reports if report.is_delivered]
            self.delivered[delivered] = True

    def state(self) -> State:
        """Clients, rounds left, and who delivered."""
        return {
            "slot_clients": self._clients.copy(),
            "slot_num_left": np.array(self._num_left, dtype=np.int64),
            "slot_delivered": self.delivered.copy(),
        }

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self._clients = np.array(state["slot_clients"], dtype=np.int64)
        self._num_left = int(state["slot_num_left"])
        self.delivered = np.array(state["slot_delivered"], dtype=np.bool_)
