"""Comparison of a selector with a plain reference, choice by choice."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fleetsim.contracts import (
    Cohort,
    FleetView,
    ProbeRequest,
    Report,
    RoundOutcome,
    RoundView,
    Selector,
)
from tests.selectors.delegate import Delegate


class Reference:
    """Expected acts of a selector, from the equations of its paper in plain Python.

    It asks for nothing and learns nothing, unless a subclass does. One whose cohorts may say more
    than their clients has a method `work` too: what each of a cohort is to do or to weigh, and what
    the selector says.
    """

    def setup(self, fleet: FleetView) -> None:
        """Learn of the fleet."""
        raise NotImplementedError

    def asked(self, view: RoundView, requests: Sequence[ProbeRequest]) -> Any:
        """Return the requests expected at this stage, and those made; equal if all is well."""
        return [], clients_of(requests)

    def choice(self, view: RoundView, chosen: list[int]) -> Any:
        """Return the expected choice, and that made; equal if all is well."""
        raise NotImplementedError

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""


class Mismatch(NamedTuple):
    """First round in which selector and reference differ, and both answers."""

    round: int
    expected: Any
    found: Any


class Refereed(Delegate):
    """Selector that stores the choices in which it differs from the reference."""

    def __init__(self, selector: Selector, reference: Reference) -> None:
        super().__init__(selector)
        self.reference = reference
        self.num_choices = 0
        self.mismatches: list[Mismatch] = []

    def setup(self, fleet):
        self.reference.setup(fleet)
        return self.selector.setup(fleet)

    def probe(self, view):
        requests = self.selector.probe(view)
        self._compare(view, *self.reference.asked(view, requests))
        return requests

    def select(self, view):
        answer = self.selector.select(view)
        cohort = answer if isinstance(answer, Cohort) else Cohort(answer)
        self.num_choices += 1
        self._compare(view, *self.reference.choice(view, cohort.clients.tolist()))
        if hasattr(self.reference, "work"):
            self._compare(view, *self.reference.work(view, cohort))
        return answer

    def observe(self, outcome):
        self.reference.observe(outcome)
        self.selector.observe(outcome)

    def _compare(self, view: RoundView, expected: Any, found: Any) -> None:
        if expected != found:
            self.mismatches.append(Mismatch(view.round, expected, found))


def told_loss(report: Report, epochs: str) -> float | None:
    """Mean loss of the last, the first or all local epochs, where it was told and is finite."""
    if not report.is_delivered or report.loss is None:
        return None
    told = report.epoch_losses or (report.loss,)
    losses = {"first_epoch": told[:1], "last_epoch": told[-1:], "all_epochs": told}[epochs]
    loss = sum(losses) / len(losses)
    return loss if math.isfinite(loss) else None


def clients_of(requests: Sequence[ProbeRequest]) -> list[int]:
    return [request.client for request in requests]
