"""Replay memory: rounds of the past from which agents learn.

A round has as many agents as probed clients, so that transitions differ in length. In a state of
the memory, rows of all transitions follow one another.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, State
from fleetsim.selectors.fedmarl.equations import Floats32
from fleetsim.selectors.fedmarl.observations import NUM_FEATURES

NO_STATES: Floats32 = np.empty((0, NUM_FEATURES), dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Transition:
    """Step of the team from one round to the next."""

    states: Floats32
    """States of the agents [n, 6]."""
    continues: BoolArray
    """Their actions, as they were carried out [n]."""
    reward: float
    next_states: Floats32
    """States of the agents of the next round [m, 6]; none after the last round."""
    next_wanted: int
    """Largest number of clients that may continue in the next round."""


class Replay:
    """Transitions of the last rounds, at most `capacity`."""

    def __init__(self, capacity: int) -> None:
        self._transitions: deque[Transition] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self._transitions)

    def __iter__(self) -> Iterator[Transition]:
        return iter(self._transitions)

    def add(self, transition: Transition) -> None:
        """Keep a transition; the oldest is dropped where there are too many."""
        self._transitions.append(transition)

    def sample(self, generator: np.random.Generator, num: int) -> list[Transition]:
        """Return transitions drawn with replacement.

        Raises:
            ValueError: there is none.
        """
        if not self._transitions:
            raise ValueError("a replay memory without transitions has none to draw")
        return [self._transitions[place] for place in generator.integers(len(self), size=num)]

    def state(self) -> State:
        """Return the transitions as arrays, with the rows of all of them in sequence."""
        kept = list(self._transitions)
        return {
            "replay/sizes": np.array([len(each.states) for each in kept], dtype=np.int64),
            "replay/states": np.concatenate([NO_STATES, *(each.states for each in kept)]),
            "replay/continues": np.concatenate(
                [np.empty(0, dtype=np.bool_), *(each.continues for each in kept)]
            ),
            "replay/rewards": np.array([each.reward for each in kept], dtype=np.float64),
            "replay/next_sizes": np.array([len(each.next_states) for each in kept], dtype=np.int64),
            "replay/next_states": np.concatenate([NO_STATES, *(each.next_states for each in kept)]),
            "replay/next_wanted": np.array([each.next_wanted for each in kept], dtype=np.int64),
        }

    def restore(self, state: State) -> None:
        """Replace the transitions by those of a state; the oldest are dropped if too many."""
        ends = np.cumsum(state["replay/sizes"])[:-1]
        next_ends = np.cumsum(state["replay/next_sizes"])[:-1]
        self._transitions.clear()
        if state["replay/sizes"].size == 0:
            return
        rows = zip(
            np.split(state["replay/states"].astype(np.float32), ends),
            np.split(state["replay/continues"].astype(np.bool_), ends),
            state["replay/rewards"].tolist(),
            np.split(state["replay/next_states"].astype(np.float32), next_ends),
            state["replay/next_wanted"].tolist(),
            strict=True,
        )
        self._transitions.extend(Transition(*row) for row in rows)
