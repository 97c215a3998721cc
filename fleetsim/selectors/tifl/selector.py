"""TiFL: one tier of equally fast clients a round, the worse its accuracy the more often.

1. *Profiling*: candidates run the training task R times, stage by stage, before the first choice
   that they are there for. A client's latency is the sum of its times, each cut at T_max; one that
   never answered within T_max is dropped for the run. T_max is `max_s`, or else the longest that
   the server ever waited for a profiling task.
2. *Tiers*: the profiled clients are cut into m tiers by latency, and all of them anew when
   newcomers have been profiled.
3. *Choice*: of the tiers that have credits and somebody there, one is drawn with probability P. It
   pays a credit, and the wanted clients are drawn uniformly among its members; if they are too
   few, the next slower tiers fill up.
4. *Adaptation*: before the choices of rounds I, 2I, ... all candidates evaluate the model. If the
   accuracy of the tier last drawn has not risen since the last time, the probabilities follow the
   tiers' accuracies. A tier none of whose members answered keeps the accuracy it had.

If every client of the fleet was profiled and none answered in time, the run ends with an error. If
no credits are left, tiers are drawn as if all had some.

What the sources disagree about, the first being the default: tiers of equal size or of equal
stretches of latency (`split`); probabilities change on a stall or each time (`trigger`); P by rank,
by rank with none for the best, or by error (`rule`; `none` keeps 1/m, and then nobody evaluates);
ceil(T / m) credits a tier, with which each is used about equally often whatever P says, or no end
of them (`credits`); slower tiers fill up or not (`fill`). One profiling round and I = 10 are
inferred.

Source: Chai et al., "TiFL: a tier-based federated learning system", HPDC 2020 (arXiv 2001.09249),
by bacox/fltk@ba90a78 and later re-implementations; the full text was not at hand. fltk measures
the selected tier only, and on the global test set; here clients measure, on their own samples. The
equations are in `fleetsim.selectors.tifl.equations`.

The server must know the number of rounds (`stop.rounds`) for `credits: planned`. Profiling costs
each client R whole training tasks, whose models are thrown away; a measurement costs each candidate
a model download, its forward passes and the upload of a scalar.
"""

from __future__ import annotations

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
    ProbeRequest,
    Report,
    RoundOutcome,
    RoundView,
    Work,
    WorkKind,
)
from fleetsim.errors import ScenarioError
from fleetsim.schema.effects import beside, by_key
from fleetsim.schema.ranges import Clients, DurationS, Rounds
from fleetsim.selectors.declared_state import Column, DeclaredState, Scalar
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.tifl.equations import (
    DROPPED,
    Fill,
    ProbabilityRule,
    Split,
    Trigger,
    changed_probabilities,
    choose,
    draw_tier,
    initial_credits,
    is_change_due,
    is_measured,
    latency_s,
    open_tiers,
    tier_accuracies,
    tiers,
    with_payment,
)
from fleetsim.settings import Settings


