"""TiFL: one tier of clients of similar latency per round, with more rounds for low accuracy.

Profiling goes on stage by stage. A tier without an answer keeps its accuracy.

Source: Chai et al., HPDC 2020 (arXiv 2001.09249), by bacox/fltk@ba90a78 and later
re-implementations. One profiling round and I = 10 are inferred; here clients measure accuracies on
their own samples.
"""

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    FleetView,
    FloatArray,
    IntArray,
    Report,
    RoundView,
)
from fleetsim.errors import ScenarioError
from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.schema.ranges import DurationS, Rounds
from fleetsim.selectors import probing
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.tifl import equations
from fleetsim.selectors.tifl.equations import DROPPED, Fill, ProbabilityRule, Split


class TiFLSettings(SelectorKind):
    """One tier of clients of similar latency per round, with more rounds for low accuracy."""

    acts_if = by_key(
        **dict.fromkeys(
            ("interval_rounds", "trigger"), beside("rule", "rank", "rank_to_zero", "error")
        )
    )

    demands: ClassVar[Demands] = {
        "rule: rank": Demand(
            "seconds of a training task of all clients; their accuracies every 10 rounds;"
            " stop.rounds",
            "private",
            "the server is told accuracies on single clients' samples",
            set_up_choices=1,
        ),
        "rule: none": Demand(
            "seconds of a training task of all clients; stop.rounds",
            "yes",
            "seconds are of the device; a model trained for a profile is discarded",
            set_up_choices=1,
        ),
    }

    selector = "TiFLSelector"
    kind: Literal["tifl"] = "tifl"
    num_tiers: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Number of tiers (m)."""
    profile_rounds: Annotated[int, Field(ge=1, le=100)] = Field(default=1, examples=[3])
    """Training tasks that a client runs before its first choice (R); inferred."""
    max_s: DurationS | None = Field(default=None, examples=[60.0])
    """T_max of a profiling task; null: the longest time that the server waited for one."""
    split: Split = "count"
    """Tiers of equal size, or of equal width in latency."""
    credits: Literal["planned", "unlimited"] = "planned"
    """Rounds in which a tier may be drawn: its share ceil(stop.rounds / m), or unlimited."""
    interval_rounds: Rounds = Field(default=10, examples=[2])
    """Rounds from one measurement of the tiers' accuracies to the next (I); inferred."""
    trigger: Literal["stalled", "every"] = "stalled"
    """Measurements that change probabilities: a stall of the current tier, or each."""
    rule: ProbabilityRule | Literal["none"] = Field(
        default="rank", examples=["rank_to_zero", "error", "none"]
    )
    """Rule by which accuracies become probabilities: rank; rank_to_zero, (n - 1 - r) / (n (n - 1) /
    2) and so 0 for the best; error, in proportion to 1 - accuracy; none, always 1 / m."""
    fill: Fill = "slower"
    """Replacement of clients that a tier lacks: by the next slower tiers, or none."""


