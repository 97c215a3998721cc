"""FedCor: clients whose training is expected to lower the loss of all most, by correlation.

Requests of the warm-up and of later rounds:

* No client is asked twice for the same model: the loss after one round is the loss before the next.
  Losses that are not finite are no answers.
* The fit of the warm-up makes at once all fits that the authors' code makes after each of its
  rounds: `warm_up_fit_steps` steps on the first observation, as many on the first two, and so on.

Source: Tang et al., CVPR 2022, as in Yoruko-Tang/FedCor@d941083.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    FleetView,
    FloatArray,
    IntArray,
    RoundOutcome,
    RoundView,
)
from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.schema.ranges import Gain, PositiveFraction, Steps
from fleetsim.selectors import probing
from fleetsim.selectors.baselines.uniform import random_clients
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.fedcor import correlation_fit
from fleetsim.selectors.fedcor.equations import SumOver, annealed, choose, covariance
from fleetsim.selectors.tie_breaking import TieRule, tie_keys


class FedCorSettings(SelectorKind):
    """Clients whose losses correlate with those of all, by a Gaussian process."""

    acts_if = by_key(
        warm_up_fit_steps=beside("mean", "zero"), observed_fit_steps=beside("mean", "observed")
    )

    demands: ClassVar[Demands] = {
        "": Demand(
            "n_k; losses of all clients in the warm-up, later two at a time",
            "small",
            "a covariance over pairs of clients, O(K N^2) a choice; all clients tell their losses",
            set_up_choices=16,
            square_byte=16,
        )
    }

    selector = "FedCorSelector"
    kind: Literal["fedcor"] = "fedcor"
    warm_up_rounds: Steps = Field(default=15, examples=[2])
    """Rounds of uniform selection in which all clients evaluate the model (W)."""
    interval_rounds: Steps = 10
    """Rounds from one shadow round and fit to the next, after the warm-up."""
    history_rounds: Steps = 100
    """Largest age of an observation in rounds."""
    discount: PositiveFraction = 0.95
    """Weight of an observation, to the power of its age in rounds (gamma)."""
    annealing: PositiveFraction = 0.95
    """Factor on a client's score each time it is chosen, until the next fit (beta)."""
    dimensions: Annotated[int, Field(ge=1, le=1000)] = 15
    """Coordinates of the point of a client (D)."""
    noise: Gain = 0.01
    """Standard deviation of independent changes of clients (sigma_n), raised to a floor."""
    learning_rate: Gain = 0.01
    """Learning rate of Adam in a fit."""
    fit_steps: Steps = 100
    """Steps of Adam after a shadow round."""
    warm_up_fit_steps: Steps = 150
    """Steps of Adam for each round of the warm-up."""
    mean: Literal["zero", "observed"] = "zero"
    """Mean change of a client's loss: none, or the discounted mean of those observed."""
    observed_fit_steps: Steps = 1000
    """Steps of Adam for the whole warm-up with `mean: observed`."""
    sum_over: SumOver = "remaining"
    """Clients whose losses count in a score: candidates not yet chosen, or all. Both are the
    same if all clients are available."""
    ties: TieRule = "random"
    """Order among equal scores."""


