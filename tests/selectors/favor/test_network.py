"""Q-network of Favor: values and a loss by hand, and steps against torch's own layers."""

import numpy as np
import pytest
import torch

from fleetsim import rng
from fleetsim.selectors.favor.network import QNetwork
from fleetsim.selectors.favor.replay import SampledTransitions

HAND = {
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

    for name, parameter in zip(names, layers.parameters(), strict=True):
        np.testing.assert_allclose(net.weights()[name], parameter.detach().numpy(), atol=1e-5)
        assert not np.allclose(net.weights()[name], first[name], atol=1e-3)
