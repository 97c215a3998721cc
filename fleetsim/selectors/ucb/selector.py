"""UCB over sets: a bandit whose arms are all sets of K clients.

K is the cohort, or all clients where the fleet is smaller. The mean opinion is taken over those
that answered. No client is asked after the last slot. See docs/selectors.md.

Source: Tong et al., "From learning to analytics", section IV (mu = 1, L = 15). The limit of a
million sets (`max_sets`) is fleetsim's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    RoundOutcome,
    RoundView,
)
from fleetsim.errors import ScenarioError
from fleetsim.schema.ranges import Rounds, Weight
from fleetsim.selectors import probing
from fleetsim.selectors.bandits.equations import (
    MOST_ARMS,
    arms,
    average_opinion,
    index,
    is_playable,
    rewarded,
)
from fleetsim.selectors.bandits.slots import SelectionSlot, SlotModel, slot_answer
from fleetsim.selectors.configured_selector import ConfiguredSelector
from fleetsim.selectors.declared_state import Column, Scalar, StateFields
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys
from fleetsim.settings import Settings

NO_ARM = -1


class SetBanditOptions(Settings):
    """Settings of all bandits over sets."""

    demands: ClassVar[Demands] = {
        "": Demand(
            "accuracies of all clients after every slot",
            "small",
            "all C(N, K) sets are listed, a million at most; single clients tell their accuracy",
            has_sets=True,
        )
    }

    kind: str
    mu: Weight = 1.0
    """Weight of the exploration."""
    slot_rounds: Rounds = Field(default=15, examples=[1])
    """Rounds for which a set trains before it is evaluated (L)."""
    ties: TieRule = "random"
    """Order among sets of equal index, and of clients in the cold start."""
    model: SlotModel = "persist"
    """First model of a slot: that of the slot before, or the initial one."""
    max_sets: Annotated[int, Field(ge=1, le=5_000_000)] = MOST_ARMS
    """Largest number of sets; each takes memory, 16 byte and 8 for each member."""


class UcbSettings(SetBanditOptions):
    """Bandit over all sets of clients, by the average opinion of the model."""

    kind: Literal["ucb"] = "ucb"

    def build(self) -> UcbSelector:
        """Selector with these settings."""
        return UcbSelector(self)


class UcbSelector(ConfiguredSelector[SetBanditOptions]):
    """Selector with the mean reward and number of plays of every arm [A], and the present slot."""

    needs_losses = True
    needs_probes = True
    state_parts = ("_slot",)
    state_fields: ClassVar[StateFields] = (
        Column("means", np.float64),
        Column("plays", np.int64),
        Scalar("num_slots", int),
        Scalar("arm", int),
    )

    def _begin(self, fleet: FleetView) -> None:
        size = min(fleet.cohort, self._size)
        try:
            self._sets = arms(self._size, size, self._settings.max_sets)
        except ValueError as fault:
            raise ScenarioError(
                f"server.selector.kind = {self._settings.kind!r}: {fault}; lower fleet.size or"
                " server.cohort, choose server.selector.kind = 'bp-ucb', or raise"
                " server.selector.max_sets"
            ) from None
        self._start = fleet.parameters if self._settings.model == "reset" else None
        self._means: FloatArray = np.zeros(self._sets.shape[0])
        self._plays: IntArray = np.zeros(self._sets.shape[0], dtype=np.int64)
        self._slot = SelectionSlot(self._size)
        self._num_slots = 0
        self._arm = NO_ARM

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """After a slot, ask all candidates for an opinion of its model."""
        if self._arm == NO_ARM or not self._slot.is_over:
            return ()
        return probing.evaluations(probing.unasked(view), is_opinion=True)

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return those of the slot's set that are candidates."""
        start = None
        if self._slot.is_over and view.candidates.size:
            self._evaluate_slot(view)
            self._begin_slot(view)
            start = self._start
        return slot_answer(self._slot.members(view.candidates, view.wanted), start)

    def observe(self, outcome: RoundOutcome) -> None:
        """Count one round of the slot."""
        self._slot.observe(outcome)

    def _evaluate_slot(self, view: RoundView) -> None:
        if self._arm != NO_ARM:
            reward = average_opinion(probing.accuracies(view.reports, self._size))
            if not math.isnan(reward):
                self._credit(reward)

    def _begin_slot(self, view: RoundView) -> None:
        is_present = self._mask(view.candidates)
        self._arm = self._next_arm(view.round, is_present, self._num_slots + 1)
        if self._arm == NO_ARM:
            self._slot.begin(view.candidates, 1)
        else:
            self._num_slots += 1
            self._slot.begin(self._sets[self._arm], self._settings.slot_rounds)

    def _next_arm(self, round_: int, is_present: BoolArray, slot: int) -> int:
        """Return the arm of the largest index, of those whose members are all available [N]."""
        playable = np.flatnonzero(is_playable(self._sets, is_present))
        if playable.size == 0:
            return NO_ARM
        scores = index(self._means[playable], self._plays[playable], slot, self._settings.mu)
        generator = rng.stream(self._fleet.seed, f"select/{self._settings.kind}", round_)
        keys = tie_keys(self._settings.ties, self._plays.size, generator)
        return int(playable[best(scores, 1, keys[playable])[0]])

    def _credit(self, reward: float) -> None:
        """Add a reward to the arm that was played."""
        played = np.array([self._arm], dtype=np.int64)
        self._means, self._plays = rewarded(
            self._means, self._plays, played, np.array([reward], dtype=np.float64)
        )
