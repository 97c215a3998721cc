"""Round-robin selection: all clients in turn.

A random order of the N clients is cut into blocks, one for each choice:

    ceil(N / K) blocks of K clients; the last is filled up with random clients of the others

The blocks form a sequence. A choice takes the first `wanted` available clients from the present
position on; then the position advances by `wanted`, with `slot_rounds` after the last round of a
slot, unless that round has no candidates.
Predefined sets form a circle: a choice is the first K available clients of a set and, where members
are missing, of the sets after it.

Source: the baseline of Tong et al., "From learning to analytics: improving model efficacy with
goal-directed client selection"; the rules for unavailable clients are fleetsim's.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import BoolArray, FleetView, IntArray, RoundView, Selector
from fleetsim.selectors.bandits.slots import SlotRounds, ends_slot
from fleetsim.selectors.baselines.fixed import ClientIds, sets_of_clients
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind
from fleetsim.selectors.demands import Demand, Demands


class RoundRobinSettings(SelectorKind):
    """All clients in turn, in blocks of a random order or in given sets."""

    demands: ClassVar[Demands] = {
        "": Demand("nothing", "yes", "nothing is asked, a place in the order is kept")
    }

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
            return RoundRobinSelector(self)
        return SetRotationSelector(self)


def top_up(permutation: IntArray, cohort: int, generator: np.random.Generator) -> IntArray:
    """Return clients that fill up the last block of `cohort`: random ones of the full blocks.

    >>> top_up(np.array([4, 0, 2, 1, 3]), 3, rng.stream(0, "doc")).size
    1
    """
    full_blocks = permutation[: permutation.size // cohort * cohort]
    num_missing = min(-permutation.size % cohort, full_blocks.size)
    return generator.choice(full_blocks, num_missing, replace=False)


def sets_in_line(sets: Sequence[IntArray], turn: int) -> IntArray:
    """Return the ids of all sets in sequence, from number `turn` (0, 1, ...; modulo their number).

    A client that is in several sets occurs as many times.

    >>> sets_in_line([np.array([4, 1]), np.array([2]), np.array([1, 3])], 4).tolist()
    [2, 1, 3, 4, 1]
    """
    first = turn % len(sets)
    return np.concatenate([*sets[first:], *sets[:first]])


def take_turn(line: IntArray, wanted: int, is_candidate: BoolArray) -> IntArray:
    """Return the first `wanted` distinct candidates of `line`, in its order.

    >>> take_turn(np.array([3, 1, 3, 0, 2]), 2, np.array([True, False, True, True])).tolist()
    [3, 0]
    """
    distinct = dict.fromkeys(line[is_candidate[line]].tolist())
    return np.array(list(distinct)[:wanted], dtype=np.int64)


class RoundRobinSelector(ConfiguredSelector[RoundRobinSettings]):
    """Selector of blocks of a permutation; `_position` counts on over all cycles."""

    state_fields = ("_position",)

    def _begin(self, fleet: FleetView) -> None:
        generator = rng.stream(fleet.seed, "select/round-robin/order")
        self._permutation = generator.permutation(self._size).astype(np.int64)
        self._position = 0

    def select(self, view: RoundView) -> IntArray:
        """Return the next block, topped up from the clients after it, and advance the position."""
        chosen = take_turn(self._line(), view.wanted, self._mask(view.candidates))
        if chosen.size and ends_slot(view.round, self._settings.slot_rounds):
            self._position += view.wanted
        return chosen

    def _line(self) -> IntArray:
        """Return one full cycle from the present position on, which holds all clients."""
        first = self._cycle(0)
        cycle, offset = divmod(self._position, first.size)
        return np.concatenate([self._cycle(cycle)[offset:], self._cycle(cycle + 1)[:offset]])

    def _cycle(self, cycle: int) -> IntArray:
        generator = rng.stream(self._fleet.seed, "select/round-robin", cycle)
        extra = top_up(self._permutation, self._fleet.cohort, generator)
        return np.concatenate([self._permutation, extra])


class SetRotationSelector(ConfiguredSelector[RoundRobinSettings]):
    """Selector of given sets in turn, one per slot; `_turn` counts the slots."""

    state_fields = ("_turn",)

    def _begin(self, fleet: FleetView) -> None:
        self._sets = sets_of_clients(self._settings.sets, self._size, "sets")
        self._turn = 0

    def select(self, view: RoundView) -> IntArray:
        """Return the next set, topped up from the sets after it, and advance the turn."""
        line = sets_in_line(self._sets, self._turn)
        chosen = take_turn(line, view.wanted, self._mask(view.candidates))
        if chosen.size and ends_slot(view.round, self._settings.slot_rounds):
            self._turn += 1
        return chosen
