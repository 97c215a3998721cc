"""Stored transitions against a plain list of them."""

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.selectors.favor.replay import Replay

ROWS, AXES = 6, 2


class Plain:
    """Transitions with whole states."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.kept = []
        self.state = np.empty(0)

    def begin(self, state):
        self.state = state.copy()

    def follow(self, state, actions, *, reward, is_last):
        for action in actions:
            before, after = self.state.ravel().tolist(), state.ravel().tolist()
            self.kept.append((before, action, reward, after, is_last))
        self.kept = self.kept[-self.capacity :]
        self.state = state.copy()


def filled(capacity, num_rounds, *, seed=1):
    """Both memories after rounds of several episodes, in which a few rows change."""
    draw = rng.stream(seed, "tests/favor replay")
    replay, plain = Replay(capacity, ROWS, AXES), Plain(capacity)
    state = draw.normal(size=(ROWS, AXES)).astype(np.float32)
    for round_ in range(num_rounds):
        if round_ % 7 == 0:
            state = draw.normal(size=(ROWS, AXES)).astype(np.float32)
            replay.begin(state)
            plain.begin(state)
        actions = draw.permutation(ROWS - 1)[: round_ % 3 + 1].tolist()
        state = state.copy()
        state[[0, *(1 + action for action in actions)]] = draw.normal(size=(len(actions) + 1, AXES))
        reward, is_last = float(draw.normal()), round_ % 7 == 6
        replay.follow(state, actions, reward=reward, is_last=is_last)
        plain.follow(state, actions, reward=reward, is_last=is_last)
    return replay, plain


def read(replay):
    batch = replay.batch(np.arange(len(replay)))
    columns = (batch.states, batch.actions, batch.rewards, batch.next_states, batch.is_last)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("capacity", [1, 5, 33, 1000])
@pytest.mark.parametrize("num_rounds", [1, 6, 50])
def test_transitions_are_those_of_a_plain_list(capacity, num_rounds):
    replay, plain = filled(capacity, num_rounds)

    assert len(replay) == len(plain.kept)
    assert read(replay) == plain.kept


def test_states_share_the_rows_that_did_not_change():
    """With 100 clients a round of one changes 2 of 101 rows.

    Of 3,000 rounds the last 2,000 stay, with 101 numbers of 4 byte each and 2 rows of 100 numbers:
    1.2 kB each, instead of 80.8 kB for a state and its successor.
    """
    replay = Replay(2_000, 101, 100)
    state = np.zeros((101, 100), dtype=np.float32)
    replay.begin(state)
    for round_ in range(1, 3_001):
        state = state.copy()
        state[[0, 1 + round_ % 100]] = round_
        replay.follow(state, [round_ % 100], reward=0.0, is_last=False)
    arrays = replay.state()

    assert arrays["replay/states"].shape == (2_001, 101)
    # The rows of the window, and at most one older one of each client.
    assert arrays["replay/rows"].shape[0] <= 2 * 2_001 + 101
    assert sum(array.nbytes for array in arrays.values()) < 2_000 * 1_400
    assert replay._rows.shape[0] < 3 * arrays["replay/rows"].shape[0]
