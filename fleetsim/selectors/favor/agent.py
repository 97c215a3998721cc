"""Agent of Favor: its network, stored transitions and counters, all that outlasts a run.

Draws are addressed by the seed of the run and by the number of steps or episodes so far.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, State
from fleetsim.selectors.favor.equations import exploration_rate
from fleetsim.selectors.favor.replay import Coordinates, Replay
from fleetsim.selectors.favor.settings import FavorKeys
from fleetsim.selectors.learned_weights import require_finite

if TYPE_CHECKING:
    from fleetsim.selectors.favor.network import QNetwork


class Agent:
    """Double Q-learning of one fleet."""

    def __init__(
        self, settings: FavorKeys, num_clients: int, num_coordinates: int, *, seed: int
    ) -> None:
        # torch is loaded here, so that the check of a scenario does not wait for it.
        from fleetsim.selectors.favor.network import QNetwork  # noqa: PLC0415

        self._settings = settings
        self._seed = seed
        self._network: QNetwork = QNetwork(
            (1 + num_clients) * num_coordinates,
            settings.hidden,
            num_clients,
            seed=rng.torch_seed(seed, "select/favor/weights"),
        )
        self._replay = Replay(settings.replay_capacity, 1 + num_clients, num_coordinates)
        self._num_rounds = 0
        self._num_steps = 0
        self.num_episodes = 0
        """Number of finished runs of learning before this one."""
        if settings.learning:
            self._network.begin_learning()

    @property
    def exploration(self) -> float:
        """Probability of a random place in the cohort."""
        settings = self._settings
        if not settings.learning:
            return 0.0
        return exploration_rate(
            self._num_rounds,
            settings.exploration,
            settings.exploration_end,
            settings.exploration_decay_rounds,
        )

    def values(self, state: Coordinates) -> FloatArray:
        """Return Q of each client in a state [N]."""
        return self._network.values(state)

    def begin(self, state: Coordinates) -> None:
        """Store the state in which a choice is made, where it follows from none."""
        self._replay.begin(state)

    def target(self, state: Coordinates, *, reward: float, is_last: bool) -> float:
        """Return the target of the actions of a round that led to this state."""
        return self._network.target(
            state, reward=reward, is_last=is_last, discount=self._settings.discount
        )

    def follow(
        self, state: Coordinates, actions: list[int], *, reward: float, is_last: bool
    ) -> float | None:
        """Store the transitions of a round to this state, and learn.

        Returns:
            Mean loss of the steps; None if there was none.

        Raises:
            DivergenceError: a weight is not finite after the steps.
        """
        self._replay.follow(state, actions, reward=reward, is_last=is_last)
        self._num_rounds += 1
        settings = self._settings
        losses = []
        if len(self._replay) >= settings.batch_size:
            losses = [self._step() for _ in range(settings.steps_per_round)]
            require_finite("favor", self._network.weights())
        if settings.sync_in == "rounds" and self._num_rounds % settings.sync_every == 0:
            self._network.update_target()
        return math.fsum(losses) / len(losses) if losses else None

    def use(self, weights: State) -> None:
        """Replace the network by these layers."""
        self._network.use(weights)

    def weights(self) -> State:
        """Return copies of the layers of the network."""
        return self._network.weights()

    def next_episode(self, learned: State) -> None:
        """Continue from the `state` of another run's agent."""
        self.restore(learned)
        if not self._settings.learning:
            return
        self.num_episodes += 1
        is_due = self.num_episodes % self._settings.sync_every == 0
        if self._settings.sync_in == "episodes" and is_due:
            self._network.update_target()

    def state(self) -> State:
        """Return copies of networks, moments, transitions and counters."""
        return {
            **self._network.state(),
            **self._replay.state(),
            "num_rounds": np.array(self._num_rounds),
            "num_steps": np.array(self._num_steps),
            "num_episodes": np.array(self.num_episodes),
        }

    def restore(self, state: State) -> None:
        """Replace everything by a copy of what `state` returned; what is frozen needs no more."""
        if not self._settings.learning:
            prefix = "network/online/"
            self._network.use(
                {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
            )
            return
        self._network.restore(state)
        self._replay.restore(state)
        self._num_rounds = int(state["num_rounds"])
        self._num_steps = int(state["num_steps"])
        self.num_episodes = int(state["num_episodes"])

    def _step(self) -> float:
        """Take one step on a batch of transitions, drawn uniformly without replacement.

        Returns:
            Loss of the batch before the step.
        """
        settings = self._settings
        generator = rng.stream(self._seed, "select/favor/batch", self._num_steps)
        picked = generator.choice(len(self._replay), settings.batch_size, replace=False)
        loss = self._network.learn(
            self._replay.batch(picked),
            discount=settings.discount,
            learning_rate=settings.learning_rate,
        )
        self._num_steps += 1
        return loss
