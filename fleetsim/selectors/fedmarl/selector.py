"""FedMarl: probed clients whose agents say continue; the others stop after an epoch.

Ning et al., "FedGCS", IJCAI 2024, have 20 clients for FedMarl beside 10 for the others; it is read
as 20 candidates for 10 wanted.

Source: Zhang, Lin, Zhang, AAAI 2022 (arXiv 2201.02932), by third-party notes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    Purpose,
    Report,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.errors import ScenarioError
from fleetsim.selectors import learned_weights, probing
from fleetsim.selectors.baselines.uniform import random_clients
from fleetsim.selectors.configured_selector import ConfiguredSelector, Stages, known
from fleetsim.selectors.demands import require_validation
from fleetsim.selectors.fedmarl import equations
from fleetsim.selectors.fedmarl.agents import Agents, checked_network, first_network
from fleetsim.selectors.fedmarl.equations import Floats32
from fleetsim.selectors.fedmarl.observations import NO_STATES, Transition, agent_states
from fleetsim.selectors.fedmarl.settings import FedMarlSettings
from fleetsim.selectors.tie_breaking import best, tie_keys

_SCALAR_BYTE = 8
_USUAL_ROUNDS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Choice of a round whose reward is not known yet."""

    states: Floats32
    """States of the agents [n, 6]."""
    continues: BoolArray
    """Their actions, as they are carried out [n]."""
    probes: Sequence[Report]
    """Last report of each client that was asked, whether it answered or not [p]."""


