"""DivFL: clients whose gradients together represent those of all clients.

Clients need the model for training anyway, so a request for a gradient adds no download.

Source: Balakrishnan, Li, Zhou, Himayat, Smith, Bilmes, ICLR 2022, as in melodi-lab/divfl@4a5b80d;
updates and squared distances as in
euphoria0-0/Active-Client-Selection-for-Communication-efficient-Federated-Learning@b7f98a2.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    Parameters,
    RoundOutcome,
    RoundView,
    Work,
    WorkKind,
)
from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.selectors import probing
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.divfl.equations import Metric, cluster_sizes, greedy, refreshed, sample_size
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys

_UNKNOWN = "select/divfl/strangers"


class DivFlSettings(SelectorKind):
    """Diverse clients, whose gradients represent those of all."""

    acts_if = by_key(sample_fraction=beside("search", "stochastic"))

    demands: ClassVar[Demands] = {
        key: Demand(
            f"{vectors} of all clients{when}",
            "small",
            f"the server holds all clients' {vectors} and their distances, 4 N P + 8 N^2 byte",
            set_up_choices=set_up_choices,
            square_byte=8,
        )
        for key, vectors, when, set_up_choices in (
            ("refresh: lazy", "gradients", ", those of its cohorts anew", 1),
            ("refresh: ideal", "gradients", ", anew for each choice", 0),
            ("vectors: update", "updates", " once, then those of its cohorts", 1),
        )
    }

    selector = "DivFlSelector"
    kind: Literal["divfl"] = "divfl"
    refresh: Literal["lazy", "ideal"] = "lazy"
    """Clients that compute their gradient anew in a round: those chosen, or all before the choice.
    """
    vectors: Literal["gradient", "update"] = "gradient"
    """Vectors that are compared: gradients of all samples, or updates of local training."""
    metric: Metric = "l2"
    """Distance between two of them, or its square."""
    search: Literal["greedy", "stochastic"] = "greedy"
    """Candidates that a step of the greedy choice considers: all, or a random sample."""
    sample_fraction: Annotated[float, Field(ge=0.0, le=1.0)] = 0.1
    """Share of the candidates in that sample, at least as many as are wanted."""
    weights: Literal["aggregator", "gamma"] = "aggregator"
    """Weights of updates: the server's aggregator's, or the number of clients represented."""
    ties: TieRule = "lowest_id"
    """Order among equal candidates: by id, as in the authors' code, or random."""


class DivFlSelector(ConfiguredSelector[DivFlSettings]):
    """Selector with gradients [N, P], 0 where not known, and their distances [N, N]."""

    needs_losses = True
    needs_probes = True
    state_fields = ("_vectors", "_is_known", "_distance")

    def _begin(self, fleet: FleetView) -> None:
        self._vectors: Parameters = np.zeros((self._size, fleet.parameters.size), dtype=np.float32)
        self._is_known = np.zeros(self._size, dtype=np.bool_)
        self._distance = np.zeros((self._size, self._size))
        self._chosen: IntArray | None = None
        self._chosen_by = self._known_distances()
        """Clients known at the last choice, and the distances [N, N] then."""

    def _stages(self, view: RoundView) -> Stages:
        """Ask for missing gradients; then, with `lazy`, for those of the chosen clients."""
        settings = self._settings
        is_gradient, self._chosen = settings.vectors == "gradient", None
        work = Work(WorkKind.GRADIENT) if is_gradient else self._fleet.training
        while True:
            silent = probing.unasked(view)
            asked = silent if settings.refresh == "ideal" else silent[~self._is_known[silent]]
            if asked.size == 0 and settings.refresh == "lazy" and is_gradient:
                if self._chosen is not None:
                    return
                self._chosen = self._choice(view)
                # Gradients reported in this round are of the present model already.
                asked = self._chosen[np.isin(self._chosen, silent)]
            view, answers = yield probing.requests(asked, work)
            self._learn(
                (report.client, report.vector if is_gradient else report.vector - view.parameters)
                for report in answers
                if report.is_delivered and report.vector is not None
            )

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return representatives in the order of the greedy choice, then unknown clients."""
        chosen = self._chosen
        if chosen is not None:
            chosen = chosen[np.isin(chosen, view.candidates)][: view.wanted]
        if chosen is None or chosen.size == 0:
            chosen = self._choice(view)
        if self._settings.weights == "aggregator" or chosen.size == 0:
            return chosen
        return Cohort(chosen, weights=self._gamma(chosen))

    def observe(self, outcome: RoundOutcome) -> None:
        """Store the delivered updates, with `vectors: update`."""
        if self._settings.vectors == "update":
            self._learn(
                (report.client, report.vector - report.base)
                for report in outcome.reports
                if report.is_delivered and report.vector is not None and report.base is not None
            )

    def _choice(self, view: RoundView) -> IntArray:
        settings, size = self._settings, self._size
        generator = rng.stream(self._fleet.seed, "select/divfl", view.round)
        keys = tie_keys(settings.ties, size, generator)
        known = view.candidates[self._is_known[view.candidates]]
        represented, distance = self._chosen_by = self._known_distances()
        distance = distance[np.ix_(represented, known)]
        uniforms = None
        if settings.search == "stochastic":
            uniforms = generator.random((view.wanted, size))[:, known]
        num = sample_size(view.wanted, known.size, settings.sample_fraction)
        chosen = greedy(distance, view.wanted, keys[known], uniforms, num)
        unknown = view.candidates[~self._is_known[view.candidates]]
        at_random = tie_keys("random", size, rng.stream(self._fleet.seed, _UNKNOWN, view.round))
        extra = best(np.zeros(unknown.size), view.wanted - chosen.size, at_random[unknown])
        return np.concatenate([known[chosen], unknown[extra]])

    def _known_distances(self) -> tuple[IntArray, FloatArray]:
        return np.flatnonzero(self._is_known), self._distance

    def _gamma(self, chosen: IntArray) -> FloatArray:
        """Return the number of clients that each chosen one represents [n], at least itself."""
        known, distance = self._chosen_by
        gamma = np.ones(chosen.size)
        stands = np.flatnonzero(np.isin(chosen, known))
        columns = np.arange(stands.size)
        if stands.size:
            between = distance[np.ix_(known, chosen[stands])]
            # A client represents itself, also where another gradient is as near.
            between[np.searchsorted(known, chosen[stands]), columns] = -1.0
            gamma[stands] = cluster_sizes(between, columns)
        return gamma

    def _learn(self, reported: Iterable[tuple[int, Parameters]]) -> None:
        clients = []
        for client, vector in reported:
            if np.all(np.isfinite(vector)):
                self._vectors[client] = vector
                clients.append(client)
        if clients:
            self._is_known[clients] = True
            changed = np.unique(np.array(clients, dtype=np.int64))
            self._distance = refreshed(
                self._distance, self._vectors, changed, self._settings.metric
            )
