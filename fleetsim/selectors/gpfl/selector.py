"""GPFL: clients whose updates point along the global direction, balanced by a confidence bound.

After round t, in this order:

1. c_i of the clients that delivered, against the old G;
2. rewards mu_i, with the factor of (8) for those that delivered;
3. if the round was aggregated, G = mean of its delivered vectors.

A later client's first reward is its share c~ when it answers. With `last_gradient` the three steps
wait for the answers to the probes of the next choice. With `delta` the first gradient is multiplied
by eta. Models come uncompressed or as the uplink leaves them.

Source: Na, Liang, Yiu, arXiv 2403.17833, equations (1) to (8), Algorithm 1; no code was found.
"""

import math
from typing import ClassVar, Literal

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    Evaluation,
    FleetView,
    FloatArray,
    IntArray,
    Parameters,
    ProbeRequest,
    RoundOutcome,
    RoundView,
    WorkKind,
)
from fleetsim.errors import ScenarioError
from fleetsim.schema.ranges import Samples, Weight
from fleetsim.selectors import probing
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands, require_validation
from fleetsim.selectors.gpfl import equations
from fleetsim.selectors.gpfl.equations import Adjustment, PlayCount, RewardMean
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys


class GPFLSettings(SelectorKind):
    """Updates that point along the global direction, with a bonus for clients rarely seen."""

    demands: ClassVar[Demands] = {
        "": Demand(
            "gradients of all clients once, then each update of its cohorts; stop.rounds; samples"
            " to validate with",
            "private",
            "the server sees single gradients and single updates, and must have samples",
            set_up_choices=1,
        )
    }

    selector = "GPFLSelector"
    kind: Literal["gpfl"] = "gpfl"
    exploration: Weight = 1.0
    """Weight rho of the bonus, which grows with the rounds: alpha = rho t / T. The paper tries 0.5,
    1, 2 and 5."""
    vector: Literal["gradient", "delta", "last_gradient"] = "gradient"
    """A client's vector: the sum of its gradients, (w - w_i) / eta, its update, w - w_i, or the
    gradient at its own w_i, requested before the next choice from clients that delivered."""
    initial_batch: Samples | None = None
    """Samples of a requested gradient; null: all of the client's."""
    adjustment: Adjustment = "printed"
    """Factor (8) on rewards: as printed, or falling with accuracy and rising loss."""
    mean: RewardMean = "per_round"
    """Rounds over which rewards are averaged: all, or those that the client delivered in."""
    plays: PlayCount = "pulls"
    """n of the bonus: the sum of all n_i, or the number of rounds and 1."""
    ties: TieRule = "random"
    """Order among equal scores."""


