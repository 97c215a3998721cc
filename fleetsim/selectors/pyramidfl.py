"""PyramidFL: Oort's cohort; who matters less uploads less, who would wait trains longer.

Clients are chosen exactly as by `fleetsim.selectors.oort`, with the same settings and the same
draws. Among the K' chosen ones, rank 0 is the one with the largest gradient utility

    G_k = |Delta_k|_2 min(n_k, samples trained) / 100,

Delta_k being the last update that arrived; before the first one G_k = n_k. Then
(`fleetsim.selectors.pyramidfl_equations`)

    dropout_k = lo + rank_k (hi - lo) / K'                  share of the update that is not uploaded
    T_k       = down_k + E c_k + (1 - dropout_k) up_k       its round with the usual E local epochs
    epochs_k  = E + floor(min(10 E, beta floor((max T - T_k) / c_k)))

with the seconds of an epoch c_k, of the model's way down, and of the whole update's way up as the
client last measured them. A client that has delivered nothing yet trains the usual E epochs and
does not count for max T.

Source: Li, Zeng, Zhang, Cao, "PyramidFL: a fine-grained client selection framework for efficient
federated learning", MobiCom 2022, as in liecn/PyramidFL@527b73e (lo 0.1, hi 0.6, beta 1; 0.5 in
its experiments). Differences: that code counts local steps where fleetsim asks for whole epochs,
ranks the K clients that it expects to finish first where here all chosen ones are ranked, takes
durations from profiles where here they are measured, shrinks the model's way down as well, and
drops whole tensors at random where here single entries at random stay behind
(`fleetsim.contracts.Cohort.upload_fraction`).

The server must know what Oort must, and of its cohort the updates and the times of the phases. No
probes. State: Oort's and six numbers a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fleetsim.contracts import (
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    Report,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.selectors.oort import OortOptions, OortSelector
from fleetsim.selectors.pyramidfl_equations import (
    dropout_fractions,
    durations_s,
    gradient_utilities,
    num_local_steps,
    ranks,
    step_ratios,
)

__all__ = [
    "PyramidFlSelector",
    "PyramidFlSettings",
    "dropout_fractions",
    "durations_s",
    "gradient_utilities",
    "num_local_steps",
    "ranks",
    "step_ratios",
]

_Dropout = Annotated[float, Field(ge=0.0, lt=1.0)]


class PyramidFlSettings(OortOptions):
    """Oort's clients; less important ones upload less, those who would wait train longer."""

    kind: Literal["pyramidfl"] = "pyramidfl"
    lowest_dropout: _Dropout = 0.1
    """Share of its update that the most important client does not upload (lo)."""
    highest_dropout: _Dropout = 0.6
    """Share that nobody quite reaches (hi)."""
    idle_share: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """Share of the epochs that fit into a client's waiting that it trains more (beta)."""

    @model_validator(mode="after")
    def _lowest_below_highest(self) -> Self:
        if self.lowest_dropout > self.highest_dropout:
            raise ValueError(
                f"lowest_dropout {self.lowest_dropout} is greater than "
                f"highest_dropout {self.highest_dropout}; make it at most that"
            )
        return self

    def build(self) -> PyramidFlSelector:
        """Selector with these settings."""
        return PyramidFlSelector(self)