class TiFLSelector(ConfiguredSelector[TiFLSettings]):
    """Selector with profiles [N, R] and tiers [N]; credits, probabilities, accuracies [m]."""

    needs_probes = True
    state_fields = (
        *("_observed_s", "_num_asked", "_tier_of", "_longest_s", "_credit", "_probability"),
        *("_accuracy", "_tier"),
    )

    def __init__(self, settings: TiFLSettings) -> None:
        super().__init__(settings)
        self.needs_losses = settings.rule != "none"

    def _begin(self, fleet: FleetView) -> None:
        settings = self._settings
        is_planned = settings.credits == "planned"
        if is_planned and fleet.planned_rounds is None:
            raise ScenarioError(
                "server.selector.credits: tifl gives each tier its share of the rounds; set"
                " stop.rounds, or credits: unlimited"
            )
        self._observed_s = np.full((self._size, settings.profile_rounds), np.nan)
        self._num_asked = np.zeros(self._size, dtype=np.int64)
        self._tier_of = np.full(self._size, DROPPED, dtype=np.int64)
        self._longest_s = 0.0
        planned_rounds = fleet.planned_rounds if is_planned else None
        self._credit = equations.initial_credits(settings.num_tiers, planned_rounds)
        self._probability = np.full(settings.num_tiers, 1.0 / settings.num_tiers)
        self._accuracy: FloatArray = np.full(settings.num_tiers, np.nan)
        self._tier = DROPPED
        self._measured_in = 0

    def _stages(self, view: RoundView) -> Stages:
        """Profile new candidates, one training task per stage, then measure the tiers."""
        settings = self._settings
        if self._measured_in == view.round:
            return
        for _ in range(settings.profile_rounds):
            new = view.candidates[self._num_asked[view.candidates] < settings.profile_rounds]
            if new.size == 0:
                break
            self._num_asked[new] += 1
            view, answers = yield probing.requests(new, self._fleet.training, upload_byte=0)
            self._profile(answers)
        if self.needs_losses and view.round % settings.interval_rounds == 0:
            self._measured_in = view.round
            present = view.candidates
            _, answers = yield probing.evaluations(present[self._tier_of[present] != DROPPED])
            self._adapt(view.round, answers)

    def select(self, view: RoundView) -> IntArray:
        """Return random clients of a random tier; refuse a fleet that was dropped as a whole."""
        tier_of = self._tier_of[view.candidates]
        num_available = self._num_members(tier_of)
        is_open = equations.open_tiers(self._credit, num_available)
        if not is_open.any():
            self._require_anybody()
            return np.empty(0, dtype=np.int64)
        generator = rng.stream(self._fleet.seed, "select/tifl", view.round)
        self._tier = equations.draw_tier(self._probability, is_open, float(generator.random()))
        self._credit[self._tier] = max(self._credit[self._tier] - 1.0, 0.0)
        keys = generator.random(self._size)[view.candidates]
        chosen = equations.choose(tier_of, self._tier, view.wanted, keys, self._settings.fill)
        return view.candidates[chosen]

    def _profile(self, reports: Sequence[Report]) -> None:
        for report in reports:
            self._longest_s = max(self._longest_s, report.duration_s)
            if report.is_delivered:
                column = self._num_asked[report.client] - 1
                self._observed_s[report.client, column] = report.duration_s
        # The longest answer is in time.
        max_s = self._settings.max_s or math.nextafter(self._longest_s, math.inf)
        is_profiled = self._num_asked == self._settings.profile_rounds
        latencies_s = np.full(self._size, np.nan)
        latencies_s[is_profiled] = equations.latency_s(self._observed_s[is_profiled], max_s)
        keys = rng.stream(self._fleet.seed, "select/tifl/latencies").random(latencies_s.size)
        self._tier_of = equations.tiers(
            latencies_s, self._settings.num_tiers, keys, self._settings.split
        )

    def _adapt(self, round_: int, reports: Sequence[Report]) -> None:
        """Store the tiers' accuracies, and change the probabilities if that is due."""
        settings = self._settings
        accuracies = np.full(self._size, np.nan)
        num_samples = np.zeros(self._size, dtype=np.int64)
        for report in reports:
            if report.is_delivered and report.accuracy is not None:
                accuracies[report.client] = report.accuracy
                num_samples[report.client] = report.num_samples
        measured = equations.tier_accuracies(
            self._tier_of, settings.num_tiers, accuracies, num_samples
        )
        # Before the first draw, and where an accuracy is not known (NaN), nothing has stalled.
        tier = self._tier
        has_stalled = tier != DROPPED and bool(measured[tier] <= self._accuracy[tier])
        is_due = settings.trigger == "every" or has_stalled
        self._accuracy = np.where(np.isnan(measured), self._accuracy, measured)
        if is_due and settings.rule != "none":
            is_empty = self._num_members(self._tier_of) == 0
            generator = rng.stream(self._fleet.seed, "select/tifl/accuracies", round_)
            self._probability = equations.changed_probabilities(
                self._accuracy,
                np.where(is_empty, 0.0, self._credit),
                generator.random(settings.num_tiers),
                settings.rule,
            )

    def _num_members(self, tier_of: IntArray) -> IntArray:
        """Return the number of clients in each tier [m] from the tiers of clients [n]."""
        return np.bincount(tier_of[tier_of != DROPPED], minlength=self._settings.num_tiers)

    def _require_anybody(self) -> None:
        is_profiled = self._num_asked == self._settings.profile_rounds
        if is_profiled.all() and (self._tier_of == DROPPED).all():
            raise ScenarioError(
                f"server.selector: tifl profiled all {is_profiled.size} clients and none answered"
                " in time; raise server.selector.max_s or server.deadline_s"
            )