class GPFLSelector(ConfiguredSelector[GPFLSettings]):
    """Selector with columns over the fleet [N]; the projection is NaN before an answer."""

    needs_losses = True
    needs_probes = True
    state_fields = (
        *("_num_rounds", "_was_asked", "_projection", "_num_pulls", "_reward_sum"),
        *("_num_rewards", "_direction", "_accuracy", "_loss", "_pending_clients"),
        *("_pending_models", "_pending_factor", "_is_pending_aggregated"),
    )

    def _begin(self, fleet: FleetView) -> None:
        if fleet.planned_rounds is None:
            raise ScenarioError(
                "server.selector: gpfl weighs exploration by the share of finished rounds; set"
                " stop.rounds"
            )
        require_validation(fleet, "gpfl needs")
        self._planned_rounds = fleet.planned_rounds
        self._learning_rate = fleet.learning_rate
        self._num_rounds = 0
        self._was_asked = np.zeros(self._size, dtype=np.bool_)
        self._projection = np.full(self._size, np.nan)
        self._num_pulls = np.zeros(self._size, dtype=np.int64)
        self._reward_sum: FloatArray = np.zeros(self._size)
        self._num_rewards: IntArray = np.zeros(self._size, dtype=np.int64)
        self._direction: FloatArray = np.empty(0)
        self._accuracy, self._loss = _accuracy_and_loss(fleet.validation)
        self._forget_pending()

    def _forget_pending(self) -> None:
        """Begin without a round whose gradients are still to be requested."""
        self._pending_clients = np.empty(0, dtype=np.int64)
        """Ids of the clients that delivered in it [k]."""
        self._pending_models: Parameters = np.empty((0, 0), dtype=np.float32)
        """Model that each of them trained and still has [k, P]."""
        self._pending_factor, self._is_pending_aggregated = math.nan, False
        """Factor of (8), NaN without such a round, and whether it was aggregated."""

    def _stages(self, view: RoundView) -> Stages:
        """Ask for gradients: of each candidate once, and of pending models."""
        is_new = ~self._was_asked[view.candidates]
        self._was_asked[view.candidates] = True
        works = {
            client: probing.batch_work(WorkKind.GRADIENT, self._settings.initial_batch, size)
            for client, size in zip(
                view.candidates.tolist(), view.num_samples.tolist(), strict=True
            )
        }
        requests = [
            ProbeRequest(client, works[client]) for client in view.candidates[is_new].tolist()
        ]
        pending = zip(self._pending_clients.tolist(), self._pending_models, strict=True)
        requests += [
            ProbeRequest(client, works[client], needs_model=False, parameters=model)
            for client, model in pending
            if client in works
        ]
        yield requests

    def select(self, view: RoundView) -> IntArray:
        """Return the largest projections in round 1, then the largest bounds."""
        if view.learning_rate is not None:
            self._learning_rate = view.learning_rate
        self._take_in(view)
        scores = (
            equations.first_scores(self._projection)
            if self._num_rounds == 0
            else self._bounds(view)
        )
        generator = rng.stream(self._fleet.seed, "select/gpfl", view.round)
        keys = tie_keys(self._settings.ties, self._size, generator)
        present = view.candidates
        return present[best(scores[present], view.wanted, keys[present])]

    def observe(self, outcome: RoundOutcome) -> None:
        """Update projections and rewards, then the direction; or store the round as pending."""
        if outcome.selected.size == 0:
            return
        self._num_rounds += 1
        factor = self._factor(outcome.validation)
        self._accuracy, self._loss = _accuracy_and_loss(outcome.validation)
        delivered = [
            (report.client, report.base, report.vector)
            for report in outcome.reports
            if report.is_delivered and report.base is not None and report.vector is not None
        ]
        if self._settings.vector == "last_gradient":
            clients = [client for client, _, _ in delivered]
            models = [model for _, _, model in delivered]
            self._pending_clients = np.array(clients, dtype=np.int64)
            self._pending_models = np.stack(models) if models else self._pending_models
            self._pending_factor, self._is_pending_aggregated = factor, outcome.aggregated
            return
        rate, vector = self._learning_rate, self._settings.vector
        vectors = {
            client: equations.client_vector(base, model, rate, vector)
            for client, base, model in delivered
        }
        self._learn(vectors, factor, is_aggregated=outcome.aggregated)

    def _take_in(self, view: RoundView) -> None:
        """Learn from gradients of the pending round, then from those of new clients."""
        scale = self._learning_rate if self._settings.vector == "delta" else 1.0
        vectors = {
            report.client: scale * report.vector.astype(np.float64)
            for report in view.reports
            if report.is_delivered and report.vector is not None
        }
        if not math.isnan(self._pending_factor):
            clients = self._pending_clients.tolist()
            of_pending = {c: vectors.pop(c) for c in clients if c in vectors}
            self._learn(of_pending, self._pending_factor, is_aggregated=self._is_pending_aggregated)
            self._forget_pending()
        vectors = {c: vector for c, vector in vectors.items() if math.isnan(self._projection[c])}
        newcomers = self._project(vectors)
        self._num_pulls[newcomers] += 1
        # Round 1 uses projections alone, and all rewards begin with it.
        if self._num_rounds or self._settings.mean == "per_pull":
            self._reward(self._mask(newcomers), 1.0, "per_pull")

    def _learn(self, vectors: dict[int, FloatArray], factor: float, *, is_aggregated: bool) -> None:
        """Update projections and rewards by the vectors of a round, then the direction."""
        delivered = self._project(vectors)
        self._num_pulls[delivered] += 1
        self._reward(self._mask(delivered), factor, self._settings.mean)
        if is_aggregated and vectors:
            self._direction = equations.direction(list(vectors.values()))

    def _project(self, vectors: dict[int, FloatArray]) -> IntArray:
        """Store projections; return the ids of clients with a finite vector, dropping others."""
        for client in [
            client for client, vector in vectors.items() if not np.isfinite(vector).all()
        ]:
            del vectors[client]
        if vectors and self._direction.size == 0:
            self._direction = equations.direction(list(vectors.values()))
        clients = np.array(list(vectors), dtype=np.int64)
        self._projection[clients] = equations.gradient_projection(vectors.values(), self._direction)
        return clients

    def _reward(self, is_observed: BoolArray, factor: float, mean: RewardMean) -> None:
        reward = equations.rewards(equations.normalised(self._projection), is_observed, factor)
        self._reward_sum, self._num_rewards = equations.with_rewards(
            self._reward_sum, self._num_rewards, reward, is_observed, mean
        )

    def _bounds(self, view: RoundView) -> FloatArray:
        rounds_gone = view.round - 1
        return equations.confidence_bound(
            self._reward_sum,
            self._num_rewards,
            self._num_pulls,
            equations.exploration_weight(
                rounds_gone, self._planned_rounds, self._settings.exploration
            ),
            equations.num_plays(self._num_pulls, rounds_gone, self._settings.plays),
        )

    def _factor(self, now: Evaluation | None) -> float:
        """Return the factor of (8); 1 where an accuracy or loss is not known or not finite."""
        accuracy, loss = _accuracy_and_loss(now)
        if not np.isfinite([accuracy, loss, self._accuracy, self._loss]).all():
            return 1.0
        return equations.reward_factor(
            accuracy, self._accuracy, loss, self._loss, self._settings.adjustment
        )


def _accuracy_and_loss(evaluation: Evaluation | None) -> tuple[float, float]:
    """Return accuracy and loss; NaN where they are not known."""
    if evaluation is None or evaluation.accuracy is None or evaluation.loss is None:
        return math.nan, math.nan
    return evaluation.accuracy, evaluation.loss
