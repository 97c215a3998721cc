"""UCB over sets, a bandit whose arms are all sets of K clients, and its quick initialisation.

K is the cohort, or all clients where the fleet is smaller. The mean opinion is taken over those
that answered. No client is asked after the last slot.

Quick-Init UCB has a first estimate of every arm after N / K slots. The order of the groups, open in
the paper, is random; `ties: lowest_id` takes the order of the ids, which favours experiments that
number the good clients first.

Source: Tong et al., "From learning to analytics", section IV (mu = 1, L = 15), Algorithm 1. The
limit of a million sets (`max_sets`) is fleetsim's.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    Report,
    RoundView,
)
from fleetsim.errors import ScenarioError
from fleetsim.schema.ranges import Rounds, Weight
from fleetsim.selectors import probing
from fleetsim.selectors.bandits import equations
from fleetsim.selectors.bandits.equations import MOST_ARMS, Init
from fleetsim.selectors.bandits.slots import SlotModel, SlotSelector
from fleetsim.selectors.configured_selector import SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys

NO_ARM = -1


class SetBanditOptions(SelectorKind):
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

    selector = "UcbSelector"
    kind: Literal["ucb"] = "ucb"


class UcbSelector(SlotSelector[SetBanditOptions]):
    """Selector whose arms are sets, with the number of the one that is played."""

    state_fields = ("_arm",)

    def _begin(self, fleet: FleetView) -> None:
        size = min(fleet.cohort, self._size)
        try:
            self._sets = equations.arms(self._size, size, self._settings.max_sets)
        except ValueError as fault:
            raise ScenarioError(
                f"server.selector.kind = {self._settings.kind!r}: {fault}; lower fleet.size or"
                " server.cohort, choose server.selector.kind = 'bp-ucb', or raise"
                " server.selector.max_sets"
            ) from None
        self._begin_slots(fleet, self._sets.shape[0], self._settings.model)
        self._arm = NO_ARM

    def _stages(self, view: RoundView) -> Stages:
        """After a slot, ask all candidates for an opinion of its model."""
        while self._arm != NO_ARM and self._is_over:
            view, _ = yield probing.evaluations(probing.unasked(view), is_opinion=True)

    def _evaluate_slot(self, view: RoundView) -> None:
        if self._arm != NO_ARM:
            reward = equations.average_opinion(probing.accuracies(view.reports, self._size))
            if not math.isnan(reward):
                self._credit(reward)

    def _begin_slot(self, view: RoundView) -> None:
        self._evaluate_slot(view)
        is_present = self._mask(view.candidates)
        self._arm = self._next_arm(view.round, is_present, self._num_slots + 1)
        if self._arm == NO_ARM:
            self._play(view.candidates, 1)
        else:
            self._num_slots += 1
            self._play(self._sets[self._arm], self._settings.slot_rounds)

    def _next_arm(self, round_: int, is_present: BoolArray, slot: int) -> int:
        """Return the arm of the largest index, of those whose members are all available [N]."""
        playable = np.flatnonzero(is_present[self._sets].all(axis=1))
        if playable.size == 0:
            return NO_ARM
        scores = equations.index(
            self._means[playable], self._plays[playable], slot, self._settings.mu
        )
        generator = rng.stream(self._fleet.seed, f"select/{self._settings.kind}", round_)
        keys = tie_keys(self._settings.ties, self._plays.size, generator)
        return int(playable[best(scores, 1, keys[playable])[0]])

    def _credit(self, reward: float) -> None:
        """Add a reward to the arm that was played."""
        played = np.array([self._arm], dtype=np.int64)
        self._means, self._plays = equations.rewarded(
            self._means, self._plays, played, np.array([reward], dtype=np.float64)
        )


class QuickInitUcbSettings(SetBanditOptions):
    """Bandit over all sets of clients, which begins with the results of groups of them."""

    selector = "QuickInitUcbSelector"
    kind: Literal["quick-init-ucb"] = "quick-init-ucb"
    init: Init = "mean"
    """First estimate of a set: the mean of its members' rewards in the cold start, or their sum."""
    cold_start: Literal["persist", "reset"] = "persist"
    """First model of a group: that of the group before, or the initial one, in probes."""