class FedCorSelector(ConfiguredSelector[FedCorSettings]):
    """Selector with points [D, N], observations [S, N] and the losses after the last round [N]."""

    needs_losses = True
    needs_probes = True
    state_fields = ("_points", "_alpha", "_changes", "_changed_in", "_loss", "_is_new_model")

    def _begin(self, fleet: FleetView) -> None:
        self._weights = fleet.num_samples / fleet.num_samples.sum()
        generator = rng.stream(fleet.seed, "select/fedcor/points")
        normals = generator.standard_normal((self._settings.dimensions, self._size))
        self._points = correlation_fit.initial_points(normals)
        self._alpha = np.ones(self._size)
        self._changes = np.empty((0, self._size))
        self._changed_in: IntArray = np.empty(0, dtype=np.int64)
        self._loss: FloatArray = np.full(self._size, np.nan)
        self._is_new_model = False
        self._asked_in = 0

    def _stages(self, view: RoundView) -> Stages:
        """Ask for losses; then, in a shadow round, for trainings and losses of their model."""
        num_finished, settings = view.round - 1, self._settings
        is_warm_up = num_finished <= settings.warm_up_rounds
        is_done = self._asked_in == view.round or view.candidates.size == 0
        if is_done or not (is_warm_up or num_finished % settings.interval_rounds == 0):
            return
        self._asked_in = view.round
        view, answers = yield probing.evaluations(view.candidates)
        loss = probing.losses(answers, self._size)
        if is_warm_up and self._is_new_model:
            self._note(loss, num_finished)
        self._loss = loss
        if is_warm_up:
            self._is_new_model = False
            if num_finished == settings.warm_up_rounds:
                self._fit_warm_up(num_finished)
            return
        generator = rng.stream(self._fleet.seed, "select/fedcor/shadow", view.round)
        exponentials = generator.standard_exponential(self._size)
        chosen = random_clients(self._answered(view), self._fleet.cohort, exponentials)
        view, answers = yield probing.requests(chosen, self._fleet.training)
        model = probing.average_model(answers)
        if model is not None:
            _, answers = yield probing.evaluations(self._answered(view), parameters=model)
            self._note(probing.losses(answers, self._size), num_finished)
            self._fit(num_finished, settings.fit_steps)
            self._forget(num_finished)

    def select(self, view: RoundView) -> IntArray:
        """Choose uniformly in the warm-up, by score afterwards."""
        settings = self._settings
        generator = rng.stream(self._fleet.seed, "select/fedcor", view.round)
        if view.round <= settings.warm_up_rounds:
            exponentials = generator.standard_exponential(self._size)
            return random_clients(view.candidates, view.wanted, exponentials)
        return choose(
            covariance(self._points, settings.noise),
            self._alpha,
            self._weights,
            view.candidates,
            view.wanted,
            tie_keys(settings.ties, self._size, generator),
            settings.sum_over,
        )

    def observe(self, outcome: RoundOutcome) -> None:
        """Anneal the clients chosen by score, and store whether the model has changed."""
        if outcome.round > self._settings.warm_up_rounds:
            self._alpha = annealed(self._alpha, outcome.selected, self._settings.annealing)
        self._is_new_model |= outcome.aggregated

    def _answered(self, view: RoundView) -> IntArray:
        """Return the candidates whose loss under the present model is known."""
        return view.candidates[~np.isnan(self._loss[view.candidates])]

    def _note(self, loss: FloatArray, num_finished: int) -> None:
        change = loss - self._loss
        if not np.all(np.isnan(change)):
            self._changes = np.vstack([self._changes, change])
            self._changed_in = np.append(self._changed_in, num_finished)

    def _fit_warm_up(self, num_finished: int) -> None:
        if self._settings.mean == "observed":
            self._fit(num_finished, self._settings.observed_fit_steps)
        else:
            for round_ in self._changed_in.tolist():
                self._fit(round_, self._settings.warm_up_fit_steps)
        self._forget(num_finished)

    def _fit(self, round_: int, num_steps: int) -> None:
        """Fit to the observations until a round, and reset the factors."""
        settings = self._settings
        self._alpha = np.ones(self._size)
        is_known = self._changed_in <= round_
        is_known &= correlation_fit.remembered(self._changed_in, round_, settings.history_rounds)
        changes, ages = self._changes[is_known], round_ - self._changed_in[is_known]
        mean = None
        if settings.mean == "observed":
            mean = correlation_fit.mean_changes(changes, ages, settings.discount)
        if ages.size:
            self._points = correlation_fit.fitted(
                self._points,
                changes,
                ages,
                num_steps=num_steps,
                discount=settings.discount,
                mean=mean,
                noise=settings.noise,
                learning_rate=settings.learning_rate,
            )

    def _forget(self, round_: int) -> None:
        is_kept = correlation_fit.remembered(
            self._changed_in, round_, self._settings.history_rounds
        )
        self._changes, self._changed_in = self._changes[is_kept], self._changed_in[is_kept]
