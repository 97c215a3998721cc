"""Round-robin: every client in its turn.

A seeded random permutation of the N clients is cut into ceil(N / K) blocks of K, and each choice
takes the next block. The last block is topped up with random clients of the other blocks, drawn
anew in every cycle; then the first block comes again.

More precisely the blocks stand in line and a choice takes the first `wanted` available clients
from the present place on; the place then moves on by `wanted`. So an unavailable member of a block
is skipped until the next cycle and the next block steps in, without losing its own turn; and with
everybody available all are covered in ceil(N / wanted) choices, also where more than K are wanted
at a time (over-commitment).

With `sets` each choice takes the next of these sets instead; missing members, and those wanted
beyond the set, come from the sets that follow.

With `slot_rounds` a turn lasts for so many rounds: the place moves on with the last round of every
slot, unless nobody is there in it.

Source: the baseline of Tong et al., "From learning to analytics: improving model efficacy with
goal-directed client selection", which cycles through five predefined sets of five among twenty
clients, from one slot of L rounds to the next. The paper leaves open what becomes of unavailable
clients; the rules above are fleetsim's.

The server must know nothing. No probes; the state is one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    FleetView,
    IntArray,
    ProbeRequest,
    RoundOutcome,
    RoundView,
    Selector,
    State,
)
from fleetsim.selectors.bandits.slots import SlotRounds, ends_slot
from fleetsim.selectors.baselines.client_sets import sets_in_line
from fleetsim.selectors.baselines.fixed import ClientIds, require_clients
from fleetsim.settings import Settings


class RoundRobinSettings(Settings):
    """Every client in its turn, in blocks of a random order or in given sets."""

    kind: Literal["round-robin"] = "round-robin"
    sets: Annotated[tuple[ClientIds, ...], Field(min_length=1)] | None = Field(
        default=None, examples=[((0, 1), (2,))]
    )
    """Sets of clients to go through in turn; null: blocks of a random permutation."""
    slot_rounds: SlotRounds = 1
    """Rounds that a turn lasts for."""

    def build(self) -> Selector:
        """Selector with these settings."""
        if self.sets is None:
            return RoundRobinSelector(self.slot_rounds)
        return SetRotationSelector(self.sets, self.slot_rounds)


def top_up(permutation: IntArray, cohort: int, generator: np.random.Generator) -> IntArray:
    """Clients that fill up the last block of `cohort`: random ones of the full blocks.

    >>> top_up(np.array([4, 0, 2, 1, 3]), 3, rng.stream(0, "doc")).size
    1
    """
    full_blocks = permutation[: permutation.size // cohort * cohort]
    num_missing = min(-permutation.size % cohort, full_blocks.size)
    return generator.choice(full_blocks, num_missing, replace=False)


def take_turn(line: IntArray, wanted: int, is_candidate: BoolArray) -> IntArray:
    """The first `wanted` distinct candidates in line, in its order.

    >>> take_turn(np.array([3, 1, 3, 0, 2]), 2, np.array([True, False, True, True])).tolist()
    [3, 0]
    """
    chosen: dict[int, None] = {}
    for client in line[is_candidate[line]]:
        if len(chosen) == wanted:
            break
        chosen.setdefault(int(client))
    return np.array(list(chosen), dtype=np.int64)


def candidate_mask(candidates: IntArray, num_clients: int) -> BoolArray:
    """Whether each client of the fleet is a candidate [N]."""
    mask = np.zeros(num_clients, dtype=np.bool_)
    mask[candidates] = True
    return mask


class RoundRobinSelector:
    """Goes through the blocks of a permutation; `_position` is the place in line, all cycles."""

    needs_losses = False
    needs_probes = False

    def __init__(self, slot_rounds: int = 1) -> None:
        self._slot_rounds = slot_rounds
        self._seed = 0
        self._cohort = 1
        self._permutation: IntArray = np.empty(0, dtype=np.int64)
        self._position = 0

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Shuffle the clients."""
        self._seed = fleet.seed
        self._cohort = fleet.cohort
        generator = rng.stream(fleet.seed, "select/round-robin/order")
        self._permutation = generator.permutation(fleet.num_samples.size).astype(np.int64)
        return ()

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Ask for nothing."""
        return ()

    def select(self, view: RoundView) -> IntArray:
        """The next block, topped up from the line behind it; the turn passes on."""
        is_candidate = candidate_mask(view.candidates, self._permutation.size)
        chosen = take_turn(self._line(), view.wanted, is_candidate)
        if chosen.size and ends_slot(view.round, self._slot_rounds):
            self._position += view.wanted
        return chosen

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn nothing: who was asked has had its turn, whatever came of it."""

    def state(self) -> State:
        """The place in line."""
        return {"position": np.array(self._position, dtype=np.int64)}

    def restore(self, state: State) -> None:
        """Take back the place in line."""
        self._position = int(state["position"])

    def _line(self) -> IntArray:
        """One full cycle from the present place on; everybody stands in it."""
        first = self._cycle(0)
        cycle, offset = divmod(self._position, first.size)
        return np.concatenate([self._cycle(cycle)[offset:], self._cycle(cycle + 1)[:offset]])

    def _cycle(self, cycle: int) -> IntArray:
        generator = rng.stream(self._seed, "select/round-robin", cycle)
        extra = top_up(self._permutation, self._cohort, generator)
        return np.concatenate([self._permutation, extra])


class SetRotationSelector:
    """Goes through given sets, one a slot; `_turn` counts the slots."""

    needs_losses = False
    needs_probes = False

    def __init__(self, sets: Sequence[Sequence[int]], slot_rounds: int = 1) -> None:
        self._sets = [np.array(clients, dtype=np.int64) for clients in sets]
        self._slot_rounds = slot_rounds
        self._num_clients = 0
        self._turn = 0

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Check the sets.

        Raises:
            ScenarioError: a client in them is not in the fleet.
        """
        self._num_clients = fleet.num_samples.size
        for index, clients in enumerate(self._sets):
            key = f"server.selector.sets[{index}]"
            require_clients(clients.tolist(), self._num_clients, key)
        return ()

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Ask for nothing."""
        return ()

    def select(self, view: RoundView) -> IntArray:
        """The next set, topped up from the sets behind it; the turn passes on."""
        line = sets_in_line(self._sets, self._turn)
        chosen = take_turn(line, view.wanted, candidate_mask(view.candidates, self._num_clients))
        if chosen.size and ends_slot(view.round, self._slot_rounds):
            self._turn += 1
        return chosen

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn nothing: a set that was asked has had its turn."""

    def state(self) -> State:
        """The number of turns that are over."""
        return {"turn": np.array(self._turn, dtype=np.int64)}

    def restore(self, state: State) -> None:
        """Take back the number of turns that are over."""
        self._turn = int(state["turn"])
