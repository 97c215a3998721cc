"""Stored transitions whose states share their rows.

A state has N + 1 rows of d coordinates, of which a round changes those of its cohort and of the
global model. So rows are stored once, and a state is N + 1 numbers of rows: with 100 clients of 100
coordinates 10,000 rounds of one client take 12 MB, which as states and successors were 808 MB.

The successor of a state is the next one stored. An episode begins with a state of its own.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray, State

Coordinates = NDArray[np.float32]
"""Coordinates of models [..., d]."""


class SampledTransitions(NamedTuple):
    """Sampled transitions."""

    states: Coordinates
    """States [B, (N + 1) d]."""
    actions: IntArray
    """Chosen client of each [B]."""
    rewards: FloatArray
    """Reward of each [B]."""
    next_states: Coordinates
    """Successors [B, (N + 1) d]."""
    is_last: BoolArray
    """True where the successor ends the episode [B]."""


class Replay:
    """First-in, first-out memory of transitions.

    >>> replay = Replay(capacity=2, num_rows=2, num_coordinates=1)
    >>> replay.begin(np.array([[1.0], [2.0]], dtype=np.float32))
    >>> replay.follow(np.array([[1.0], [5.0]], dtype=np.float32), [0], reward=-0.5, is_last=False)
    >>> batch = replay.batch(np.array([0]))
    >>> batch.states.tolist(), batch.next_states.tolist()
    ([[1.0, 2.0]], [[1.0, 5.0]])
    """

    def __init__(self, capacity: int, num_rows: int, num_coordinates: int) -> None:
        self._capacity = capacity
        self._rows: Coordinates = np.empty((num_rows, num_coordinates), dtype=np.float32)
        self._num_used = 0
        self._states: deque[NDArray[np.int32]] = deque()
        """Numbers of the rows of each state [N + 1], the oldest first."""
        self._num_dropped = 0
        """Number of states that were dropped before the oldest."""
        self._state_of: IntArray = np.empty(0, dtype=np.int64)
        """Number of the state of each transition, counted from the first ever."""
        self._actions: IntArray = np.empty(0, dtype=np.int64)
        self._rewards: FloatArray = np.empty(0)
        self._is_last: BoolArray = np.empty(0, dtype=np.bool_)

    def __len__(self) -> int:
        return self._actions.size

    def begin(self, state: Coordinates) -> None:
        """Store a state [N + 1, d] that follows from no transition."""
        # Stored first: this may replace the states by others.
        added = self._added(state)
        self._states.append(added)

    def follow(
        self, state: Coordinates, actions: list[int], *, reward: float, is_last: bool
    ) -> None:
        """Store the transitions from the newest state to this one [N + 1, d], one per action."""
        origin = self._num_dropped + len(self._states) - 1
        changed = np.flatnonzero((state != self._rows[self._states[-1]]).any(axis=1))
        added = self._added(state[changed])
        # Numbers of rows may be new now.
        after = self._states[-1].copy()
        after[changed] = added
        self._states.append(after)
        num = len(actions)
        self._state_of = np.append(self._state_of, np.full(num, origin))
        self._actions = np.append(self._actions, np.array(actions, dtype=np.int64))
        self._rewards = np.append(self._rewards, np.full(num, reward))
        self._is_last = np.append(self._is_last, np.full(num, is_last))
        self._drop()

    def batch(self, picked: IntArray) -> SampledTransitions:
        """Return the transitions at these places, of which 0 is the oldest [B]."""
        places = self._state_of[picked] - self._num_dropped
        now = np.stack([self._states[place] for place in places.tolist()])
        later = np.stack([self._states[place + 1] for place in places.tolist()])
        return SampledTransitions(
            self._rows[now].reshape(picked.size, -1),
            self._actions[picked],
            self._rewards[picked],
            self._rows[later].reshape(picked.size, -1),
            self._is_last[picked],
        )

    def state(self) -> State:
        """Return copies of the rows in use, the states and the transitions."""
        used, states = self._in_use()
        return {
            "replay/rows": self._rows[used],
            "replay/states": states,
            "replay/state_of": self._state_of - self._num_dropped,
            "replay/actions": self._actions.copy(),
            "replay/rewards": self._rewards.copy(),
            "replay/is_last": self._is_last.copy(),
        }

    def restore(self, state: State) -> None:
        """Replace everything by a copy of what `state` returned."""
        self._rows = np.array(state["replay/rows"], dtype=np.float32)
        self._num_used = self._rows.shape[0]
        self._states = deque(np.array(state["replay/states"], dtype=np.int32))
        self._num_dropped = 0
        self._state_of = np.array(state["replay/state_of"], dtype=np.int64)
        self._actions = np.array(state["replay/actions"], dtype=np.int64)
        self._rewards = np.array(state["replay/rewards"], dtype=np.float64)
        self._is_last = np.array(state["replay/is_last"], dtype=np.bool_)

    def _added(self, rows: Coordinates) -> NDArray[np.int32]:
        """Store rows [n, d] and return their numbers [n]."""
        if self._num_used + rows.shape[0] > self._rows.shape[0]:
            self._make_room(rows.shape[0])
        first, self._num_used = self._num_used, self._num_used + rows.shape[0]
        self._rows[first : self._num_used] = rows
        return np.arange(first, self._num_used, dtype=np.int32)

    def _make_room(self, num: int) -> None:
        """Drop rows that no state has, and make room for as many again as are left."""
        used, states = self._in_use()
        kept = self._rows[used]
        size = 2 * (used.size + num)
        self._rows = np.empty((size, kept.shape[1]), dtype=np.float32)
        self._rows[: used.size] = kept
        self._num_used = used.size
        self._states = deque(states)

    def _in_use(self) -> tuple[IntArray, NDArray[np.int32]]:
        """Return the numbers of rows that a state has, and the states by their places in them."""
        states = np.array(list(self._states), dtype=np.int32)
        used, places = np.unique(states, return_inverse=True)
        return used.astype(np.int64), places.reshape(states.shape).astype(np.int32)

    def _drop(self) -> None:
        """Drop the oldest transitions beyond the capacity, and states that none begins with."""
        excess = len(self) - self._capacity
        if excess <= 0:
            return
        self._state_of = self._state_of[excess:]
        self._actions = self._actions[excess:]
        self._rewards = self._rewards[excess:]
        self._is_last = self._is_last[excess:]
        while self._num_dropped < self._state_of[0]:
            self._states.popleft()
            self._num_dropped += 1
