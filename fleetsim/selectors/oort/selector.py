"""Oort: clients of high statistical utility that are fast enough, and a share of new ones.

Details of the choice:

* Of (1 - epsilon) K the floor is exploited. The cold-start utility n_i of exploration is that of
  the samples of one local pass, min(n, steps * batch).
* `pacer_every: round`, the literal reading of Algorithm 1, counts one decline up to W times.
* A straggler's duration is a lower bound. In a round without a finite loss no further client counts
  as explored, so that runs without losses always explore.

Source: Lai, Zhu, Madhyastha, Chowdhury, OSDI 2021, Algorithm 1; stragglers, clip by rank, cold
start and the rhythm of the pacer from SymbioticLab/Oort@05a3aa1. Over-commitment (the paper's 1.3)
is the server's setting, not Oort's.
"""

import math
from functools import cache
from importlib import resources
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
import yaml
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import (
    BoolArray,
    FleetView,
    FloatArray,
    IntArray,
    RoundOutcome,
    RoundView,
)
from fleetsim.counts import floor_product
from fleetsim.schema.key_conditions import beside, beside_any, by_key
from fleetsim.schema.ranges import DurationS, PositiveFraction, Rounds
from fleetsim.selectors.baselines.uniform import draw
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind
from fleetsim.selectors.demands import COHORT_LOSS, Demand, Demands
from fleetsim.selectors.oort import equations
from fleetsim.selectors.tie_breaking import best

_Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Profile = Literal["paper", "oort_repo", "fedscale", "plato"]
"""Source of Oort's values."""


@cache
def profiles() -> dict[str, dict[str, Any]]:
    """Return keys of `OortSettings` by profile, except the paper's, which are the defaults."""
    text = (resources.files("fleetsim.selectors.oort") / "profiles.yaml").read_text("utf-8")
    known: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return known


