"""FedGRA: clients with the best grey relational grades of four metrics, chosen every five rounds.

A selection counts once for F, however many rounds it holds; F grows for all others, whether they
answered or not. A client without a complete answer (late, lost, without a finite loss or
divergence) is out. If no answer is complete, all candidates have the same grade.

Source: Chen, Tavallaie, Hambali, Zandavi, Haddadi, Lane, Guo, Zomaya, arXiv 2310.08147v3, equations
(1) to (17), Algorithm 2. Its experiments: 10 of 50 clients, rho 0.5, theta 0.9, t_select 5.
"""

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    FleetView,
    FloatArray,
    IntArray,
    Parameters,
    Report,
    RoundView,
)
from fleetsim.schema.ranges import Gain, PositiveFraction, Rounds
from fleetsim.selectors import probing
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.fedgra import equations
from fleetsim.selectors.fedgra.equations import Mapping, Overflow, Reset, Weighting
from fleetsim.selectors.tie_breaking import TieRule, available_in_order, tie_keys

_SCALAR_BYTE = 8
_Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class FedGRASettings(SelectorKind):
    """The best of four metrics at once, asked of all clients, with a turn for all."""

    demands: ClassVar[Demands] = {
        f"divergence_at: {place}": Demand(
            f"every 5 rounds of all clients: loss, {what} after an epoch, speed, memory",
            "private",
            f"the server is told the loss and {what} of single clients that it does not choose",
        )
        for place, what in (("server", "the model"), ("client", "the length of the update"))
    }

    selector = "FedGRASelector"
    kind: Literal["fedgra"] = "fedgra"
    every_rounds: Rounds = 5
    """Rounds from one selection to the next, in which the same clients train (t_select)."""
    distinguishing: PositiveFraction = 0.5
    """Distinguishing coefficient rho of the grey relational coefficients."""
    smoothing: _Fraction = 0.9
    """Weight theta of the newest answer in a client's processing power and memory."""
    fairness_increment: Gain = 1.0
    """Increment of the fairness F of a client that is not selected (f); inferred."""
    fairness_bound: Annotated[float, Field(gt=1.0, le=1e12)] = 6.0
    """Fairness from which a client must be selected (b): "minimum participation rounds 6"."""
    weighting: Weighting = "ewm"
    """Weight of a metric: its entropy weight, or the inverse as (16) is printed."""
    mapping: Mapping = "sum"
    """Denominator of (6, 7): max + min as printed, or max - min; the grades are the same."""
    overflow: Overflow = "capped"
    """Forced clients count towards those wanted (capped), or are added to all but one (printed)."""
    reset: Reset = "selection"
    """Event that resets a client's fairness: its selection, or already its marking."""
    divergence_at: Literal["server", "client"] = "server"
    """Place where the divergence is computed: the server, from the client's model and 24 byte, or
    the client, which sends 32 byte; the grades are the same."""
    ties: TieRule = "random"
    """Order among equal fairness and grades."""


class FedGRASelector(ConfiguredSelector[FedGRASettings]):
    """Selector with columns over the fleet [N]; `_set` holds the clients of the last selection."""

    needs_losses = True
    needs_probes = True
    state_fields = ("_fairness", "_is_forced", "_power", "_memory", "_set")

    def _begin(self, fleet: FleetView) -> None:
        self._fairness: FloatArray = np.ones(self._size)
        self._is_forced = np.zeros(self._size, dtype=np.bool_)
        self._power = np.full(self._size, np.nan)
        self._memory = np.full(self._size, np.nan)
        self._set: IntArray = np.empty(0, dtype=np.int64)
        self._is_choosing = False

    def _stages(self, view: RoundView) -> Stages:
        """Ask every candidate when a selection is due."""
        is_due = equations.is_selection_round(view.round, self._settings.every_rounds)
        self._is_choosing = is_due or not np.isin(self._set, view.candidates).any()
        if not self._is_choosing:
            return
        is_server = self._settings.divergence_at == "server"
        yield probing.requests(
            view.candidates,
            probing.ONE_EPOCH,
            upload_byte=(3 if is_server else 4) * _SCALAR_BYTE,
            uploads_vector=is_server,
            asks_resources=True,
        )

    def select(self, view: RoundView) -> IntArray:
        """Return the best by fairness and grade, or those of the set of the last selection."""
        if not self._is_choosing:
            return available_in_order(self._set, view.candidates, view.wanted)
        settings = self._settings
        answered, grade = self._graded(view)
        is_present = np.isin(answered, view.candidates)
        present, grade = answered[is_present], grade[is_present]
        if present.size == 0:
            present, grade = view.candidates, np.zeros(view.candidates.size)
        generator = rng.stream(self._fleet.seed, "select/fedgra", view.round)
        keys = tie_keys(settings.ties, self._size, generator)
        num = self._fleet.cohort if settings.overflow == "printed" else view.wanted
        places = equations.choose(
            grade,
            self._fairness[present],
            self._is_forced[present],
            num,
            keys[present],
            settings.overflow,
        )
        chosen = present[places][: view.wanted]
        if chosen.size:
            self._set = chosen
            self._fairness, self._is_forced = equations.fairness_after(
                self._fairness,
                self._mask(chosen),
                increment=settings.fairness_increment,
                bound=settings.fairness_bound,
                reset=settings.reset,
            )
        return chosen

    def _graded(self, view: RoundView) -> tuple[IntArray, FloatArray]:
        """Return ids and grades of the clients whose answer is complete [n], [n]."""
        rows = []
        reports = {report.client: report for report in view.reports if report.is_delivered}
        for client, report in sorted(reports.items()):
            reported = report.resources
            if report.loss is not None and reported is not None:
                free_byte = reported.free_ram_byte
                memory_byte = reported.ram_byte if free_byte is None else free_byte
                capacities = reported.flop_per_s, reported.load_fraction, memory_byte
                moved = _divergence(report, view.parameters)
                rows.append((client, report.loss, moved, *capacities))
        answers = np.array(rows, dtype=np.float64).reshape(-1, 6)
        whole = answers[np.isfinite(answers[:, 1:3]).all(axis=1)]
        loss, moved_by, flop_per_s, load, free_memory_byte = whole[:, 1:].T
        clients, theta = whole[:, 0].astype(np.int64), self._settings.smoothing
        power = equations.free_capacity(flop_per_s, load)
        self._power[clients] = equations.smoothed(power, self._power[clients], theta)
        self._memory[clients] = equations.smoothed(free_memory_byte, self._memory[clients], theta)
        losses = equations.loss_metric(loss[:, np.newaxis])
        metrics = [losses, moved_by, self._power[clients], self._memory[clients]]
        return clients, equations.grey_relational_grades(
            np.column_stack(metrics),
            rho=self._settings.distinguishing,
            weighting=self._settings.weighting,
            mapping=self._settings.mapping,
        )


def _divergence(report: Report, base: Parameters) -> float:
    """Return the distance of a client's model from the one sent to it; NaN if not reported."""
    if report.vector is not None:
        return float(equations.weight_divergence(base, [report.vector])[0])
    return math.nan if report.update_norm is None else report.update_norm
