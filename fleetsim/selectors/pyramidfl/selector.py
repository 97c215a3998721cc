"""PyramidFL: Oort's cohort, with smaller uploads of less important clients and more work for fast.

The choice, its settings and draws are those of `fleetsim.selectors.oort`.

Source: Li, Zeng, Zhang, Cao, MobiCom 2022, as in liecn/PyramidFL@527b73e (lo 0.1, hi 0.6, beta 1;
0.5 in its experiments).
"""

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fleetsim.contracts import (
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    Report,
    RoundOutcome,
    RoundView,
    Work,
    WorkKind,
)
from fleetsim.fleet.devices.compute import num_trained
from fleetsim.selectors.configured_selector import ConfiguredSelector
from fleetsim.selectors.demands import COHORT_LOSS, Demand, Demands
from fleetsim.selectors.oort.selector import OortOptions, OortSelector
from fleetsim.selectors.pyramidfl import equations

_Dropout = Annotated[float, Field(ge=0.0, lt=1.0)]


class PyramidFlSettings(OortOptions):
    """Oort's clients; less important ones upload less, those that would wait train longer."""

    demands: ClassVar[Demands] = {
        "": Demand(
            "as oort; norms of updates, times of download, epochs and upload",
            "private",
            f"{COHORT_LOSS}, and the length of its update; no message of its own",
        )
    }

    selector = "PyramidFlSelector"
    kind: Literal["pyramidfl"] = "pyramidfl"
    lowest_dropout: _Dropout = 0.1
    """Share of its update that the most important client does not upload (lo)."""
    highest_dropout: _Dropout = 0.6
    """Upper limit of that share, which no client reaches (hi)."""
    idle_share: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """Share of a client's waiting time that is filled with extra epochs or steps (beta); 0.5 in the
    authors' experiments."""

    @model_validator(mode="after")
    def _lowest_below_highest(self) -> Self:
        if self.lowest_dropout > self.highest_dropout:
            raise ValueError(
                f"lowest_dropout {self.lowest_dropout} is greater than "
                f"highest_dropout {self.highest_dropout}; make it at most that"
            )
        return self


class PyramidFlSelector(ConfiguredSelector[PyramidFlSettings]):
    """Selector with Oort's and columns over the fleet [N]; seconds are NaN before a delivery.

    Work is counted in the scenario's unit: epochs, or steps, which then have a batch size.
    """

    needs_losses = True
    state_parts = ("_oort",)
    state_fields = ("_gradient_utility", "_down_s", "_unit_s", "_up_s", "_asked", "_asked_fraction")

    def __init__(self, settings: PyramidFlSettings) -> None:
        super().__init__(settings)
        self._oort = OortSelector(settings)

    def _begin(self, fleet: FleetView) -> None:
        self._oort.setup(fleet)
        self._usual = fleet.epochs if fleet.steps is None else fleet.steps
        self._gradient_utility = fleet.num_samples.astype(np.float64)
        self._down_s = np.full(self._size, np.nan)
        self._unit_s = np.full(self._size, np.nan)
        self._up_s = np.full(self._size, np.nan)
        self._asked = np.full(self._size, self._usual, dtype=np.int64)
        self._asked_fraction = np.ones(self._size)

    def select(self, view: RoundView) -> Cohort:
        """Return Oort's choice, with the epochs or steps and the share of the update of each."""
        settings = self._settings
        chosen = self._oort.select(view)
        dropout = equations.dropout_fractions(
            equations.ranks(self._gradient_utility[chosen]),
            lowest=settings.lowest_dropout,
            highest=settings.highest_dropout,
        )
        amounts = self._amounts(chosen, dropout)
        self._asked[chosen] = amounts
        self._asked_fraction[chosen] = 1.0 - dropout
        if self._fleet.steps is None:
            return Cohort(chosen, epochs=amounts, upload_fraction=1.0 - dropout)
        return Cohort(chosen, steps=amounts, upload_fraction=1.0 - dropout)

    def observe(self, outcome: RoundOutcome) -> None:
        """Store updates and times of the clients that delivered, and let Oort learn."""
        for report in outcome.reports:
            if report.is_delivered:
                self._note(report)
        self._oort.observe(outcome)

    def _amounts(self, chosen: IntArray, dropout: FloatArray) -> IntArray:
        """Return the epochs or steps of each chosen client [n]."""
        amounts = np.full(chosen.size, self._usual, dtype=np.int64)
        # Clients that compute in no time, as in worlds without devices, have no work to add.
        is_timed = self._unit_s[chosen] > 0.0
        timed = chosen[is_timed]
        compute_s = self._usual * self._unit_s[timed]
        duration_s = self._down_s[timed] + equations.durations_s(
            compute_s, self._up_s[timed], dropout[is_timed]
        )
        ratio = equations.step_ratios(
            duration_s, compute_s, num_steps=self._usual, beta=self._settings.idle_share
        )
        amounts[is_timed] = equations.num_local_steps(ratio, self._usual)
        return amounts

    def _note(self, report: Report) -> None:
        client = report.client
        # Less than requested where the owner interrupted it.
        amount = float(self._asked[client]) * report.completed_fraction
        if amount == 0.0:
            return
        self._down_s[client] = report.download_s
        self._unit_s[client] = report.compute_s / amount
        self._up_s[client] = report.upload_s / self._asked_fraction[client]
        if report.vector is not None and report.base is not None:
            norm = float(np.linalg.norm(report.vector.astype(np.float64) - report.base))
            if np.isfinite(norm):
                held, batching = self._fleet.num_samples[[client]], self._fleet.batching
                if self._fleet.steps is None:
                    trained = np.rint(batching.num_used(held) * amount).astype(np.int64)
                else:
                    steps = Work(WorkKind.TRAIN, steps=max(1, round(amount)))
                    trained = num_trained(steps, held, batching)
                utilities = equations.gradient_utilities(np.array([norm]), held, trained)
                self._gradient_utility[client] = utilities[0]
