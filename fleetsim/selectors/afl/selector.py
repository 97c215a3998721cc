"""AFL, active federated learning: sampling of clients by the loss of their samples.

A client that failed to answer counts as -infinity, like one without a valuation: it is left out
first and never drawn actively. A loss that is not finite teaches nothing.

Source: Goetz, Malik, Bui, Moon, Liu, Kumar, arXiv 1909.12641; alpha = (0.75, 0.01, 0.1), all
clients evaluated once and the active part rounded down as in Yoruko-Tang/FedCor@d941083
(`src/federated_main.py`, `src/options.py`); `rounding: random` and a loss seen in training as in
facebookresearch/FLSim before 2022-06-03; `cold_start: none` as in TL-System/plato@60d6779.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import Cohort, FleetView, FloatArray, IntArray, RoundOutcome, RoundView
from fleetsim.schema.ranges import Weight
from fleetsim.selectors import probing
from fleetsim.selectors.afl.equations import Rounding, choose, valuations
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import PROBED_LOSS, Demand, Demands
from fleetsim.selectors.tie_breaking import TieRule, tie_keys

_Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class AflSettings(SelectorKind):
    """Active federated learning: clients drawn by the loss of their samples."""

    demands: ClassVar[Demands] = {
        "": Demand(
            "n_k; losses of all clients once, then those of its cohorts",
            "private",
            PROBED_LOSS,
            set_up_choices=1,
        )
    }

    selector = "AflSelector"
    kind: Literal["afl"] = "afl"
    alpha_1: _Fraction = 0.75
    """Share of the candidates, those of the smallest valuations, that is not drawn actively."""
    alpha_2: Weight = 0.01
    """Factor on valuations in the exponent of the probability."""
    alpha_3: _Fraction = 0.1
    """Share of the cohort that is drawn uniformly."""
    rounding: Rounding = "active"
    """Part of the cohort that is rounded down: the active (5 clients: 4 + 1) or the random one."""
    cold_start: Literal["evaluate", "none"] = "evaluate"
    """Request to clients without a valuation: to evaluate the model, or none."""
    ties: TieRule = "random"
    """Order among equal valuations."""


class AflSelector(ConfiguredSelector[AflSettings]):
    """Selector with the valuations of the fleet [N], -infinity where not known."""

    needs_losses = True
    state_fields = ("_valuation",)

    def __init__(self, settings: AflSettings) -> None:
        super().__init__(settings)
        self.needs_probes = settings.cold_start != "none"

    def _begin(self, fleet: FleetView) -> None:
        self._valuation = np.full(self._size, -np.inf)

    def _stages(self, view: RoundView) -> Stages:
        """Ask the candidates without a valuation, once for each choice."""
        while self.needs_probes:
            present = probing.unasked(view)
            view, _ = yield probing.evaluations(present[np.isneginf(self._valuation[present])])

    def select(self, view: RoundView) -> Cohort:
        """Return the clients drawn by valuation in that order, then those drawn uniformly."""
        settings, size = self._settings, self._size
        mean_loss = probing.losses(view.reports, size)
        answered = np.flatnonzero(~np.isnan(mean_loss))
        self._value(answered, mean_loss[answered])
        generator = rng.stream(self._fleet.seed, "select/afl", view.round)
        exponentials = generator.standard_exponential(size)
        uniforms = generator.random(size)
        keys = tie_keys(settings.ties, size, generator)
        present = view.candidates
        places = choose(
            self._valuation[present],
            view.wanted,
            alpha_1=settings.alpha_1,
            alpha_2=settings.alpha_2,
            alpha_3=settings.alpha_3,
            exponentials=exponentials[present],
            uniforms=uniforms[present],
            keys=keys[present],
            rounding=settings.rounding,
        )
        return Cohort(present[places], asks_epoch_losses=True)

    def observe(self, outcome: RoundOutcome) -> None:
        """Refresh the valuations of the clients that delivered."""
        self._value(*probing.training_losses(outcome.reports, "first_epoch"))

    def _value(self, clients: IntArray, mean_loss: FloatArray) -> None:
        self._valuation[clients] = valuations(self._fleet.num_samples[clients], mean_loss)