class FedMarlSelector(ConfiguredSelector[FedMarlSettings]):
    """Selector with columns over the fleet [N] and a team of agents.

    `_last_states`, `_last_continues` and `_last_reward` are of the round before. They become a
    transition when the states of the next choice are known; until then there is a reward but no
    transition. No states: there is none.
    """

    needs_losses = True
    needs_probes = True
    state_parts = ("_agents",)
    state_fields = (
        *("_upload_s", "_num_uploads", "_accuracy", "_last_states"),
        *("_last_continues", "_last_reward"),
    )

    def _begin(self, fleet: FleetView) -> None:
        settings = self._settings
        if fleet.steps is not None:
            raise ScenarioError(
                "server.selector: fedmarl's probe is the first epoch of the training, which counts"
                " in steps; set task.local.epochs instead of task.local.steps"
            )
        if settings.learning:
            require_validation(fleet, "fedmarl learns from", ", or learning: false with weights")
        if settings.weights is None:
            network = first_network(fleet.seed, settings.hidden)
        else:
            arrays = learned_weights.weights_for(settings.weights, settings.kind, fleet)
            network = checked_network(arrays, settings.hidden)
        self._agents = Agents(network, settings)
        self._num_rounds = settings.horizon_rounds or fleet.planned_rounds or _USUAL_ROUNDS
        self._upload_s: FloatArray = np.full(self._size, np.nan)
        self._num_uploads: IntArray = np.zeros(self._size, dtype=np.int64)
        self._accuracy = probing.accuracy_of(fleet.validation)
        self._asked: IntArray = np.empty(0, dtype=np.int64)
        self._choice: Choice | None = None
        self._last_states: Floats32 = NO_STATES
        self._last_continues: BoolArray = np.empty(0, dtype=np.bool_)
        self._last_reward = 0.0

    def _stages(self, view: RoundView) -> Stages:
        """Ask the candidates of the round to train for an epoch."""
        self._asked = self._drawn(view)
        yield probing.requests(
            self._asked, probing.ONE_EPOCH, upload_byte=_SCALAR_BYTE, uploads_vector=False
        )

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return the clients that continue, by the differences of their agents' values."""
        self._choice, self._expected = None, {}
        # A client is asked again where a choice found no candidate.
        probes = {r.client: r for r in view.reports if r.purpose is Purpose.PROBE}
        answers = {client: report for client, report in probes.items() if report.is_delivered}
        loss = {client: report.loss for client, report in sorted(answers.items())}
        usable = [client for client, x in loss.items() if x is not None and math.isfinite(x)]
        clients = np.array(usable, dtype=np.int64)
        clients = clients[np.isin(clients, view.candidates)]
        if clients.size == 0:
            return self._unfiltered(view, answers)
        states = self._states([answers[client] for client in clients.tolist()], clients, view.round)
        values = self._agents.values(states)
        advantage, chance = equations.advantages(values), None
        if self._settings.learning:
            chance = equations.exploration_chance(
                self._agents.num_choices,
                self._settings.exploration,
                self._settings.exploration_end,
                self._settings.exploration_decay_rounds,
            )
            advantage = self._explored(advantage, chance, clients, view.round)
            self._remember(states, view.wanted)
        generator = rng.stream(self._fleet.seed, "select/fedmarl/ties", view.round)
        keys = tie_keys(self._settings.ties, self._size, generator)[clients]
        continues = equations.joint_action(advantage, view.wanted, keys)
        self._choice = Choice(states, continues, list(probes.values()))
        self._expected = known(expected=equations.team_value(values, continues), exploration=chance)
        num = int(continues.sum())
        return Cohort(clients[best(advantage, num, keys)], continues=np.ones(num, dtype=np.bool_))

    def observe(self, outcome: RoundOutcome) -> None:
        """Store the uploads; reward the agents, and let them learn."""
        for report in outcome.reports:
            if report.is_delivered:
                self._upload_s[report.client] = report.upload_s
                self._num_uploads[report.client] += 1
        before, after = self._accuracy, probing.accuracy_of(outcome.validation)
        if math.isfinite(after):
            self._accuracy = after
        choice, self._choice = self._choice, None
        self._diagnostics, self._expected = self._expected, {}
        if not self._settings.learning:
            return
        if choice is not None and math.isfinite(before) and math.isfinite(after):
            self._last_states, self._last_continues = choice.states, choice.continues
            self._last_reward = self._reward(choice, outcome, before, after)
            self._diagnostics |= known(reward=self._last_reward)
            if outcome.round == self._fleet.planned_rounds:
                self._remember(NO_STATES, outcome.selected.size)
        self._diagnostics |= known(loss=self._agents.learn(self._fleet.seed, outcome.round))

    def learned(self) -> State:
        """Return networks, moments, replay memory and counters."""
        return self._agents.state()

    def take_up(self, learned: State) -> None:
        """Continue with the agents of another run."""
        self._agents.restore(learned)

    def policy(self) -> State:
        """Return the weights of the network that all agents share."""
        return self._agents.policy()

    def _drawn(self, view: RoundView) -> IntArray:
        """Return random candidates, in the order drawn."""
        generator = rng.stream(self._fleet.seed, "select/fedmarl", view.round)
        num = max(self._settings.candidates or 2 * self._fleet.cohort, view.wanted)
        return random_clients(view.candidates, num, generator.standard_exponential(self._size))

    def _unfiltered(self, view: RoundView, answers: Mapping[int, Report]) -> Cohort:
        """Return the first clients of the draw; those whose probe was delivered continue."""
        present = self._asked[np.isin(self._asked, view.candidates)]
        if present.size == 0:
            # All probed clients have left, others came: a new draw.
            present = self._drawn(view)
        chosen = present[: view.wanted]
        continues = [client in answers for client in chosen.tolist()]
        return Cohort(chosen, continues=np.array(continues, dtype=np.bool_))

    def _states(self, answers: Sequence[Report], clients: IntArray, round_: int) -> Floats32:
        """Return the states of the agents of these clients [n, 6]."""
        return agent_states(
            loss=np.array([report.loss for report in answers], dtype=np.float64),
            probe_s=np.array([report.duration_s for report in answers], dtype=np.float64),
            upload_s=self._upload_s[clients],
            num_uploads=self._num_uploads[clients],
            num_samples=self._fleet.num_samples[clients],
            round_=round_,
            num_rounds=self._num_rounds,
        )

    def _explored(
        self, advantage: FloatArray, chance: float, clients: IntArray, round_: int
    ) -> FloatArray:
        """Return the differences, infinite where an agent explores [n]."""
        self._agents.num_choices += 1
        generator = rng.stream(self._fleet.seed, "select/fedmarl/exploration", round_)
        explores, coins = generator.random((2, self._size))[:, clients]
        outcomes = np.where(coins < 0.5, np.inf, -np.inf)
        return np.where(explores < chance, outcomes, advantage)

    def _reward(self, choice: Choice, outcome: RoundOutcome, before: float, after: float) -> float:
        """Return the reward of the agents for a round, with the accuracies before and after it.

        A client that failed counts with the seconds for which the server waited. Clients that
        continue count with all bytes of a model, also those that failed. The weights of latency and
        traffic are per run.
        """
        settings, fleet = self._settings, self._fleet
        probed = [report.client for report in choice.probes]
        probe_s = np.array([report.duration_s for report in choice.probes], dtype=np.float64)
        place = {client: number for number, client in enumerate(probed)}
        continues = np.isin(probed, outcome.selected)
        rest_s, upload_s = np.zeros((2, continues.size))
        # Clients that were not probed have no agent.
        for report in (each for each in outcome.reports if each.client in place):
            upload_s[place[report.client]] = report.upload_s
            rest_s[place[report.client]] = report.duration_s - report.upload_s
        latency_s = equations.processing_latency_s(probe_s, rest_s, upload_s, continues)
        traffic = equations.traffic_byte(
            np.full(continues.size, float(fleet.payload_byte)), continues
        )
        return equations.reward(
            after,
            before,
            equations.relative_latency(latency_s, float(probe_s.max()), fleet.epochs),
            equations.relative_traffic(traffic, fleet.payload_byte, fleet.cohort),
            accuracy_weight=settings.accuracy_weight,
            latency_weight=settings.latency_weight / self._num_rounds,
            traffic_weight=settings.traffic_weight / self._num_rounds,
        )

    def _remember(self, next_states: Floats32, next_wanted: int) -> None:
        """Keep the last round as a transition, if there is one."""
        if self._last_continues.size:
            self._agents.replay.append(
                Transition(
                    self._last_states,
                    self._last_continues,
                    self._last_reward,
                    next_states,
                    next_wanted,
                )
            )
        self._last_states, self._last_continues = NO_STATES, np.empty(0, dtype=np.bool_)
