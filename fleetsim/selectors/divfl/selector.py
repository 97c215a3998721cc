"""DivFL: clients whose gradients together stand for everybody's.

With g_k the gradient of client k, the cohort is

    S = argmin over sets of K candidates of the sum over clients i of min over k in S |g_i - g_k|_2

found greedily, the medoid first (`fleetsim.selectors.divfl.equations`). Everybody whose gradient is
known is represented, also who is not there at the moment.

When gradients are asked for:

* once: a candidate without a gradient is asked for that of all its samples (everybody in round 1);
* `refresh: lazy` (default, the authors' code): those just chosen compute it anew, of the model that
  they are about to train, and it counts from the next choice on; all others stay stale;
* `refresh: ideal`: every candidate is asked before every choice.

With `vectors: update` the rows are what local training changes instead of gradients: asked for by a
whole local training at first (or, `ideal`, in every round), and afterwards taken from the updates
that arrive anyway, so that `lazy` costs nothing beyond the first round.

Candidates that lower the cost equally go by id, as in the authors' code (`ties`). Candidates
without a gradient (no answer, or one that is not finite) are chosen last, at random, if the others
are fewer than wanted. Of the chosen ones those who leave while they compute their
gradients are out; if all did, there is a new choice among those who are there.

Source: Balakrishnan, Li, Zhou, Himayat, Smith, Bilmes, "Diverse client selection for federated
learning via submodular maximization", ICLR 2022, as in melodi-lab/divfl@4a5b80d; updates and
squared distances as in euphoria0-0/Active-Client-Selection-for-Communication-efficient-
Federated-Learning@b7f98a2. By default the server's aggregator weighs the updates, by samples as in
the authors' code; with `weights: gamma` each of the chosen counts as many clients as it stands for,
itself among them, by the distances that it was chosen by, as in the paper. Who was chosen without a
gradient stands for itself alone (fleetsim's rule).

The server must hold all gradients and their distances: 4 N P + 8 N^2 byte, in memory and in every
checkpoint (100 clients of 1.7 million parameters: 0.7 GB), and computes N K P multiplications a
round. Each gradient costs its client a forward and a backward pass over all samples and the
model's size up; the model it needs for training anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    Parameters,
    ProbeRequest,
    Report,
    RoundOutcome,
    RoundView,
    State,
    Work,
    WorkKind,
)
from fleetsim.schema.effects import beside, by_key
from fleetsim.selectors.common import answers
from fleetsim.selectors.common.tie_breaking import TieRule, best, tie_keys
from fleetsim.selectors.divfl.equations import (
    Metric,
    cluster_sizes,
    greedy,
    refreshed,
    sample_size,
    stochastic_greedy,
)
from fleetsim.settings import Settings

_STRANGERS = "select/divfl/strangers"


class DivFlSettings(Settings):
    """Diverse clients, whose gradients stand for everybody's."""

    acts_if = by_key(
        sample_fraction=beside("search", "stochastic"),
    )

    kind: Literal["divfl"] = "divfl"
    refresh: Literal["lazy", "ideal"] = "lazy"
    """Who computes its gradient anew in a round: those chosen, or everybody before the choice."""
    vectors: Literal["gradient", "update"] = "gradient"
    """What is compared: gradients of all samples, or what local training changes."""
    metric: Metric = "l2"
    """Distance between two of them, or its square."""
    search: Literal["greedy", "stochastic"] = "greedy"
    """Whether a step of the greedy choice looks at all candidates or at a random sample."""
    sample_fraction: Annotated[float, Field(ge=0.0, le=1.0)] = 0.1
    """Share of the candidates in that sample, of at least as many as are wanted."""
    weights: Literal["aggregator", "gamma"] = "aggregator"
    """Whether the server's aggregator weighs the updates, or how many clients each stands for."""
    ties: TieRule = "lowest_id"
    """Order among candidates that serve equally well: by id, as in the authors' code, or random."""

    def build(self) -> DivFlSelector:
        """Selector with these settings."""
        return DivFlSelector(self)


