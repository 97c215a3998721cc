"""Favor: clients that a deep Q-network values most, by the models of all clients.

Without any answer to the first probes there is no state, and clients are chosen at random.

Source: Wang, Kaplan, Niu, Li, INFOCOM 2020, by notes in translation and a fork of iQua/flsim with a
deep Q-network. gamma = 0.999, Xi = 64, RMSprop, the replay memory of 10,000, the 512 hidden units
and the copy into the target network every 10 episodes are the fork's.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    FleetView,
    FloatArray,
    IntArray,
    Report,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.selectors import probing
from fleetsim.selectors.configured_selector import ConfiguredSelector, Stages, known
from fleetsim.selectors.demands import require_validation
from fleetsim.selectors.favor.agent import Agent
from fleetsim.selectors.favor.compression import Compression
from fleetsim.selectors.favor.equations import choose, reward
from fleetsim.selectors.favor.settings import NUMBER_BYTE, FavorSettings
from fleetsim.selectors.learned_weights import require_arrays, weights_for
from fleetsim.selectors.tie_breaking import tie_keys
from fleetsim.units import BYTE_PER_GIB


class FavorSelector(ConfiguredSelector[FavorSettings]):
    """Selector with the coordinates of all models and an agent that outlasts the run."""

    needs_losses = True
    needs_probes = True
    state_parts = ("_compression", "_agent")
    state_fields = ("_was_asked", "_is_over", "_is_stored")

    def _begin(self, fleet: FleetView) -> None:
        settings = self._settings
        if settings.learning:
            require_validation(fleet, "favor learns from", ", or learning: false with weights")
        if settings.learning and settings.replay_capacity < settings.batch_size:
            raise ScenarioError(
                f"server.selector.replay_capacity: {settings.replay_capacity} transitions are"
                f" fewer than batch_size = {settings.batch_size}; raise it"
            )
        self._num_axes = min(settings.components, self._size)
        self._refuse_memory(fleet)
        self._compression = Compression(
            fleet.parameters, self._size, self._num_axes, scaling=settings.scaling, seed=fleet.seed
        )
        self._weights = self._read_weights(fleet)
        if "reference" in self._weights:
            self._compression.reference = np.array(self._weights["reference"], dtype=np.float32)
        self._made_agent: Agent | None = None
        self._was_asked = np.zeros(self._size, dtype=np.bool_)
        self._is_over = False
        self._is_stored = False

    @property
    def _agent(self) -> Agent:
        """The agent, made when it is first needed: it loads torch."""
        if self._made_agent is None:
            self._made_agent = Agent(
                self._settings, self._size, self._num_axes, seed=self._fleet.seed
            )
            if self._weights:
                self._made_agent.network.use(self._weights)
        return self._made_agent

    def _stages(self, view: RoundView) -> Stages:
        """Ask each candidate once for its model after an epoch."""
        is_new = ~self._was_asked[view.candidates]
        self._was_asked[view.candidates] = True
        yield probing.requests(view.candidates[is_new], probing.ONE_EPOCH, upload_byte=0)

    def select(self, view: RoundView) -> IntArray:
        """Return the candidates of the largest values, and random ones while it explores."""
        self._expected = {}
        self._take_in(view.reports, view)
        if view.candidates.size == 0:
            return view.candidates
        settings, is_learning = self._settings, self._is_learning
        if is_learning and self._compression.is_fitted and not self._is_stored:
            self._agent.replay.begin(self._compression.rows)
            self._is_stored = True
        num = 1 if is_learning and settings.action == "client" else view.wanted
        episode = self._agent.num_episodes
        generator = rng.stream(self._fleet.seed, "select/favor", episode, view.round)
        keys = tie_keys(settings.ties, self._size, generator)
        draws = generator.random(self._size)
        num_random = 0
        if is_learning:
            num_random = int((generator.random(num) < self._agent.exploration).sum())
        there, values = view.candidates, self._values()
        chosen = there[choose(values[there], num, num_random, keys[there], draws[there])]
        if self._compression.is_fitted and chosen.size:
            self._expected = known(
                expected=float(values[chosen].mean()),
                exploration=self._agent.exploration if is_learning else None,
            )
        return chosen

    def observe(self, outcome: RoundOutcome) -> None:
        """Update the coordinates, and learn from the round."""
        self._diagnostics, self._expected = self._expected, {}
        if outcome.selected.size == 0:
            return
        was_stored = self._is_stored
        self._take_in(outcome.reports, outcome)
        accuracy = probing.accuracy_of(outcome.validation)
        if not (self._is_learning and was_stored) or math.isnan(accuracy):
            return
        settings = self._settings
        self._is_over = accuracy >= settings.target_accuracy
        gained = reward(accuracy, settings.target_accuracy, settings.reward_base)
        target, loss = self._agent.follow(
            self._compression.rows,
            outcome.selected.tolist(),
            reward=gained,
            is_last=self._is_over,
        )
        self._is_stored = True
        self._diagnostics |= known(realised=target, reward=gained, loss=loss)

    def learned(self) -> State:
        """Return the agent, and the coordinates onto which later runs turn their axes."""
        return {"reference": self._compression.reference.copy(), **self._agent.state()}

    def take_up(self, learned: State) -> None:
        """Continue from what `learned` of another run returned."""
        self._compression.reference = np.array(learned["reference"], dtype=np.float32)
        self._agent.next_episode(learned)

    def policy(self) -> State:
        """Return the network, and the coordinates onto which runs turn their axes."""
        return {"reference": self._compression.reference.copy(), **self._agent.network.weights()}

    @property
    def _is_learning(self) -> bool:
        return self._settings.learning and not self._is_over

    def _values(self) -> FloatArray:
        """Return Q of all clients; zeros before there is a state [N]."""
        if not self._compression.is_fitted:
            return np.zeros(self._size)
        return self._agent.network.values(self._compression.rows)

    def _take_in(self, reports: Sequence[Report], now: RoundView | RoundOutcome) -> None:
        """Take the models of reports, and the global one, into the coordinates."""
        models: Mapping[int, np.ndarray] = {
            report.client: report.vector
            for report in reports
            if report.is_delivered and report.vector is not None
        }
        if models or isinstance(now, RoundOutcome):
            before = self._compression.rows
            self._compression.take_in(models, now.parameters)
            if not np.array_equal(before, self._compression.rows):
                self._is_stored = False

    def _refuse_memory(self, fleet: FleetView) -> None:
        """Refuse a fleet or a model that takes more memory than `memory_gib`."""
        settings = self._settings
        needed = memory_byte(settings, self._size, fleet.cohort, fleet.parameters.size)
        if needed > settings.memory_gib * BYTE_PER_GIB:
            gib = needed / BYTE_PER_GIB
            raise ScenarioError(
                f"server.selector: favor needs {gib:.{1 if gib >= 0.1 else 4}f} GiB for"
                f" {self._size:,} clients with {self._num_axes} components, {settings.hidden}"
                f" hidden units and models of {fleet.parameters.size:,} numbers; lower components"
                f" or hidden, set learning: false, or raise memory_gib = {settings.memory_gib:g}"
            )

    def _read_weights(self, fleet: FleetView) -> State:
        """Return the arrays of the weight file, if there is one, for these clients and shapes."""
        name, settings = self._settings.weights, self._settings
        if name is None:
            return {}
        weights = weights_for(name, settings.kind, fleet)
        require_arrays(
            name, settings.kind, weights, {"reference": (None, None), "hidden.bias": (None,)}
        )
        rows, num_axes = weights["reference"].shape
        hidden = weights["hidden.bias"].size
        if (rows - 1, num_axes, hidden) != (self._size, self._num_axes, settings.hidden):
            raise ScenarioError(
                f"server.selector.weights: {quoted(name)} is of {rows - 1} clients, with components"
                f" = {num_axes} and hidden = {hidden}; set these, or train with `fleetsim selector"
                " train favor`"
            )
        layers = {
            "hidden.weight": (hidden, rows * num_axes),
            "output.weight": (rows - 1, hidden),
            "output.bias": (rows - 1,),
        }
        require_arrays(name, settings.kind, weights, layers)
        return weights


def memory_byte(settings: FavorSettings, num_clients: int, cohort: int, num_parameters: int) -> int:
    """Return the bytes of networks, stored transitions, a batch, and axes.

    >>> memory_byte(FavorSettings(learning=False), 10_000, 10, 0) // 10**6
    2072
    >>> memory_byte(FavorSettings(), 10_000, 10, 0) // 10**6
    8591
    """
    num_axes = min(settings.components, num_clients)
    num_inputs = (num_clients + 1) * num_axes
    network = settings.hidden * (num_inputs + 1) + num_clients * (settings.hidden + 1)
    axes = num_parameters * num_axes
    if not settings.learning:
        return NUMBER_BYTE * (network + axes + num_inputs)
    per_round = 1 if settings.action == "client" else cohort
    num_states = math.ceil(settings.replay_capacity / per_round) + 1
    # Rows are stored in arrays with room for as many again.
    rows = 2 * (num_clients + 1 + num_states * (per_round + 1)) * num_axes
    transitions = num_states * (num_clients + 1) + rows
    batch = 2 * settings.batch_size * num_inputs
    return NUMBER_BYTE * (4 * network + transitions + batch + axes + num_inputs)
