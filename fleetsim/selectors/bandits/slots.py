"""Slots: several rounds of federated averaging with the same clients, evaluated as one play.

The bandits of Tong et al. choose for a time slot, not for a round: the chosen clients train for L
rounds, then all clients evaluate the model. Their random and round-robin baselines also change
their clients from slot to slot.

The paper leaves open which model a slot starts from:

* `persist`: the model of the slot before. The paper's best set needs six slots to its first target,
  which points to this. The reward of a set then depends on earlier sets, so rewards drift.
* `reset`: the initial model. Rewards are the set's own, as the theory of bandits assumes, and no
  model of the run is older than L rounds.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, Cohort, IntArray, Parameters, RoundOutcome
from fleetsim.schema.ranges import Rounds
from fleetsim.selectors.declared_state import DeclaredState

SlotModel = Literal["persist", "reset"]
SlotRounds = Annotated[Rounds, Field(examples=[15])]
"""Rounds of a slot of a baseline, which depends on the number of a round alone."""


def slot_of(round_: int, slot_rounds: int) -> int:
    """Return the number of the slot that a round is in; both count from 1.

    >>> [slot_of(round_, 3) for round_ in range(1, 8)]
    [1, 1, 1, 2, 2, 2, 3]
    """
    return (round_ - 1) // slot_rounds + 1


def ends_slot(round_: int, slot_rounds: int) -> bool:
    """Return whether a round is the last one of its slot.

    >>> [round_ for round_ in range(1, 8) if ends_slot(round_, 3)]
    [3, 6]
    """
    return round_ % slot_rounds == 0


def slot_answer(members: IntArray, start: Parameters | None) -> IntArray | Cohort:
    """Return the answer of a selector: these clients, with the global model or with `start`."""
    return members if start is None else Cohort(members, start=start)


class SelectionSlot(DeclaredState):
    """Clients of the present slot, and the number of its rounds left."""

    state_fields = ("_slot_clients", "_slot_num_left", "_slot_delivered")

    def __init__(self, num_clients: int) -> None:
        self._slot_clients: IntArray = np.empty(0, dtype=np.int64)
        self._slot_num_left = 0
        self._slot_delivered: BoolArray = np.zeros(num_clients, dtype=np.bool_)

    @property
    def delivered(self) -> BoolArray:
        """Clients that delivered an update which went into a model of this slot [N]."""
        return self._slot_delivered

    @property
    def is_over(self) -> bool:
        """Return whether a new slot is to begin; true before the first."""
        return self._slot_num_left == 0

    def begin(self, clients: IntArray, num_rounds: int) -> None:
        """Begin a slot of these clients, most wanted first."""
        self._slot_clients = clients.copy()
        self._slot_num_left = num_rounds
        self._slot_delivered = np.zeros(self._slot_delivered.size, dtype=np.bool_)

    def members(self, candidates: IntArray, wanted: int) -> IntArray:
        """Return the first `wanted` clients of the slot that are candidates."""
        return self._slot_clients[np.isin(self._slot_clients, candidates)][:wanted]

    def observe(self, outcome: RoundOutcome) -> None:
        """Count a round of the slot, if any client was selected in it."""
        if outcome.selected.size == 0 or self.is_over:
            return
        self._slot_num_left -= 1
        if outcome.aggregated:
            delivered = [report.client for report in outcome.reports if report.is_delivered]
            self._slot_delivered[delivered] = True
