"""Replay memory: rounds of the past from which agents learn.

A round has as many agents as probed clients, so that transitions differ in length. In a state of
the memory, rows of all transitions follow one another.
"""

from collections.abc import Iterable
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


def state_of(transitions: Iterable[Transition]) -> State:
    """Return transitions as arrays, with the rows of all of them in sequence."""
    kept = list(transitions)
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


def transitions_of(state: State) -> list[Transition]:
    """Return the transitions that `state_of` described, the oldest first."""
    if state["replay/sizes"].size == 0:
        return []
    ends = np.cumsum(state["replay/sizes"])[:-1]
    next_ends = np.cumsum(state["replay/next_sizes"])[:-1]
    rows = zip(
        np.split(state["replay/states"].astype(np.float32), ends),
        np.split(state["replay/continues"].astype(np.bool_), ends),
        state["replay/rewards"].tolist(),
        np.split(state["replay/next_states"].astype(np.float32), next_ends),
        state["replay/next_wanted"].tolist(),
        strict=True,
    )
    return [Transition(*row) for row in rows]
