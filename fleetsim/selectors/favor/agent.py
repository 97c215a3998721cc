"""Agent of Favor: its network, stored transitions and counters, all that outlasts a run.

Draws are addressed by the seed of the run and by the number of steps or episodes so far.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fleetsim import rng
from fleetsim.contracts import State
from fleetsim.contracts.recording import part_of
from fleetsim.selectors.declared_state import DeclaredState
from fleetsim.selectors.favor.equations import exploration_rate
from fleetsim.selectors.favor.replay import Coordinates, Replay
from fleetsim.selectors.favor.settings import FavorSettings
from fleetsim.selectors.learned_weights import require_finite

if TYPE_CHECKING:
    from fleetsim.selectors.favor.network import QNetwork


class Agent(DeclaredState):
    """Double Q-learning of one fleet."""

    state_parts = ("network", "replay")
    state_fields = ("_num_rounds", "_num_steps", "num_episodes")

    def __init__(
        self, settings: FavorSettings, num_clients: int, num_coordinates: int, *, seed: int
    ) -> None:
        # torch is loaded here, so that the check of a scenario does not wait for it.
        from fleetsim.selectors.favor.network import QNetwork  # noqa: PLC0415

        self._settings = settings
        self._seed = seed
        self.network: QNetwork = QNetwork(
            (1 + num_clients) * num_coordinates,
            settings.hidden,
            num_clients,
            seed=rng.torch_seed(seed, "select/favor/weights"),
        )
        self.replay = Replay(settings.replay_capacity, 1 + num_clients, num_coordinates)
        self._num_rounds = 0
        self._num_steps = 0
        self.num_episodes = 0
        """Finished runs of learning before this one."""
        if settings.learning:
            self.network.begin_learning()

    @property
    def exploration(self) -> float:
        """Probability of a random place in the cohort while it learns."""
        settings = self._settings
        return exploration_rate(
            self._num_rounds,
            settings.exploration,
            settings.exploration_end,
            settings.exploration_decay_rounds,
        )

    def follow(
        self, state: Coordinates, actions: list[int], *, reward: float, is_last: bool
    ) -> tuple[float, float | None]:
        """Store the transitions of a round to this state, and learn.

        Return the target of the actions, by the networks that made the choice, and the mean loss of
        the steps of learning; None if there was none.
        """
        settings = self._settings
        target = self.network.target(
            state, reward=reward, is_last=is_last, discount=settings.discount
        )
        self.replay.follow(state, actions, reward=reward, is_last=is_last)
        self._num_rounds += 1
        losses = []
        if len(self.replay) >= settings.batch_size:
            losses = [self._step() for _ in range(settings.steps_per_round)]
            require_finite("favor", self.network.weights())
        if settings.sync_in == "rounds" and self._num_rounds % settings.sync_every == 0:
            self.network.update_target()
        return target, math.fsum(losses) / len(losses) if losses else None

    def next_episode(self, learned: State) -> None:
        """Continue from the `state` of another run's agent."""
        self.restore(learned)
        if not self._settings.learning:
            return
        self.num_episodes += 1
        is_due = self.num_episodes % self._settings.sync_every == 0
        if self._settings.sync_in == "episodes" and is_due:
            self.network.update_target()

    def restore(self, state: State) -> None:
        """Replace everything by a copy of what `state` returned; what is frozen needs no more."""
        if not self._settings.learning:
            self.network.use(part_of(state, "network/online"))
            return
        super().restore(state)

    def _step(self) -> float:
        """Take one step on a batch drawn without replacement; return the loss before it."""
        settings = self._settings
        generator = rng.stream(self._seed, "select/favor/batch", self._num_steps)
        picked = generator.choice(len(self.replay), settings.batch_size, replace=False)
        loss = self.network.learn(
            self.replay.batch(picked),
            discount=settings.discount,
            learning_rate=settings.learning_rate,
        )
        self._num_steps += 1
        return loss
