"""FedGCS: sets of clients that a network proposes after learning from records of selections.

A round is recorded whether it was aggregated or not, unless no accuracy is known. If no client that
the networks know is a candidate, the choice is random. The paper is silent on both.

Source: Ning, Tian, Xiao, Fan, Wang, Li, Wang, Zhou, IJCAI 2024 (arXiv 2405.06312);
zhiyuan-ning/GenerativeFL@785773b, whose collectors are empty, so that the text is followed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    FleetView,
    FloatArray,
    IntArray,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.errors import ScenarioError
from fleetsim.selectors.configured_selector import ConfiguredSelector, known
from fleetsim.selectors.demands import require_validation
from fleetsim.selectors.fedgcs.policy import Policy, require_form
from fleetsim.selectors.fedgcs.records import NO_RECORDS, ScoreScale, SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from fleetsim.selectors.fedgcs.surrogate import surrogate_records
from fleetsim.selectors.learned_weights import weights_for
from fleetsim.selectors.probing import accuracy_of
from fleetsim.selectors.tie_breaking import best

if TYPE_CHECKING:
    from fleetsim.selectors.fedgcs.proposals import Proposals


_OF_THE_RUN = ("num_since_fit", "wanted", "accuracy")


class FedGCSSelector(ConfiguredSelector[FedGCSSettings]):
    """Selector with records, networks, and columns over the fleet [N] for surrogate records.

    `_scale` is the `ScoreScale` of the networks; it is empty without any, and for surrogates.
    """

    state_parts = ("_policy",)
    state_fields = (
        *("_num_fits", "_num_since_fit", "_wanted", "_accuracy", "_utility", "_duration_s"),
        *("_energy_j", "_scale"),
    )

    def __init__(self, settings: FedGCSSettings) -> None:
        super().__init__(settings)
        self.needs_losses = settings.learning
        self.last_proposals: Proposals | None = None
        """Proposals of the last choice that was not random, for reports; not part of the state."""
        self._proposal: IntArray = np.empty(0, dtype=np.int64)
        """Proposed clients of the present round, of which `_expected` tells."""

    def _begin(self, fleet: FleetView) -> None:
        settings = self._settings
        if not settings.learning and settings.weights is None:
            raise ScenarioError(
                "server.selector.learning: fedgcs has nothing to choose by; set"
                " server.selector.weights, or learning: true"
            )
        if settings.learning and settings.records == "rounds":
            require_validation(fleet, "fedgcs records")
        self._num_fits = self._num_since_fit = self._wanted = 0
        self._accuracy = accuracy_of(fleet.validation)
        self._utility = np.full(self._size, np.nan)
        self._duration_s = np.full(self._size, np.nan)
        self._energy_j = np.full(self._size, np.nan)
        self._scale: FloatArray = np.empty(0)
        self._policy = Policy()
        if settings.weights is not None:
            given = weights_for(settings.weights, settings.kind, fleet)
            require_form(settings.weights, given)
            self._require_known(given)
            self._policy = Policy(given)
            self._keep_scale()

    def select(self, view: RoundView) -> IntArray:
        """Return the best proposal, or random candidates."""
        generator = rng.stream(self._fleet.seed, "select/fedgcs", view.round)
        self._wanted = view.wanted
        self.last_proposals, self._expected = None, {}
        settings = self._settings
        is_collecting = settings.learning and settings.records == "rounds"
        explores = float(generator.random()) < settings.exploration_fraction and is_collecting
        keys = generator.random(self._size)[view.candidates]
        if self._policy.weights and not explores and view.wanted > 0:
            proposed = self._proposed(view, generator)
            if proposed.size:
                return proposed
        return view.candidates[best(np.zeros(keys.size), view.wanted, keys)]

    def observe(self, outcome: RoundOutcome) -> None:
        """Record the round, and fit the networks if that is due."""
        settings = self._settings
        expected, self._expected, self._diagnostics = self._expected, {}, {}
        # A cohort larger than asked for was not this selector's.
        if not 0 < outcome.selected.size <= self._wanted:
            return
        is_of_rounds = settings.records == "rounds"
        record = self._record_of(outcome) if is_of_rounds else NO_RECORDS
        self._diagnostics = known(realised=self._realised(record))
        if set(self._proposal.tolist()) == set(outcome.selected.tolist()):
            self._diagnostics |= expected
        if not settings.learning:
            return
        if is_of_rounds:
            records = self._policy.records + record
            num, most = len(records), settings.max_records
            self._policy.records = records.chosen(np.arange(max(num - most, 0), num))
        else:
            self._take_in(outcome)
        self._num_since_fit += 1
        due = settings.refit_rounds if self._policy.weights else settings.warm_up_rounds
        if self._num_since_fit >= due:
            self._fit()

    def learned(self) -> State:
        """Return records, networks, what is known of clients, and the number of fits."""
        return {name: array for name, array in self.state().items() if name not in _OF_THE_RUN}

    def take_up(self, learned: State) -> None:
        """Continue from what `learned` returned."""
        of_the_run = {name: array for name, array in self.state().items() if name in _OF_THE_RUN}
        self.restore(of_the_run | learned)

    def policy(self) -> State:
        """Return networks and records."""
        return self._policy.state()

    def _proposed(self, view: RoundView, generator: np.random.Generator) -> IntArray:
        """Return the best proposal of candidates; empty if there is none."""
        settings = self._settings
        is_candidate = self._mask(view.candidates)
        result = self._policy.proposed(is_candidate, view.wanted, settings, generator)
        if result is None:
            return np.empty(0, dtype=np.int64)
        sets, self.last_proposals = result
        seen = self._policy.seen() if settings.repeats == "avoided" else set()
        for clients, estimate in zip(sets, self.last_proposals.estimates, strict=True):
            if frozenset(clients.tolist()) not in seen:
                ascent = self.last_proposals.curve.mean(axis=1)
                self._proposal = clients
                self._expected = known(expected=float(estimate), ascent=ascent)
                return clients
        return np.empty(0, dtype=np.int64)

    def _record_of(self, outcome: RoundOutcome) -> SelectionRecords:
        """Return the record of the round; none if the accuracy after it is not known."""
        before, self._accuracy = self._accuracy, accuracy_of(outcome.validation)
        is_rise = self._settings.performance == "rise"
        performance = 1.0 + self._accuracy - before if is_rise else self._accuracy
        joules = [report.energy_j for report in outcome.reports if report.energy_j is not None]
        if not math.isfinite(performance):
            return NO_RECORDS
        return SelectionRecords.of(
            [outcome.selected],
            [performance],
            [outcome.finished_at_s - outcome.started_at_s],
            [math.fsum(joules)],
        )

    def _realised(self, record: SelectionRecords) -> float | None:
        """Return the score of a round on the scale of the estimates; None if either is missing."""
        if self._scale.size == 0 or not len(record):
            return None
        return float(ScoreScale(*self._scale.tolist()).targets(record, self._settings)[0])

    def _keep_scale(self) -> None:
        """Keep the scale of the records to which the networks have just been fitted."""
        settings = self._settings
        if settings.records == "rounds" and len(self._policy.records):
            self._scale = np.array(ScoreScale.of(self._policy.records, settings))

    def _take_in(self, outcome: RoundOutcome) -> None:
        """Keep the utility, seconds and joules of clients that delivered."""
        for report in outcome.reports:
            rms = report.loss_rms
            if report.is_delivered and rms is not None and math.isfinite(rms):
                self._utility[report.client] = report.num_samples * rms
                self._duration_s[report.client] = report.duration_s
                if report.energy_j is not None:
                    self._energy_j[report.client] = report.energy_j

    def _fit(self) -> None:
        """Fit the networks to the records, or to surrogates, if there are two."""
        settings, seed = self._settings, self._fleet.seed
        records = self._policy.records
        if settings.records == "surrogate":
            records = surrogate_records(
                self._utility,
                self._duration_s,
                self._energy_j,
                settings.surrogate_sets,
                self._wanted,
                rng.stream(seed, "select/fedgcs/surrogate", self._num_fits),
            )
        if len(records) < 2:
            return
        from fleetsim.selectors.fedgcs import fitting  # noqa: PLC0415  (loads torch)

        result = fitting.fit(
            records,
            num_clients=self._size,
            settings=settings,
            seed=seed,
            epochs=settings.refit_epochs,
            index=self._num_fits,
            before=self._policy.weights or None,
        )
        self._policy = Policy(result.weights)
        self._keep_scale()
        self._num_fits += 1
        self._num_since_fit = 0

    def _require_known(self, weights: State) -> None:
        """Refuse weights that name clients beyond the fleet."""
        named = [weights[key].max() for key in ("known", "records/clients") if key in weights]
        last = int(max(named))
        if last >= self._size:
            raise ScenarioError(
                f"server.selector.weights: the networks know a client {last}, but fleet.size is"
                f" {self._size}; train with `fleetsim selector train fedgcs` on this fleet"
            )