class DivFlSelector:
    """Gradients [N, P] and their distances [N, N]; rows that are not known are 0 and not used."""

    needs_losses = True
    needs_probes = True

    def __init__(self, settings: DivFlSettings) -> None:
        self._settings = settings
        self._seed = 0
        self._training = Work(WorkKind.NONE)
        self._vectors: Parameters = np.empty((0, 0), dtype=np.float32)
        self._is_known: BoolArray = np.empty(0, dtype=np.bool_)
        self._apart: FloatArray = np.empty((0, 0))
        self._chosen: IntArray | None = None
        self._chosen_by: tuple[IntArray, FloatArray] = self._known_apart()
        """Who was known at the last choice, and their distances [N, N] then."""
        self._num_read = 0

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Begin without gradients; whoever is there in round 1 is asked then."""
        size = fleet.num_samples.size
        self._seed = fleet.seed
        self._training = fleet.training
        self._vectors = np.zeros((size, fleet.parameters.size), dtype=np.float32)
        self._is_known = np.zeros(size, dtype=np.bool_)
        self._apart = np.zeros((size, size))
        return ()

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Ask for what is missing; then, lazily, those chosen for their gradients of today."""
        if view.stage == 0:
            self._chosen = None
            self._num_read = 0
        self._read(view)
        silent = answers.unasked(view)
        if self._settings.refresh == "ideal":
            return self._requests(silent)
        strangers = silent[~self._is_known[silent]]
        if strangers.size or self._settings.vectors == "update":
            return self._requests(strangers)
        if self._chosen is not None:
            return ()
        self._chosen = self._choice(view)
        # What was told in this round is of today already.
        return self._requests(self._chosen[np.isin(self._chosen, silent)])

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Representatives in the order of the greedy choice, then clients not known yet."""
        chosen = self._chosen
        if chosen is not None:
            chosen = chosen[np.isin(chosen, view.candidates)][: view.wanted]
        if chosen is None or chosen.size == 0:
            chosen = self._choice(view)
        self._read(view)
        if self._settings.weights == "aggregator" or chosen.size == 0:
            return chosen
        return Cohort(chosen, weights=self._gamma(chosen))

    def observe(self, outcome: RoundOutcome) -> None:
        """With updates for vectors, take those that arrived."""
        if self._settings.vectors == "update":
            self._learn(
                (report.client, report.vector - report.base)
                for report in outcome.reports
                if report.is_delivered and report.vector is not None and report.base is not None
            )

    def state(self) -> State:
        """All gradients, of whom they are known, and their distances."""
        return {
            "vectors": self._vectors.copy(),
            "is_known": self._is_known.copy(),
            "apart": self._apart.copy(),
        }

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self._vectors = np.array(state["vectors"], dtype=np.float32)
        self._is_known = np.array(state["is_known"], dtype=np.bool_)
        self._apart = np.array(state["apart"], dtype=np.float64)

    def _requests(self, clients: IntArray) -> Sequence[ProbeRequest]:
        is_gradient = self._settings.vectors == "gradient"
        work = Work(WorkKind.GRADIENT) if is_gradient else self._training
        return [ProbeRequest(client, work) for client in clients.tolist()]

    def _choice(self, view: RoundView) -> IntArray:
        settings, size = self._settings, self._is_known.size
        generator = rng.stream(self._seed, "select/divfl", view.round)
        keys = tie_keys(settings.ties, size, generator)
        known = view.candidates[self._is_known[view.candidates]]
        represented, apart = self._chosen_by = self._known_apart()
        apart = apart[np.ix_(represented, known)]
        if settings.search == "greedy":
            chosen = greedy(apart, view.wanted, keys[known])
        else:
            num = sample_size(view.wanted, known.size, settings.sample_fraction)
            uniforms = generator.random((view.wanted, size))[:, known]
            chosen = stochastic_greedy(apart, view.wanted, keys[known], uniforms, num)
        strangers = view.candidates[~self._is_known[view.candidates]]
        at_random = tie_keys("random", size, rng.stream(self._seed, _STRANGERS, view.round))
        extra = best(np.zeros(strangers.size), view.wanted - chosen.size, at_random[strangers])
        return np.concatenate([known[chosen], strangers[extra]])

    def _known_apart(self) -> tuple[IntArray, FloatArray]:
        return np.flatnonzero(self._is_known), self._apart

    def _gamma(self, chosen: IntArray) -> FloatArray:
        """How many clients each of the chosen [n] stands for [n], at least itself."""
        known, apart = self._chosen_by
        gamma = np.ones(chosen.size)
        stands = np.flatnonzero(np.isin(chosen, known))
        columns = np.arange(stands.size)
        if stands.size:
            between = apart[np.ix_(known, chosen[stands])]
            # Itself, also where another gradient is as near.
            between[np.searchsorted(known, chosen[stands]), columns] = -1.0
            gamma[stands] = cluster_sizes(between, columns)
        return gamma

    def _read(self, view: RoundView) -> None:
        """Learn from the probes that came back since the last look."""
        fresh = view.reports[self._num_read :]
        self._num_read = len(view.reports)
        self._learn(self._answered(fresh, view.parameters))

    def _answered(
        self, reports: Iterable[Report], parameters: Parameters
    ) -> Iterable[tuple[int, Parameters]]:
        for report in reports:
            if report.is_delivered and report.vector is not None:
                is_gradient = self._settings.vectors == "gradient"
                yield report.client, report.vector if is_gradient else report.vector - parameters

    def _learn(self, told: Iterable[tuple[int, Parameters]]) -> None:
        clients = []
        for client, vector in told:
            if np.all(np.isfinite(vector)):
                self._vectors[client] = vector
                clients.append(client)
        if clients:
            self._is_known[clients] = True
            changed = np.unique(np.array(clients, dtype=np.int64))
            self._apart = refreshed(self._apart, self._vectors, changed, self._settings.metric)