class TiFLSettings(Settings):
    """One tier of equally fast clients a round, the worse its accuracy the more often."""

    acts_if = by_key(
        interval_rounds=beside("rule", "rank", "rank_to_zero", "error"),
        trigger=beside("rule", "rank", "rank_to_zero", "error"),
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

    kind: Literal["tifl"] = "tifl"
    num_tiers: Clients = 5
    """Tiers that clients are cut into by latency (m)."""
    profile_rounds: Annotated[int, Field(ge=1, le=1000)] = Field(default=1, examples=[3])
    """Times that a client runs the training task before its first choice (R)."""
    max_s: DurationS | None = Field(default=None, examples=[60.0])
    """T_max of a profiling task; null: the longest that the server waited for one."""
    split: Split = "count"
    """Tiers of equal size, or of equal stretches of latency."""
    credits: Literal["planned", "unlimited"] = "planned"
    """How often a tier may be drawn: its share of stop.rounds, or without end."""
    interval_rounds: Rounds = Field(default=10, examples=[2])
    """Rounds from one measurement of the tiers' accuracies to the next (I)."""
    trigger: Trigger = "stalled"
    """Whether probabilities change when the current tier stalls, or at each measurement."""
    rule: ProbabilityRule | Literal["none"] = Field(
        default="rank", examples=["rank_to_zero", "error", "none"]
    )
    """How accuracies become probabilities: rank, rank_to_zero, error, or none (never)."""
    fill: Fill = "slower"
    """Who stands in for clients that a tier lacks: the next slower tiers, or nobody."""

    def build(self) -> TiFLSelector:
        """Selector with these settings."""
        return TiFLSelector(self)


class TiFLSelector(DeclaredState):
    """Profiles [N, R] and tiers [N] of the fleet; credits, chances and accuracies of tiers [m]."""

    needs_probes = True
    state_fields = (
        Column("observed_s", np.float64),
        Column("num_asked", np.int64),
        Column("tier_of", np.int64),
        Scalar("longest_s", float),
        Column("credit", np.float64),
        Column("probability", np.float64),
        Column("accuracy", np.float64),
        Scalar("tier", int),
    )

    def __init__(self, settings: TiFLSettings) -> None:
        self.needs_losses = settings.rule != "none"
        self._settings = settings
        self._seed = 0
        self._training = Work(WorkKind.NONE)
        self._observed_s: FloatArray = np.empty((0, settings.profile_rounds))
        self._num_asked: IntArray = np.empty(0, dtype=np.int64)
        self._tier_of: IntArray = np.empty(0, dtype=np.int64)
        self._longest_s = 0.0
        self._credit: FloatArray = np.empty(0)
        self._probability: FloatArray = np.empty(0)
        self._accuracy: FloatArray = np.empty(0)
        self._tier = DROPPED
        self._num_read = 0
        self._is_measuring = False

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Begin with nobody profiled.

        Raises:
            ScenarioError: credits go by the number of rounds, which is open.
        """
        settings = self._settings
        is_planned = settings.credits == "planned"
        if is_planned and fleet.planned_rounds is None:
            raise ScenarioError(
                "server.selector.credits: tifl gives each tier its share of the rounds; set"
                " stop.rounds, or credits: unlimited"
            )
        size = fleet.num_samples.size
        self._seed = fleet.seed
        self._training = fleet.training
        self._observed_s = np.full((size, settings.profile_rounds), np.nan)
        self._num_asked = np.zeros(size, dtype=np.int64)
        self._tier_of = np.full(size, DROPPED, dtype=np.int64)
        self._credit = initial_credits(
            settings.num_tiers, fleet.planned_rounds if is_planned else None
        )
        self._probability = np.full(settings.num_tiers, 1.0 / settings.num_tiers)
        self._accuracy = np.full(settings.num_tiers, np.nan)
        return ()

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Profile newcomers, one training task a stage, then let the tiers be measured."""
        self._take_in(view)
        settings, there = self._settings, view.candidates
        new = there[self._num_asked[there] < settings.profile_rounds]
        is_profiling = view.stage < settings.profile_rounds and not self._is_measuring
        if new.size and is_profiling:
            self._num_asked[new] += 1
            return [ProbeRequest(client, self._training, upload_byte=0) for client in new.tolist()]
        is_due = self.needs_losses and is_measured(view.round, settings.interval_rounds)
        if is_due and not self._is_measuring:
            self._is_measuring = True
            tiered = there[self._tier_of[there] != DROPPED]
            return [ProbeRequest(client, Work(WorkKind.EVALUATE)) for client in tiered.tolist()]
        return ()

    def select(self, view: RoundView) -> IntArray:
        """Draw a tier, and clients of it.

        Raises:
            ScenarioError: the whole fleet was dropped.
        """
        tier_of = self._tier_of[view.candidates]
        num_available = self._num_members(tier_of)
        is_open = open_tiers(self._credit, num_available)
        if not is_open.any():
            self._require_anybody()
            return np.empty(0, dtype=np.int64)
        generator = rng.stream(self._seed, "select/tifl", view.round)
        self._tier = draw_tier(self._probability, is_open, float(generator.random()))
        self._credit = with_payment(self._credit, self._tier)
        keys = generator.random(self._tier_of.size)[view.candidates]
        chosen = choose(tier_of, self._tier, view.wanted, keys, self._settings.fill)
        return view.candidates[chosen]

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn nothing of the cohort; the next choice reads its reports from the first one on."""
        self._num_read = 0
        self._is_measuring = False

    def _take_in(self, view: RoundView) -> None:
        """Read the answers to what was asked last."""
        new = view.reports[self._num_read :]
        self._num_read = len(view.reports)
        if new and self._is_measuring:
            self._adapt(view.round, new)
        elif new:
            self._profile(new)

    def _profile(self, reports: Sequence[Report]) -> None:
        for report in reports:
            self._longest_s = max(self._longest_s, report.duration_s)
            if report.is_delivered:
                column = self._num_asked[report.client] - 1
                self._observed_s[report.client, column] = report.duration_s
        # The longest answer is in time.
        max_s = self._settings.max_s or math.nextafter(self._longest_s, math.inf)
        is_profiled = self._num_asked == self._settings.profile_rounds
        latencies_s = np.full(self._num_asked.size, np.nan)
        latencies_s[is_profiled] = latency_s(self._observed_s[is_profiled], max_s)
        keys = rng.stream(self._seed, "select/tifl/latencies").random(latencies_s.size)
        self._tier_of = tiers(latencies_s, self._settings.num_tiers, keys, self._settings.split)

    def _adapt(self, round_: int, reports: Sequence[Report]) -> None:
        """Note the tiers' accuracies, and change the probabilities if that is due."""
        settings = self._settings
        accuracies = np.full(self._tier_of.size, np.nan)
        num_samples = np.zeros(self._tier_of.size, dtype=np.int64)
        for report in reports:
            if report.is_delivered and report.accuracy is not None:
                accuracies[report.client] = report.accuracy
                num_samples[report.client] = report.num_samples
        measured = tier_accuracies(self._tier_of, settings.num_tiers, accuracies, num_samples)
        now, before = math.nan, math.nan
        if self._tier != DROPPED:
            now, before = float(measured[self._tier]), float(self._accuracy[self._tier])
        is_due = is_change_due(now, before, settings.trigger)
        self._accuracy = np.where(np.isnan(measured), self._accuracy, measured)
        if is_due and settings.rule != "none":
            is_empty = self._num_members(self._tier_of) == 0
            generator = rng.stream(self._seed, "select/tifl/accuracies", round_)
            self._probability = changed_probabilities(
                self._accuracy,
                np.where(is_empty, 0.0, self._credit),
                generator.random(settings.num_tiers),
                settings.rule,
            )

    def _num_members(self, tier_of: IntArray) -> IntArray:
        """Clients in each tier [m], of the tiers of some clients [n]."""
        return np.bincount(tier_of[tier_of != DROPPED], minlength=self._settings.num_tiers)

    def _require_anybody(self) -> None:
        is_profiled = self._num_asked == self._settings.profile_rounds
        if is_profiled.all() and (self._tier_of == DROPPED).all():
            raise ScenarioError(
                f"server.selector: tifl profiled all {is_profiled.size} clients and none answered"
                " in time; raise server.selector.max_s or server.deadline_s"
            )
