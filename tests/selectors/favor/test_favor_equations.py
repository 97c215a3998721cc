"""Equations of Favor by hand, and principal axes against a singular value decomposition."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from fleetsim import rng
from fleetsim.selectors.favor import equations
from fleetsim.selectors.favor.equations import (
    choose,
    coordinates,
    double_q_target,
    exploration_rate,
    principal_axes,
    reward,
    turn_onto,
)
from fleetsim.selectors.favor.network import QNetwork
from fleetsim.selectors.favor.replay import Replay, SampledTransitions


def models_of(num, size, *, seed=3):
    """Models whose parameters have different spreads, so that no two axes are alike."""
    draw = rng.stream(seed, "tests/favor models")
    models = draw.normal(size=(num, size)) * np.linspace(0.2, 3.0, size) + 5.0
    return models.astype(np.float32)


@pytest.mark.parametrize(("num_models", "size", "num_axes"), [(7, 40, 3), (40, 7, 7), (5, 6, 2)])
@pytest.mark.parametrize("block_numbers", [1, 20, 1 << 22])
def test_axes_and_coordinates_are_those_of_a_singular_value_decomposition(
    num_models, size, num_axes, block_numbers, monkeypatch
):
    monkeypatch.setattr(equations, "_BLOCK_NUMBERS", block_numbers)
    models = models_of(num_models, size)
    left, lengths, right = np.linalg.svd(models - models.mean(axis=0, dtype=np.float64))
    mean, axes = principal_axes(list(models), num_axes)
    points = coordinates(list(models), mean, axes)

    np.testing.assert_allclose(mean, models.mean(axis=0, dtype=np.float64))
    # An axis has no sign: here its largest coordinate is positive.
    expected = left[:, :num_axes] * lengths[:num_axes]
    sign = np.sign(expected[np.abs(expected).argmax(axis=0), np.arange(num_axes)])
    np.testing.assert_allclose(points, expected * sign, atol=1e-5)
    np.testing.assert_allclose(axes, right[:num_axes] * sign[:, None], atol=1e-6)


def test_there_are_no_more_axes_than_models_tell_apart():
    # Three points on a line, and two that are equal.
    one = np.array([1.0, 2.0, 0.0], dtype=np.float32)
    line = [one * np.float32(length) for length in (0.0, 1.0, 3.0)]
    _, axes = principal_axes(line, 3)
    assert np.abs(axes[0]) == pytest.approx(np.array([1.0, 2.0, 0.0]) / math.sqrt(5.0))
    assert (axes[1:] == 0.0).all()

    equal = np.ones(2, dtype=np.float32)
    mean, axes = principal_axes([equal, equal], 2)
    assert mean.tolist() == [1.0, 1.0]
    assert (axes == 0.0).all()
    with pytest.raises(ValueError, match="at least one model, got 0"):
        principal_axes([], 2)


def test_a_turn_is_found_again_and_keeps_all_distances_of_fewer_points_than_axes():
    draw = rng.stream(5, "tests/favor turn")
    turn, _ = np.linalg.qr(draw.normal(size=(4, 4)))
    points = draw.normal(size=(9, 4))

    np.testing.assert_allclose(turn_onto(points, points @ turn), turn, atol=1e-12)
    point = np.array([[2.0, 0.0, 0.0]])
    turn = turn_onto(point, np.array([[0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(point @ turn, [[0.0, 0.0, 2.0]], atol=1e-12)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("accuracy", "expected"), [(0.9, 0.0), (0.4, 1.0 / 8.0 - 1.0), (0.9 - 1.0 / 3.0, -0.75)]
)
def test_the_reward_by_hand(accuracy, expected):
    # 64^(-1/2) is 1/8, 64^(-1/3) is 1/4; Omega is 0.9.
    assert reward(accuracy, 0.9) == pytest.approx(expected)
    # With base 4, 4^(1/2) - 1 above the target.
    assert reward(1.0, 0.5, base=4.0) == pytest.approx(1.0)


def test_the_target_by_hand():
    """One network chooses, the other one evaluates.

    1. Q(s') = 1, 3, 2 chooses client 1, of which Q' says -4: -0.5 + 0.9 * -4 = -4.1. Q-learning
       without a second network would take 3, and the largest of Q', 7, is not taken either.
    2. The choice is client 0, of which Q' says 10: -0.25 + 9 = 8.75.
    3. The episode ended: the reward alone.
    """
    target = double_q_target(
        np.array([-0.5, -0.25, 0.125]),
        np.array([[1.0, 3.0, 2.0], [5.0, 4.0, 0.0], [1.0, 0.0, 0.0]]),
        np.array([[7.0, -4.0, 0.0], [10.0, 20.0, 30.0], [9.0, 9.0, 9.0]]),
        np.array([False, False, True]),
        0.9,
    )

    assert target.tolist() == pytest.approx([-4.1, 8.75, 0.125])


def test_exploration_falls_to_its_end():
    assert exploration_rate(200, 0.9, 0.1, 200.0) == pytest.approx(0.1 + 0.8 / math.e)
    assert exploration_rate(10**6, 0.9, 0.1, 200.0) == pytest.approx(0.1)


def test_the_largest_values_are_chosen_and_random_ones_among_the_others():
    values = np.array([0.0, 5.0, 5.0, -1.0, 2.0])
    keys = np.array([0.5, 0.9, 0.1, 0.2, 0.3])
    draws = np.array([0.8, 0.0, 0.1, 0.3, 0.4])

    assert choose(values, 3, 0, keys, draws).tolist() == [2, 1, 4]
    # One place goes to the smallest draw of 0, 3 and 4.
    assert choose(values, 3, 1, keys, draws).tolist() == [2, 1, 3]
    assert choose(values, 2, 2, keys, draws).tolist() == [1, 2]
    assert sorted(choose(values, 9, 9, keys, draws).tolist()) == [0, 1, 2, 3, 4]
    assert choose(values[:0], 3, 1, keys[:0], draws[:0]).tolist() == []


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