class QuickInitUcbSelector(UcbSelector):
    """Bandit over sets with the reward of every client's first group [N], NaN before."""

    state_fields = ("_client_reward",)

    def __init__(self, settings: QuickInitUcbSettings) -> None:
        super().__init__(settings)
        self._init = settings.init
        self._rehearses = settings.cold_start == "reset"

    def _begin(self, fleet: FleetView) -> None:
        super()._begin(fleet)
        generator = rng.stream(fleet.seed, "select/quick-init-ucb/groups")
        self._order: IntArray = np.argsort(tie_keys(self._settings.ties, self._size, generator))
        self._refill: IntArray = np.argsort(tie_keys(self._settings.ties, self._size, generator))
        self._client_reward: FloatArray = np.full(self._size, np.nan)
        # Of one choice:
        self._probed_in = 0
        self._num_opinions: int | None = None

    def _stages(self, view: RoundView) -> Stages:
        """After a slot ask all for an opinion; then rehearse with `cold_start: reset`."""
        if not self._rehearses:
            yield from super()._stages(view)
            return
        if self._probed_in == view.round:
            return
        self._probed_in = view.round
        self._num_opinions = None
        if self._arm != NO_ARM and self._is_over and (new := probing.unasked(view)).size:
            view, _ = yield probing.evaluations(new, is_opinion=True)
        if not self._is_over:
            return
        self._num_opinions = len(view.reports)
        is_rehearsed = np.zeros(self._size, dtype=np.bool_)
        while True:
            is_present = self._mask(view.candidates)
            group = self._group(is_present, is_present & ~is_rehearsed)
            if group.size < self._sets.shape[1]:
                return
            is_rehearsed[group] = True
            view = yield from self._rehearse(group, view)

    def _rehearse(
        self, group: IntArray, view: RoundView
    ) -> Generator[Sequence[ProbeRequest], tuple[RoundView, Sequence[Report]], RoundView]:
        """Play a slot of a group in probes from the initial model, and start arms by its reward.

        The group trains for L rounds of federated averaging, weighted by samples. Then all
        candidates report the accuracy of the resulting model. Every training and every evaluation
        is a probe, and costs its seconds, bytes and joules; the global model does not change.
        """
        model = self._fleet.parameters
        for _ in range(self._settings.slot_rounds):
            members = group[np.isin(group, view.candidates)]
            if members.size == 0:
                break
            requests = probing.requests(members, self._fleet.training, parameters=model)
            view, answers = yield requests
            average = probing.average_model(answers)
            model = model if average is None else average
        view, answers = yield probing.evaluations(view.candidates, parameters=model)
        reward = equations.average_opinion(probing.accuracies(answers, self._size))
        if not math.isnan(reward):
            self._start_arms(group, reward)
        return view

    def _evaluate_slot(self, view: RoundView) -> None:
        # Opinions of rehearsed models come after those of the slot's model.
        super()._evaluate_slot(replace(view, reports=view.reports[: self._num_opinions]))

    def _group(self, is_present: BoolArray, is_eligible: BoolArray) -> IntArray:
        """Return the first clients without a reward, filled up to K.

        Empty if all have a reward; fewer than K if fewer are available.
        """
        size = self._sets.shape[1]
        is_new = is_eligible & np.isnan(self._client_reward)
        group = self._order[is_new[self._order]][:size]
        if group.size == 0:
            return group
        others = self._refill[is_present[self._refill] & ~np.isin(self._refill, group)]
        return np.concatenate([group, others[: size - group.size]])

    def _next_arm(self, round_: int, is_present: BoolArray, slot: int) -> int:
        """Return the next group while a candidate has no reward yet, then the bandit's arm."""
        group = self._group(is_present, is_present)
        if group.size == 0:
            return super()._next_arm(round_, is_present, slot)
        if group.size < self._sets.shape[1]:
            return NO_ARM
        return int(np.flatnonzero((self._sets == np.sort(group)).all(axis=1))[0])

    def _credit(self, reward: float) -> None:
        members = self._sets[self._arm]
        if np.isnan(self._client_reward[members]).any():
            self._start_arms(members, reward)
        else:
            super()._credit(reward)

    def _start_arms(self, members: IntArray, reward: float) -> None:
        """Store the reward of a group; start arms of which every member has one with their mean."""
        is_new = np.isnan(self._client_reward[members])
        self._client_reward[members[is_new]] = reward
        is_known = np.isfinite(self._client_reward[self._sets]).all(axis=1)
        begun = np.flatnonzero(is_known & (self._plays == 0))
        self._means[begun] = equations.initial_means(
            self._sets[begun], self._client_reward, self._init
        )
        self._plays[begun] = 1
