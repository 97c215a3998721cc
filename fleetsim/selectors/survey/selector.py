"""Policies of a survey: large losses times data, their confidence bound, or no repeats.

A client that does not deliver keeps L_k and N_k. Policy 3 counts all selected clients, also failed
ones. Line 9 of the paper's Algorithm 1 prints the next model as (1/K) sum over the selected of p_k
w_k, whose weights sum to about 1/N, so that the model shrinks to nothing: `weights: printed` does
that, for tests.

Source: Bhuyan, Banzal, Zacharia, Laddha, "Survey of client selection methods in federated
learning", course project CS 726, 2022, equations (1) and (2); its experiments take 5 of 100
clients.
"""

from typing import ClassVar, Literal

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    RoundOutcome,
    RoundView,
    Selector,
)
from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.selectors import probing
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind
from fleetsim.selectors.demands import COHORT_LOSS, Demand, Demands
from fleetsim.selectors.survey import equations
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys


class SurveySettings(SelectorKind):
    """Large losses times data, the same with a bonus for rare clients, or no repeats."""

    acts_if = by_key(
        loss=beside("policy", 1, 2),
        ties=beside("policy", 1, 2),
    )

    demands: ClassVar[Demands] = {
        "policy: 1": Demand("n_k; losses of its cohorts", "private", COHORT_LOSS),
        "policy: 2": Demand("n_k; losses of its cohorts", "private", COHORT_LOSS),
        "policy: 3": Demand("nothing", "yes", "keeps the clients that it asked last, nothing else"),
    }

    kind: Literal["survey"] = "survey"
    policy: Literal[1, 2, 3] = 1
    """Average loss times data share (1), its confidence bound (2), or random clients that were not
    selected in the round before (3)."""
    loss: probing.Epochs = "last_epoch"
    """Local epochs over which a reported loss is averaged; policies 1 and 2."""
    weights: Literal["aggregator", "printed"] = "aggregator"
    """Weights of updates: the server's aggregator's, or p_k / K as printed: for tests, because
    these weights do not sum to 1 and the model shrinks in every round."""
    ties: TieRule = "random"
    """Order among equal scores; policies 1 and 2."""

    def build(self) -> Selector:
        """Selector with these settings."""
        return NoRepeatsSelector(self) if self.policy == 3 else AverageLossSelector(self)


def _answer(settings: SurveySettings, chosen: IntArray, shares: FloatArray) -> IntArray | Cohort:
    """Return the answer for the chosen clients [n] and their shares of all data [n]."""
    loss = "last_epoch" if settings.policy == 3 else settings.loss
    if settings.weights == "aggregator" or chosen.size == 0:
        return probing.answer_requesting(chosen, loss)
    return Cohort(
        chosen,
        asks_epoch_losses=loss != "last_epoch",
        weights=shares / chosen.size,
        are_shares=True,
    )


class AverageLossSelector(ConfiguredSelector[SurveySettings]):
    """Selector of policies 1 and 2, with sums and numbers of reported losses [N]."""

    needs_losses = True
    state_fields = ("_loss_sum", "_num_losses")

    def _begin(self, fleet: FleetView) -> None:
        self._shares = equations.sample_shares(fleet.num_samples)
        self._loss_sum: FloatArray = np.zeros(self._size)
        self._num_losses: IntArray = np.zeros(self._size, dtype=np.int64)

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return the clients with the largest scores."""
        present = view.candidates
        known = self._shares[present], self._loss_sum[present], self._num_losses[present]
        if self._settings.policy == 1:
            scores = equations.average_loss_scores(*known)
        else:
            scores = equations.confidence_bound_scores(*known, view.round)
        generator = rng.stream(self._fleet.seed, "select/survey", view.round)
        keys = tie_keys(self._settings.ties, self._size, generator)
        chosen = present[best(scores, view.wanted, keys[present])]
        return _answer(self._settings, chosen, self._shares[chosen])

    def observe(self, outcome: RoundOutcome) -> None:
        """Add the losses of the clients that delivered."""
        self._loss_sum, self._num_losses = equations.with_losses(
            self._loss_sum,
            self._num_losses,
            *probing.training_losses(outcome.reports, self._settings.loss),
        )


class NoRepeatsSelector(ConfiguredSelector[SurveySettings]):
    """Selector of policy 3, with a mask of the clients selected in the last round [N]."""

    state_fields = ("_took_part",)

    def _begin(self, fleet: FleetView) -> None:
        self._shares = equations.sample_shares(fleet.num_samples)
        self._took_part = np.zeros(self._size, dtype=np.bool_)

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return random clients that were not selected in the last round."""
        present = view.candidates
        keys = rng.stream(self._fleet.seed, "select/survey", view.round).random(self._size)
        chosen = present[
            equations.choose_others(self._took_part[present], view.wanted, keys[present])
        ]
        return _answer(self._settings, chosen, self._shares[chosen])

    def observe(self, outcome: RoundOutcome) -> None:
        """Store the selected clients, whether they delivered or not."""
        if outcome.selected.size:
            self._took_part = self._mask(outcome.selected)
