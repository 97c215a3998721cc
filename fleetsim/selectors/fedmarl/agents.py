"""Team of agents that share a network, and what they learn from round to round.

The network is trained after each round, by some batches. The target network is replaced by a copy
of the network every few rounds of learning. The output layer begins at 0, so that agents that have
learned nothing prefer neither action.
"""

import math
from collections import deque

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, State
from fleetsim.contracts.recording import joined, part_of
from fleetsim.errors import ScenarioError
from fleetsim.selectors.fedmarl.equations import Floats32, action_values, team_target
from fleetsim.selectors.fedmarl.observations import (
    NO_STATES,
    NUM_FEATURES,
    Transition,
    state_of,
    transitions_of,
)
from fleetsim.selectors.fedmarl.settings import FedMarlSettings
from fleetsim.selectors.learned_weights import require_finite

_ACTIONS = 2


def first_network(seed: int, hidden: int) -> dict[str, Floats32]:
    """Return a network that prefers no action: random hidden units, an output layer of 0.

    Weights and biases of the hidden layer are uniform within 1 / sqrt(6) of 0, torch's usual range
    for a linear layer of six inputs.
    """
    generator = rng.stream(seed, "select/fedmarl/network")
    bound = 1.0 / math.sqrt(NUM_FEATURES)
    weight = generator.uniform(-bound, bound, (hidden, NUM_FEATURES))
    bias = generator.uniform(-bound, bound, hidden)
    return {
        "hidden/weight": weight.astype(np.float32),
        "hidden/bias": bias.astype(np.float32),
        "output/weight": np.zeros((_ACTIONS, hidden), dtype=np.float32),
        "output/bias": np.zeros(_ACTIONS, dtype=np.float32),
    }


def checked_network(arrays: State, hidden: int) -> dict[str, Floats32]:
    """Return the network of a weight file with as many hidden units."""
    shapes = {name: array.shape for name, array in first_network(0, hidden).items()}
    given = {name: array.shape for name, array in arrays.items()}
    if given.keys() == shapes.keys() and given["hidden/bias"] != (hidden,):
        raise ScenarioError(
            f"server.selector.hidden: the weights have {arrays['hidden/bias'].size} hidden units,"
            f" not {hidden}; set hidden to that number"
        )
    if given != shapes:
        raise ScenarioError(
            "server.selector.weights: these are no finite weights of agents with"
            f" {NUM_FEATURES} inputs and {_ACTIONS} actions; train with `fleetsim selector train"
            " fedmarl`"
        )
    return {name: array.astype(np.float32) for name, array in arrays.items()}


class Agents:
    """The network of all agents, with everything from which its training goes on."""

    def __init__(self, network: dict[str, Floats32], settings: FedMarlSettings) -> None:
        self._settings = settings
        self._network = network
        self._target = network
        self._moments: dict[str, Floats32] = {}
        self._num_steps = 0
        self._num_rounds = 0
        self.num_choices = 0
        """Choices in which agents explored, of all episodes."""
        self.replay: deque[Transition] = deque(maxlen=settings.replay_capacity)
        """Transitions of the last rounds, the oldest first."""

    def values(self, states: Floats32) -> Floats32:
        """Return Q(s_n, stop) and Q(s_n, continue) of each agent [n, 2]."""
        return action_values(self._network, states)

    def learn(self, seed: int, round_: int) -> float | None:
        """Train the network on batches drawn at the address of seed and round.

        Return the mean loss of the batches, each before its step; None before the replay memory
        holds a batch, when there is nothing to do.
        """
        settings = self._settings
        if len(self.replay) < settings.batch_size:
            return None
        # Scenarios are validated without torch, and frozen agents do not need it.
        from fleetsim.selectors.fedmarl import network as learning  # noqa: PLC0415

        generator = rng.stream(seed, "select/fedmarl/replay", round_)
        batches = []
        for _ in range(settings.steps_per_round):
            places = generator.integers(len(self.replay), size=settings.batch_size)
            transitions = [self.replay[place] for place in places]
            batches.append((transitions, self._targets(transitions)))
        self._network, self._moments, losses = learning.improved(
            self._network, self._moments, self._num_steps, batches, settings.learning_rate
        )
        require_finite("fedmarl", self._network)
        self._num_steps += len(batches)
        self._num_rounds += 1
        if self._num_rounds % settings.sync_every_rounds == 0:
            self._target = self._network
        return math.fsum(losses) / len(losses)

    def _targets(self, transitions: list[Transition]) -> FloatArray:
        """Return y of each transition [b]."""
        rows = np.concatenate([NO_STATES, *(each.next_states for each in transitions)])
        values = action_values(self._target, rows)
        ends = np.cumsum([len(each.next_states) for each in transitions])[:-1]
        return np.array(
            [
                team_target(each.reward, of_agents, each.next_wanted, self._settings.discount)
                for each, of_agents in zip(transitions, np.split(values, ends), strict=True)
            ]
        )

    def policy(self) -> State:
        """Return copies of the weights, with which frozen agents choose."""
        return {name: array.copy() for name, array in self._network.items()}

    def state(self) -> State:
        """Return copies of everything learned."""
        parts = {"network": self._network, "target": self._target, "adam": self._moments}
        state: State = {name: array.copy() for name, array in joined(parts).items()}
        counts = (self._num_steps, self._num_rounds, self.num_choices)
        return state | state_of(self.replay) | {"counts": np.array(counts, dtype=np.int64)}

    def restore(self, state: State) -> None:
        """Replace everything by what `state` returned."""
        self._network, self._target, self._moments = (
            {name: np.array(array, dtype=np.float32) for name, array in part_of(state, one).items()}
            for one in ("network", "target", "adam")
        )
        self._num_steps, self._num_rounds, self.num_choices = state["counts"].tolist()
        self.replay.clear()
        self.replay.extend(transitions_of(state))