class OortOptions(SelectorKind):
    """Settings of the choice, for all selectors that choose as Oort does."""

    acts_if = by_key(
        pacer_step_s=beside("preferred_percentile", None),
        pacer_step_percent=beside_any("preferred_percentile", "set it"),
        max_blacklist_fraction=beside_any("max_selections", "set it"),
    )

    kind: str
    exploration_fraction: _Fraction = 0.9
    """Share of never-explored clients in round 1 (epsilon)."""
    exploration_decay: PositiveFraction = 0.98
    """Factor on that share from round to round."""
    exploration_min_fraction: _Fraction = 0.2
    """Share below which it does not fall."""
    exploration_weights: Literal["size", "uniform"] = "size"
    """Chance of a never-explored client: proportional to its samples, or the same for all."""
    exploration_window: Annotated[float, Field(ge=1.0, le=1e9)] | None = Field(
        default=None, examples=[2.0]
    )
    """Size of the pool of explorers, those of the largest weights, in times of their number; null:
    all clients."""
    cut_off_fraction: _Fraction = 0.95
    """Share of the cut-off utility that still admits a client to the pool (c)."""
    clip_fraction: PositiveFraction = 0.95
    """Quantile at which statistical utilities are clipped: rank floor(0.95 n) from below, so that
    none is among 20 or fewer."""
    scale_utilities: bool = Field(default=False, examples=[True])
    """True to scale statistical utilities to [0, 1] before the bonus is added."""
    penalty_exponent: Annotated[float, Field(ge=0.0, le=100.0)] = 2.0
    """Exponent of the penalty on clients slower than the preferred duration (alpha); 0: none."""
    preferred_duration_s: DurationS | None = None
    """Preferred duration T to begin with; null: median duration of the first delivering round."""
    preferred_percentile: Annotated[float, Field(ge=0.0, le=100.0)] | None = Field(
        default=None, examples=[30.0]
    )
    """First percentile of all known durations that is T, which has no limit from 100 on; null: T is
    a duration."""
    pacer_step_s: DurationS | None = None
    """Step Delta by which T grows; null: the first T."""
    pacer_step_percent: Annotated[float, Field(ge=1e-6, le=100.0)] = 5.0
    """Step by which the percentile grows or shrinks; with preferred_percentile only."""
    pacer_window_rounds: Rounds = 20
    """Rounds in each of the two windows that the pacer compares (W)."""
    pacer_every: Literal["window", "round"] = "window"
    """Interval of the pacer's comparisons: once per window, or every round."""
    max_selections: Rounds | None = Field(default=None, examples=[10])
    """Number of selections after which a client is not exploited any more; null: no limit."""
    max_blacklist_fraction: _Fraction = 0.3
    """Largest share of the fleet barred by `max_selections`, the most selected first."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.preferred_percentile is not None and self.preferred_duration_s is not None:
            raise ValueError(
                f"preferred_duration_s {self.preferred_duration_s} and preferred_percentile"
                f" {self.preferred_percentile} exclude each other; set one of them to null"
            )
        if self.exploration_min_fraction > self.exploration_fraction:
            raise ValueError(
                f"exploration_min_fraction {self.exploration_min_fraction} is greater than "
                f"exploration_fraction {self.exploration_fraction}; make it at most that"
            )
        return self


class OortSettings(OortOptions):
    """Useful and fast clients, by loss and duration, and a share of new ones."""

    demands: ClassVar[Demands] = {
        f"profile: {name}": Demand(
            "n_k; root mean square losses and durations of its cohorts",
            "private",
            f"{COHORT_LOSS}; no message of its own",
        )
        for name in get_args(Profile)
    }

    selector = "OortSelector"
    kind: Literal["oort"] = "oort"
    profile: Profile = "paper"
    """Source of the values for settings that are not given."""

    @model_validator(mode="before")
    @classmethod
    def _values_of_the_profile(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        profile = profiles().get(str(given.get("profile")))
        return given if profile is None else profile | given


class OortSelector(ConfiguredSelector[OortOptions]):
    """Selector with columns over the fleet [N]; the utility of unexplored clients is NaN."""

    needs_losses = True
    state_fields = (
        *("_utility", "_duration_s", "_last_round", "_num_selected", "_achieved"),
        *("_num_rounds", "_preferred_s", "_step_s", "_percentile"),
    )

    def _begin(self, fleet: FleetView) -> None:
        self._utility = np.full(self._size, np.nan)
        self._duration_s = np.full(self._size, np.nan)
        self._last_round = np.zeros(self._size, dtype=np.int64)
        self._num_selected = np.zeros(self._size, dtype=np.int64)
        self._achieved: FloatArray = np.empty(0)
        self._num_rounds = 0
        self._preferred_s = self._step_s = self._percentile = math.nan
        if self._settings.preferred_duration_s is not None:
            self._begin_pacing(self._settings.preferred_duration_s)
        if self._settings.preferred_percentile is not None:
            self._percentile = self._settings.preferred_percentile

    def select(self, view: RoundView) -> IntArray:
        """Return the exploited clients, then the explorers."""
        settings = self._settings
        generator = rng.stream(self._fleet.seed, "select/oort", view.round)
        exponentials = generator.standard_exponential(self._size)
        is_explored = np.isfinite(self._utility[view.candidates])
        explored = view.candidates[is_explored]
        explored = explored[~self._blacklist(exponentials)[explored]]
        unexplored = view.candidates[~is_explored]
        epsilon = equations.exploration_fraction(
            view.round,
            settings.exploration_fraction,
            settings.exploration_decay,
            settings.exploration_min_fraction,
        )
        quota = equations.num_exploited(view.wanted, epsilon, explored.size, unexplored.size)
        exploited = self._exploit(view.round, explored, quota, exponentials)
        explorers = self._explore(
            unexplored, view.num_samples[~is_explored], view.wanted - exploited.size, exponentials
        )
        return np.concatenate([exploited, explorers])

    def observe(self, outcome: RoundOutcome) -> None:
        """Register losses and durations of the cohort, then pace."""
        if outcome.selected.size == 0:
            return
        self._num_selected[outcome.selected] += 1
        self._last_round[outcome.selected] = outcome.round
        delivered = [report for report in outcome.reports if report.is_delivered]
        for report in delivered:
            self._duration_s[report.client] = report.duration_s
        reported = [r for r in delivered if r.loss_rms is not None and math.isfinite(r.loss_rms)]
        clients = np.array([report.client for report in reported], dtype=np.int64)
        utilities = equations.statistical_utility(
            np.array([report.num_samples for report in reported], dtype=np.float64),
            np.array([report.loss_rms for report in reported], dtype=np.float64),
        )
        # Clients with a utility were exploited, all others explored.
        of_exploited = utilities[np.isfinite(self._utility[clients])]
        self._utility[clients] = utilities
        for report in outcome.reports:
            if not report.is_delivered:
                known_s = self._duration_s[report.client]
                self._duration_s[report.client] = np.fmax(known_s, report.duration_s)
                if utilities.size:
                    self._utility[report.client] = utilities.mean()
        if math.isnan(self._percentile):
            if math.isnan(self._preferred_s) and delivered:
                self._begin_pacing(float(np.median([report.duration_s for report in delivered])))
            self._pace(float(utilities.sum()))
        else:
            self._pace(float(of_exploited.mean()) if of_exploited.size else 0.0)
            self._preferred_s = equations.duration_at(self._duration_s, self._percentile)

    def _exploit(
        self, round_: int, explored: IntArray, quota: int, exponentials: FloatArray
    ) -> IntArray:
        limited = equations.scaled if self._settings.scale_utilities else equations.clipped
        scores = equations.utility(
            limited(self._utility[explored], self._settings.clip_fraction),
            self._duration_s[explored],
            self._last_round[explored],
            round_=round_,
            preferred_s=self._preferred_s,
            alpha=self._settings.penalty_exponent,
        )
        pool = equations.cut_off_pool(scores, quota, self._settings.cut_off_fraction)
        return explored[pool[draw(scores[pool], quota, exponentials[explored[pool]])]]

    def _explore(
        self, unexplored: IntArray, num_samples: IntArray, num: int, exponentials: FloatArray
    ) -> IntArray:
        weights = self._cold_start(unexplored, num_samples)
        if self._settings.exploration_window is not None:
            pool = equations.exploration_pool(
                weights, num, self._settings.exploration_window, exponentials[unexplored]
            )
            unexplored, weights = unexplored[pool], weights[pool]
        return unexplored[draw(weights, num, exponentials[unexplored])]

    def _cold_start(self, unexplored: IntArray, num_samples: IntArray) -> FloatArray:
        if self._settings.exploration_weights == "uniform":
            return np.ones(unexplored.size)
        return num_samples * equations.system_penalty(
            self._duration_s[unexplored], self._preferred_s, self._settings.penalty_exponent
        )

    def _blacklist(self, keys: FloatArray) -> BoolArray:
        """Return a mask of clients barred from exploitation [N]; the keys break ties."""
        is_barred = np.zeros(self._size, dtype=np.bool_)
        if self._settings.max_selections is not None:
            often = np.flatnonzero(self._num_selected >= self._settings.max_selections)
            limit = floor_product(self._settings.max_blacklist_fraction, self._size)
            most = best(self._num_selected[often].astype(np.float64), limit, keys[often])
            is_barred[often[most]] = True
        return is_barred

    def _begin_pacing(self, preferred_s: float) -> None:
        self._preferred_s = preferred_s
        step_s = self._settings.pacer_step_s
        self._step_s = preferred_s if step_s is None else step_s

    def _pace(self, achieved: float) -> None:
        window = self._settings.pacer_window_rounds
        self._achieved = np.append(self._achieved, achieved)[-2 * window :]
        self._num_rounds += 1
        is_due = self._settings.pacer_every == "round" or self._num_rounds % window == 0
        if is_due and not math.isnan(self._percentile):
            self._percentile = equations.paced_percentile(
                self._percentile, self._achieved, window, self._settings.pacer_step_percent
            )
        elif is_due and equations.is_declining(self._achieved, window):
            self._preferred_s += self._step_s
