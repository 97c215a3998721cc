"""Favor: clients that a deep Q-network values most, by the models of all clients.

1. *Set-up*: each client trains one epoch from the global model before its first choice, and uploads
   its model. Client by client the server keeps d coordinates of the latest model along principal
   axes, fitted on these first models.
2. *State*: the coordinates of the global model and of all clients, (N + 1) d numbers. After a round
   those of the clients that delivered change, and of the global model.
3. *Choice*: the K candidates of the largest Q(s, a), a network with one hidden layer and an output
   for each client. Clients that are not available are masked.
4. *Learning* (`learning: true`): a round's transitions (s, a, r, s'), with the reward
   r = Xi^(A - Omega) - 1 of the validation accuracy A, are stored, and the network takes a step of
   double Q-learning on a batch of them. An episode ends when A reaches the target accuracy Omega;
   the rest of the run uses the policy. Exploration: each place goes to a random candidate with
   probability epsilon, which falls with the rounds of learning.

In the paper an agent is trained in many runs, in which a round has one client, and then chooses the
top K. Both forms are there: `action: client` trains one client a round whatever the cohort;
`action: cohort` trains the top K and stores a transition of the same reward for each, as the later
version of the fork does. The second is the default, since an agent that learns in a run of its own
would otherwise give up the cohort. A failed client is an outcome of its choice: its transition is
stored too.

Without `weights` the agent begins with random ones and learns in the run. With them it goes on
learning, or only chooses with `learning: false`.

gamma = 0.999, Xi = 64, RMSprop, the replay memory of 10,000, the 512 hidden units and the copy into
the target network every 10 episodes are the fork's; its learning rate is torch's default, 0.01. In
a single run the target network stays the first one, unless `sync_in: rounds`. Batch size and the
numbers of exploration are own.

A client without an answer has the coordinates of the initial model. Without any answer there is no
state, and clients are chosen at random.

Source: Wang, Kaplan, Niu, Li, "Optimizing federated learning on non-IID data with reinforcement
learning", INFOCOM 2020, by secondary sources: notes in translation and a fork of iQua/flsim with a
deep Q-network; the full text was not at hand. Equations: `fleetsim.selectors.favor.equations`.

The server sees single models of all clients, and must have samples for the reward while it learns
(`evaluate.validation_fraction`). Set-up costs each client a model download, an epoch and the upload
of its model. With d = 100 and 512 hidden units the network takes 205 kB per client, four times that
while it learns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Diagnostics,
    Evaluation,
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    Report,
    RoundOutcome,
    RoundView,
    State,
    Work,
    WorkKind,
)
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.selectors.configured_selector import ConfiguredSelector
from fleetsim.selectors.declared_state import Column, Scalar
from fleetsim.selectors.favor.agent import Agent
from fleetsim.selectors.favor.compression import Compression
from fleetsim.selectors.favor.equations import choose, reward
from fleetsim.selectors.favor.settings import NUMBER_BYTE, FavorKeys
from fleetsim.selectors.known_numbers import known
from fleetsim.selectors.learned_weights import require_arrays, weights_for
from fleetsim.selectors.tie_breaking import tie_keys
from fleetsim.units import BYTE_PER_GIB


class FavorSettings(FavorKeys):
    """The largest values of a deep Q-network, which sees the models of all clients."""

    def build(self) -> FavorSelector:
        """Selector with these settings."""
        return FavorSelector(self)


class FavorSelector(ConfiguredSelector[FavorSettings]):
    """Selector with the coordinates of all models and an agent that outlasts the run.

    `_expected` is what is known of the present round's choice, `_diagnostics` of the last round.
    """

    needs_losses = True
    needs_probes = True
    state_fields = (
        Column("was_asked", np.bool_),
        Scalar("is_over", bool),
        Scalar("is_stored", bool),
    )

    def _begin(self, fleet: FleetView) -> None:
        settings = self._settings
        if settings.learning and fleet.validation is None:
            raise ScenarioError(
                "server.selector: favor learns from the model's accuracy on samples that the"
                " server keeps for selectors; set evaluate.validation_fraction, such as 0.1, or"
                " learning: false with weights"
            )
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
        self._expected: dict[str, float | list[float]] = {}
        self._diagnostics: dict[str, float | list[float]] = {}

    @property
    def _agent(self) -> Agent:
        """The agent, made when it is first needed: it loads torch."""
        if self._made_agent is None:
            self._made_agent = Agent(
                self._settings, self._size, self._num_axes, seed=self._fleet.seed
            )
            if self._weights:
                self._made_agent.use(self._weights)
        return self._made_agent

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Ask each candidate once for its model after an epoch."""
        if view.stage > 0:
            return ()
        is_new = ~self._was_asked[view.candidates]
        self._was_asked[view.candidates] = True
        return [
            ProbeRequest(client=client, work=Work(WorkKind.TRAIN, epochs=1), upload_byte=0)
            for client in view.candidates[is_new].tolist()
        ]

    def select(self, view: RoundView) -> IntArray:
        """Return the candidates of the largest values, and random ones while it explores."""
        self._expected = {}
        self._take_in(view.reports, view)
        if view.candidates.size == 0:
            return view.candidates
        settings, is_learning = self._settings, self._is_learning
        if is_learning and self._compression.is_fitted and not self._is_stored:
            self._agent.begin(self._compression.rows)
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
        accuracy = _accuracy(outcome.validation)
        if not (self._is_learning and was_stored) or math.isnan(accuracy):
            return
        settings = self._settings
        self._is_over = accuracy >= settings.target_accuracy
        rows, is_last = self._compression.rows, self._is_over
        gained = reward(accuracy, settings.target_accuracy, settings.reward_base)
        # By the networks that made the choice, which learn next.
        target = self._agent.target(rows, reward=gained, is_last=is_last)
        loss = self._agent.follow(rows, outcome.selected.tolist(), reward=gained, is_last=is_last)
        self._is_stored = True
        self._diagnostics |= known(realised=target, reward=gained, loss=loss)

    def diagnostics(self) -> Diagnostics:
        """Return the mean value of the chosen clients, its target, reward, loss and exploration."""
        return self._diagnostics

    def state(self) -> State:
        """Return the declared state, coordinates and axes, and the agent."""
        return super().state() | self._compression.state() | self._agent.state()

    def restore(self, state: State) -> None:
        """Replace the state by a copy of what `state` returned."""
        super().restore(state)
        self._compression.restore(state)
        self._agent.restore(state)

    def learned(self) -> State:
        """Return the agent, and the coordinates onto which later runs turn their axes."""
        return {"reference": self._compression.reference.copy(), **self._agent.state()}

    def take_up(self, learned: State) -> None:
        """Continue from what `learned` of another run returned."""
        self._compression.reference = np.array(learned["reference"], dtype=np.float32)
        self._agent.next_episode(learned)

    def policy(self) -> State:
        """Return the network, and the coordinates onto which runs turn their axes."""
        return {"reference": self._compression.reference.copy(), **self._agent.weights()}

    @property
    def _is_learning(self) -> bool:
        return self._settings.learning and not self._is_over

    def _values(self) -> FloatArray:
        """Return Q of all clients; zeros before there is a state [N]."""
        if not self._compression.is_fitted:
            return np.zeros(self._size)
        return self._agent.values(self._compression.rows)

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
        """Refuse a fleet or a model that takes more memory than `memory_gib`.

        Raises:
            ScenarioError: it does.
        """
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
        """Return the arrays of the weight file, if there is one.

        Raises:
            ScenarioError: they are of other clients or of a network of another shape.
            DataError: there is no such file, or an array is missing or of another form.
        """
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


def _accuracy(evaluation: Evaluation | None) -> float:
    """Return the accuracy; NaN where it is not known or not finite."""
    if evaluation is None or evaluation.accuracy is None:
        return math.nan
    return evaluation.accuracy if math.isfinite(evaluation.accuracy) else math.nan
