"""Q-network of Favor against torch's layers and by hand, and stored transitions against a list."""

from typing import Any

import numpy as np
import pytest
import torch

from fleetsim import rng
from fleetsim.contracts import State
from fleetsim.selectors.favor.network import QNetwork
from fleetsim.selectors.favor.replay import Replay, SampledTransitions

HAND: State = {
    "hidden.weight": np.array([[1.0, -1.0], [2.0, 0.5]], dtype=np.float32),
    "hidden.bias": np.array([0.0, -1.0], dtype=np.float32),
    "output.weight": np.array([[1.0, 1.0], [0.0, -2.0]], dtype=np.float32),
    "output.bias": np.array([0.5, 1.0], dtype=np.float32),
}
"""Two inputs, two hidden units, two clients."""


def test_the_loss_of_a_double_q_step_by_hand():
    """From (0, 2) client 1 was chosen, with reward -0.5, and (3, 1) followed.

    Q of (3, 1) is 8, -10, so client 0 is chosen there; its value is that of the target network,
    whose output bias was 0.5 as the copy was made. Then the bias of the network that learns becomes
    2.5: Q = 10, Q' = 8, y = -0.5 + 0.5 * 8 = 3.5; Q of (0, 2) and client 1 is 1, so the loss is
    2.5^2. The second transition ended: y = 1, Q of (3, 1) and client 0 is 10, the loss 81.
    """
    net = QNetwork(2, 2, 2, seed=4)
    net.begin_learning()
    net.use(HAND)
    learned = {**HAND, "output.bias": np.array([2.5, 1.0], dtype=np.float32)}
    state = net.state()
    state |= {f"network/online/{name}": layer for name, layer in learned.items()}
    net.restore(state)
    states = np.array([[0.0, 2.0], [3.0, 1.0]], dtype=np.float32)
    later = np.array([[3.0, 1.0], [0.0, 0.0]], dtype=np.float32)
    batch = SampledTransitions(
        states, np.array([1, 0]), np.array([-0.5, 1.0]), later, np.array([False, True])
    )

    assert net.learn(batch, discount=0.5, learning_rate=0.1) == pytest.approx((6.25 + 81.0) / 2.0)


def test_steps_are_those_of_torch_s_layers_and_optimizer():
    draw = rng.stream(2, "tests/favor steps")
    net = QNetwork(6, 5, 3, seed=4)
    net.begin_learning()
    layers = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    names = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")
    first = net.weights()
    with torch.no_grad():
        for name, parameter in zip(names, layers.parameters(), strict=True):
            parameter.copy_(torch.from_numpy(first[name]))
    target = [p.detach().clone() for p in layers.parameters()]
    optimizer = torch.optim.RMSprop(layers.parameters(), lr=0.01)

    def target_of(states):
        hidden = (states @ target[0].T + target[1]).clamp(min=0.0)
        return hidden @ target[2].T + target[3]

    for _ in range(5):
        states, later = draw.normal(size=(2, 4, 6)).astype(np.float32)
        actions, rewards = draw.integers(0, 3, 4), draw.normal(size=4)
        batch = SampledTransitions(
            states, actions, rewards, later, np.array([False, True, False, False])
        )
        net.learn(batch, discount=0.9, learning_rate=0.01)
        with torch.no_grad():
            chosen = layers(torch.from_numpy(later)).argmax(dim=1)
            future = target_of(torch.from_numpy(later))[torch.arange(4), chosen]
            future[1] = 0.0
        aim = torch.from_numpy(rewards).float() + 0.9 * future
        taken = layers(torch.from_numpy(states))[torch.arange(4), torch.from_numpy(actions)]
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(taken, aim).backward()
        optimizer.step()

    last: dict[str, Any] = net.weights()
    for name, parameter in zip(names, layers.parameters(), strict=True):
        np.testing.assert_allclose(last[name], parameter.detach().numpy(), atol=1e-5)
        assert not np.allclose(last[name], first[name], atol=1e-3)


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