class PyramidFlSelector:
    """Oort, and columns over the fleet [N]; seconds are NaN for who has not delivered yet."""

    needs_losses = True
    needs_probes = False

    def __init__(self, settings: PyramidFlSettings) -> None:
        self._settings = settings
        self._oort = OortSelector(settings)
        self._epochs = 1
        self._num_samples: IntArray = np.empty(0, dtype=np.int64)
        self._utility: FloatArray = np.empty(0)
        self._down_s: FloatArray = np.empty(0)
        self._epoch_s: FloatArray = np.empty(0)
        self._up_s: FloatArray = np.empty(0)
        self._asked_epochs: IntArray = np.empty(0, dtype=np.int64)
        self._asked_fraction: FloatArray = np.empty(0)

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Begin with utilities in proportion to samples and without times."""
        size = fleet.num_samples.size
        self._epochs = fleet.epochs
        self._num_samples = fleet.num_samples
        self._utility = fleet.num_samples.astype(np.float64)
        self._down_s = np.full(size, np.nan)
        self._epoch_s = np.full(size, np.nan)
        self._up_s = np.full(size, np.nan)
        self._asked_epochs = np.full(size, fleet.epochs, dtype=np.int64)
        self._asked_fraction = np.ones(size)
        return self._oort.setup(fleet)

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Ask for nothing."""
        return self._oort.probe(view)

    def select(self, view: RoundView) -> Cohort:
        """Oort's choice, with everybody's epochs and share of the update."""
        settings = self._settings
        chosen = self._oort.select(view)
        dropout = dropout_fractions(
            ranks(self._utility[chosen]),
            lowest=settings.lowest_dropout,
            highest=settings.highest_dropout,
        )
        epochs = self._num_epochs(chosen, dropout)
        self._asked_epochs[chosen] = epochs
        self._asked_fraction[chosen] = 1.0 - dropout
        return Cohort(chosen, epochs=epochs, upload_fraction=1.0 - dropout)

    def observe(self, outcome: RoundOutcome) -> None:
        """Note updates and times of those who delivered, and let Oort learn."""
        for report in outcome.reports:
            if report.is_delivered:
                self._note(report)
        self._oort.observe(outcome)

    def state(self) -> State:
        """Oort's columns and those of this class."""
        return self._oort.state() | {
            "gradient_utility": self._utility.copy(),
            "down_s": self._down_s.copy(),
            "epoch_s": self._epoch_s.copy(),
            "up_s": self._up_s.copy(),
            "asked_epochs": self._asked_epochs.copy(),
            "asked_fraction": self._asked_fraction.copy(),
        }

    def restore(self, state: State) -> None:
        """Take back what `state` gave."""
        self._oort.restore(state)
        self._utility = np.array(state["gradient_utility"], dtype=np.float64)
        self._down_s = np.array(state["down_s"], dtype=np.float64)
        self._epoch_s = np.array(state["epoch_s"], dtype=np.float64)
        self._up_s = np.array(state["up_s"], dtype=np.float64)
        self._asked_epochs = np.array(state["asked_epochs"], dtype=np.int64)
        self._asked_fraction = np.array(state["asked_fraction"], dtype=np.float64)

    def _num_epochs(self, chosen: IntArray, dropout: FloatArray) -> IntArray:
        epochs = np.full(chosen.size, self._epochs, dtype=np.int64)
        # Who computes in no time at all, as in worlds without devices, has nothing to fill.
        is_timed = self._epoch_s[chosen] > 0.0
        timed = chosen[is_timed]
        compute_s = self._epochs * self._epoch_s[timed]
        duration_s = self._down_s[timed] + durations_s(
            compute_s, self._up_s[timed], dropout[is_timed]
        )
        ratio = step_ratios(
            duration_s, compute_s, num_steps=self._epochs, beta=self._settings.idle_share
        )
        epochs[is_timed] = num_local_steps(ratio, self._epochs)
        return epochs

    def _note(self, report: Report) -> None:
        client = report.client
        # Fewer than asked for where the owner interrupted it.
        epochs = float(self._asked_epochs[client]) * report.completed_fraction
        if epochs == 0.0:
            return
        self._down_s[client] = report.download_s
        self._epoch_s[client] = report.compute_s / epochs
        self._up_s[client] = report.upload_s / self._asked_fraction[client]
        if report.vector is not None and report.base is not None:
            norm = float(np.linalg.norm(report.vector.astype(np.float64) - report.base))
            if np.isfinite(norm):
                num_trained = np.array([round(report.num_samples * epochs)])
                self._utility[client] = gradient_utilities(
                    np.array([norm]), self._num_samples[[client]], num_trained
                )[0]
