"""RBCS-F: short exchange times, learned per client, with a guaranteed share of rounds for all.

Queues of absent clients are updated, too. beta N must not exceed the cohort, or no server could
keep the guarantee. A client that reports no link or no free processor cannot be chosen. If no
client answered, the longest queues among the candidates are (a rule of fleetsim's).

Source: Huang, Lin, Wu, He, Li, Zomaya, IEEE TPDS 32(7), 2021 (arXiv 2011.01783), by a students'
re-implementation, whose numbers are the defaults; its V are 5, 10, 20 and 50.
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
from fleetsim.errors import ScenarioError
from fleetsim.schema.ranges import Gain, Weight
from fleetsim.selectors import probing
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.rbcs_f import equations
from fleetsim.selectors.rbcs_f.equations import NUM_FEATURES
from fleetsim.selectors.tie_breaking import TieRule, tie_keys
from fleetsim.units import BIT_PER_BYTE

_ANSWER_BYTE = 16
"""Free share of the processor and the rate up."""


class RBCSFSettings(SelectorKind):
    """Short exchange times, learned per client, with a guaranteed share of rounds for all."""

    demands: ClassVar[Demands] = {
        "": Demand(
            "free processor and link of all clients, as they say; durations of its cohorts; size of"
            " the model",
            "yes",
            "answers are of the device; all candidates are asked before each choice",
        )
    }

    selector = "RBCSFSelector"
    kind: Literal["rbcs-f"] = "rbcs-f"
    guaranteed_fraction: Annotated[float, Field(ge=0.0, le=1.0)] = 0.15
    """Least share of rounds in which each client shall be selected (beta); at most K / N."""
    penalty: Weight = 10.0
    """Price V of a second of the slowest client, against the rounds in queues; the source tries 5
    to 50."""
    confidence: Weight = 0.1
    """Width alpha of the confidence interval of an exchange time."""
    ridge: Gain = 1.0
    """Ridge lambda of the regression."""
    ties: TieRule = "random"
    """Order among equal queues."""


class RBCSFSelector(ConfiguredSelector[RBCSFSettings]):
    """Selector with queues [N] and regressions [N, 3, 3] and [N, 3].

    `_context` holds the contexts of the present round.
    """

    needs_probes = True
    state_fields = ("_queue", "_gram", "_moment", "_took_part")

    def _begin(self, fleet: FleetView) -> None:
        try:
            equations.require_guarantee(
                self._settings.guaranteed_fraction, self._size, fleet.cohort
            )
        except ValueError as fault:
            raise ScenarioError(f"server.selector: {fault}") from fault
        self._queue: FloatArray = np.zeros(self._size)
        self._gram, self._moment = equations.initial_estimate(self._size, self._settings.ridge)
        self._took_part = np.zeros(self._size, dtype=np.bool_)
        self._context: FloatArray = np.full((self._size, NUM_FEATURES), np.nan)

    def _stages(self, view: RoundView) -> Stages:
        """Ask every candidate for its resources, once for each choice."""
        yield probing.resource_requests(view.candidates, _ANSWER_BYTE)

    def select(self, view: RoundView) -> IntArray:
        """Return the set of the least cost, longest queue first."""
        self._take_in(view)
        is_known = np.isfinite(self._context[view.candidates]).all(axis=1)
        present = view.candidates[is_known]
        exchange_s = equations.estimated_exchange_s(
            self._gram[present],
            self._moment[present],
            self._context[present],
            self._settings.confidence,
        )
        if present.size == 0:
            present = view.candidates
            exchange_s = np.zeros(present.size)
        generator = rng.stream(self._fleet.seed, "select/rbcs-f", view.round)
        keys = tie_keys(self._settings.ties, self._size, generator)[present]
        chosen = equations.choose(
            self._queue[present], exchange_s, view.wanted, keys, self._settings.penalty
        )
        return present[chosen]

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn the exchange times of the clients that delivered, and update the queues."""
        reported = [
            report
            for report in outcome.reports
            if report.is_delivered and np.isfinite(self._context[report.client]).all()
        ]
        clients = np.array([report.client for report in reported], dtype=np.int64)
        exchange_s = np.array([report.duration_s for report in reported], dtype=np.float64)
        self._gram, self._moment = equations.with_exchanges(
            self._gram, self._moment, clients, self._context[clients], exchange_s
        )
        self._took_part = self._mask(outcome.selected)
        self._queue = equations.queues_after(
            self._queue, self._took_part, self._settings.guaranteed_fraction
        )

    def _take_in(self, view: RoundView) -> None:
        """Store the contexts of the clients that answered; NaN for all others."""
        clients, told = probing.resources(view.reports)
        # With a link and some processor at this moment.
        is_able = (told["up_bit_per_s"] > 0.0) & (told["load_fraction"] < 1.0)
        able = clients[is_able]
        self._context = np.full((self._size, NUM_FEATURES), np.nan)
        self._context[able] = equations.contexts(
            1.0 - told["load_fraction"][is_able],
            self._took_part[able],
            float(self._fleet.payload_byte * BIT_PER_BYTE),
            told["up_bit_per_s"][is_able],
        )
