"""UCB over sets: a bandit whose arms are all sets of K clients.

The clients of an arm train for a slot of L rounds (`slot_rounds`); then everybody evaluates the
model on its own data. The reward of the arm is the average opinion, the mean accuracy. The next
slot plays the arm with the largest

    Psi_a = r_a + mu sqrt(ln t / Pi_a)

with r_a the mean reward, Pi_a the number of plays and t the number of the slot
(`fleetsim.selectors.bandits.equations`). An arm that was never played goes first. With 15,504 arms
(20 clients, cohort 5) this stays random selection for longer than anybody trains; the cold start
of `fleetsim.selectors.quick_init_ucb` is the way out.

Before the first choice after a slot all candidates are asked to evaluate the model (FL&FA: what
they say goes to the server); the mean is taken over those who answered. A slot in which all failed
is judged by the model as it was. A slot of which nobody says anything brings no reward: means and
plays stay as they were, but its number t is used up. After the last slot nobody is asked. With
`model: reset` every slot begins with the initial model
(`fleetsim.selectors.bandits.slots`).

K is the cohort (`server.cohort`), or everybody where the fleet is smaller. Over-commitment does not
make the set larger. Only arms whose members are all there are played. In the course of a slot a
missing member is missed; nobody stands in. With fewer than K candidates all of them train for one
round, which is no slot and is not judged.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", section IV (mu = 1, L = 15). That fleets with more than a million sets (`max_sets`) are
refused is fleetsim's; the paper could not run the 75 million of 100 clients and cohort 5 either.

The server must know the opinions. Costs: after every slot the model's way down to everybody, a
forward pass over its own samples (`task.holdout_fraction`), 8 byte up. State: two numbers an arm,
and K numbers an arm in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    Parameters,
    ProbeRequest,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.errors import ScenarioError
from fleetsim.schema.ranges import Rounds, Weight
from fleetsim.selectors.bandits.equations import (
    MOST_ARMS,
    arms,
    average_opinion,
    index,
    is_playable,
    rewarded,
)
from fleetsim.selectors.bandits.slots import Slot, SlotModel, sent_out
from fleetsim.selectors.common import answers
from fleetsim.selectors.common.tie_breaking import TieRule, best, tie_keys
from fleetsim.settings import Settings

NO_ARM = -1


class SetBanditOptions(Settings):
    """What can be set of any bandit over sets."""

    kind: str
    mu: Weight = 1.0
    """Weight of the exploration."""
    slot_rounds: Rounds = Field(default=15, examples=[1])
    """Rounds for which a set trains before it is judged (L)."""
    ties: TieRule = "random"
    """Order among sets of equal index, and of clients in the cold start."""
    model: SlotModel = "persist"
    """Whether a slot goes on with the model of the one before, or begins with the initial one."""
    max_sets: Annotated[int, Field(ge=1, le=5_000_000)] = MOST_ARMS
    """Sets beyond which a run is refused: each takes memory, 16 byte and 8 for each member."""


class UcbSettings(SetBanditOptions):
    """Bandit over all sets of clients, by the average opinion of the model."""

    kind: Literal["ucb"] = "ucb"

    def build(self) -> UcbSelector:
        """Selector with these settings."""
        return UcbSelector(self)


class UcbSelector:
    """Mean reward and number of plays of every arm [A], and the slot that is under way."""

    needs_losses = True
    needs_probes = True

    def __init__(self, settings: SetBanditOptions) -> None:
        self._settings = settings
        self._seed = 0
        self._start: Parameters | None = None
        self._num_clients = 0
        self._sets: IntArray = np.empty((0, 0), dtype=np.int64)
        self._means: FloatArray = np.empty(0)
        self._plays: IntArray = np.empty(0, dtype=np.int64)
        self._slot = Slot(0)
        self._num_slots = 0
        self._arm = NO_ARM

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """List the arms.

        Raises:
            ScenarioError: there are too many of them.
        """
        self._seed = fleet.seed
        self._num_clients = fleet.num_samples.size
        size = min(fleet.cohort, self._num_clients)
        try:
            self._sets = arms(self._num_clients, size, self._settings.max_sets)
        except ValueError as fault:
            raise ScenarioError(
                f"server.selector.kind = {self._settings.kind!r}: {fault}; lower fleet.size or"
                " server.cohort, choose server.selector.kind = 'bp-ucb', or raise"
                " server.selector.max_sets"
            ) from None
        self._start = fleet.parameters if self._settings.model == "reset" else None
        self._means = np.zeros(self._sets.shape[0])
        self._plays = np.zeros(self._sets.shape[0], dtype=np.int64)
        self._slot = Slot(self._num_clients)
        return ()

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """After a slot, ask everybody for an opinion of its model."""
        if self._arm == NO_ARM or not self._slot.is_over:
            return ()
        return answers.evaluations(answers.unasked(view), is_opinion=True)

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Those of the slot's set that are there."""
        start = None
        if self._slot.is_over and view.candidates.size:
            self._judge(view)
            self._begin(view)
            start = self._start
        return sent_out(self._slot.members(view.candidates, view.wanted), start)

    def observe(self, outcome: RoundOutcome) -> None:
        """One round of the slot is over."""
        self._slot.observe(outcome)

    def state(self) -> State:
        """Means, plays, and the slot."""
        return self._slot.state() | {
            "means": self._means.copy(),
            "plays": self._plays.copy(),
            "num_slots": np.array(self._num_slots, dtype=np.int64),
            "arm": np.array(self._arm, dtype=np.int64),
        }

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self._slot.restore(state)
        self._means = np.array(state["means"], dtype=np.float64)
        self._plays = np.array(state["plays"], dtype=np.int64)
        self._num_slots = int(state["num_slots"])
        self._arm = int(state["arm"])

    def _judge(self, view: RoundView) -> None:
        if self._arm != NO_ARM:
            reward = average_opinion(answers.accuracies(view.reports, self._num_clients))
            if not math.isnan(reward):
                self._credit(reward)

    def _begin(self, view: RoundView) -> None:
        is_there = np.zeros(self._num_clients, dtype=np.bool_)
        is_there[view.candidates] = True
        self._arm = self._next_arm(view.round, is_there, self._num_slots + 1)
        if self._arm == NO_ARM:
            self._slot.begin(view.candidates, 1)
        else:
            self._num_slots += 1
            self._slot.begin(self._sets[self._arm], self._settings.slot_rounds)

    def _next_arm(self, round_: int, is_there: BoolArray, slot: int) -> int:
        """Arm of the largest index among those that are all there [N]."""
        playable = np.flatnonzero(is_playable(self._sets, is_there))
        if playable.size == 0:
            return NO_ARM
        scores = index(self._means[playable], self._plays[playable], slot, self._settings.mu)
        generator = rng.stream(self._seed, f"select/{self._settings.kind}", round_)
        keys = tie_keys(self._settings.ties, self._plays.size, generator)
        return int(playable[best(scores, 1, keys[playable])[0]])

    def _credit(self, reward: float) -> None:
        """The arm that was played has brought a reward."""
        played = np.array([self._arm], dtype=np.int64)
        self._means, self._plays = rewarded(
            self._means, self._plays, played, np.array([reward], dtype=np.float64)
        )
