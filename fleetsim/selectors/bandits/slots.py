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

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import Cohort, FleetView, FloatArray, IntArray, RoundOutcome, RoundView
from fleetsim.schema.ranges import Rounds
from fleetsim.selectors.configured_selector import ConfiguredSelector, SettingsT
from fleetsim.selectors.tie_breaking import available_in_order

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


class SlotSelector(ConfiguredSelector[SettingsT], ABC):
    """Base of bandits: the present slot with its clients, and means and plays of all arms [A].

    A subclass begins a slot in `_begin_slot`.
    """

    needs_losses = True
    needs_probes = True
    state_fields: ClassVar[tuple[str, ...]] = (
        *("_slot_clients", "_slot_num_left", "_slot_delivered"),
        *("_means", "_plays", "_num_slots"),
    )

    def _begin_slots(self, fleet: FleetView, num_arms: int, model: SlotModel) -> None:
        """Begin without any slot."""
        self._start = fleet.parameters if model == "reset" else None
        self._means: FloatArray = np.zeros(num_arms)
        self._plays: IntArray = np.zeros(num_arms, dtype=np.int64)
        self._num_slots = 0
        self._play(np.empty(0, dtype=np.int64), 0)

    def _play(self, clients: IntArray, num_rounds: int) -> None:
        """Begin a slot of these clients, most wanted first."""
        self._slot_clients = clients.copy()
        self._slot_num_left = num_rounds
        self._slot_delivered = np.zeros(self._size, dtype=np.bool_)
        """Clients that delivered an update which went into a model of this slot [N]."""

    @property
    def _is_over(self) -> bool:
        """True if a new slot is to begin, also before the first."""
        return self._slot_num_left == 0

    @abstractmethod
    def _begin_slot(self, view: RoundView) -> None:
        """Begin the next slot by `_play`."""

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return those of the slot's clients that are candidates, after the start of a slot."""
        start = None
        if self._is_over and view.candidates.size:
            self._begin_slot(view)
            start = self._start
        members = available_in_order(self._slot_clients, view.candidates, view.wanted)
        return members if start is None else Cohort(members, start=start)

    def observe(self, outcome: RoundOutcome) -> None:
        """Count a round of the slot, if any client was selected in it."""
        if outcome.selected.size == 0 or self._is_over:
            return
        self._slot_num_left -= 1
        if outcome.aggregated:
            delivered = [report.client for report in outcome.reports if report.is_delivered]
            self._slot_delivered[delivered] = True
