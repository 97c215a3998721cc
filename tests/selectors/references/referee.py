"""Comparison of a selector with a plain reference, choice by choice."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fleetsim import rng
from fleetsim.contracts import Cohort, ProbeRequest, RoundOutcome, RoundView, Selector, WorkKind


class Reference:
    """Expected acts of a selector, from the equations of its paper in plain Python.

    It asks for nothing and learns nothing, unless a subclass does. One whose cohorts may have more
    than clients has a method `work` too: what each of a cohort is to do or to weigh, and what the
    selector answered.
    """

    probe_kind: WorkKind | None = None
    """Work of all probes, where it is always the same."""

    def __init__(self, settings: Any) -> None:
        self.s = settings

    def setup(self, fleet):
        self.fleet, self.seed = fleet, fleet.seed
        self.n = fleet.num_samples.tolist()
        self.begin()

    def begin(self) -> None:
        """Begin with the fleet."""

    def asked(self, view: RoundView) -> Any:
        """Return the requests expected at this stage."""
        return self.asked_first(view) if view.stage == 0 else []

    def asked_first(self, view: RoundView) -> Any:
        """Return the requests expected at the first stage, if there are none at later ones."""
        return []

    def made(self, requests: Sequence[ProbeRequest]) -> Any:
        """Return the requests made, in the form of `asked`."""
        assert self.probe_kind is None or all(r.work.kind is self.probe_kind for r in requests)
        return [request.client for request in requests]

    def choice(self, view: RoundView) -> list[int]:
        """Return the expected choice."""
        raise NotImplementedError

    def choice_like(self, view: RoundView, chosen: list[int]) -> list[int]:
        """Return the expected choice: where several are equally good, the chosen one."""
        return self.choice(view)

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn of a finished round."""

    def race(self, view: RoundView, address: str) -> np.ndarray:
        """Return exponential times of arrival of all clients in a round."""
        return rng.stream(self.seed, address, view.round).standard_exponential(len(self.n))


class Delegate:
    """A selector that leaves to another one what a subclass does not do itself."""

    def __init__(self, selector: Any) -> None:
        self.selector = selector

    def __getattr__(self, name: str) -> Any:
        return getattr(self.selector, name)


class Mismatch(NamedTuple):
    """First round in which selector and reference differ, and both answers."""

    round: int
    expected: Any
    actual: Any


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
        self._compare(view, self.reference.asked(view), self.reference.made(requests))
        return requests

    def select(self, view):
        answer = self.selector.select(view)
        cohort = answer if isinstance(answer, Cohort) else Cohort(answer)
        self.num_choices += 1
        chosen = cohort.clients.tolist()
        self._compare(view, self.reference.choice_like(view, chosen), chosen)
        if hasattr(self.reference, "work"):
            self._compare(view, *self.reference.work(view, cohort))
        return answer

    def observe(self, outcome):
        self.reference.observe(outcome)
        self.selector.observe(outcome)

    def _compare(self, view: RoundView, expected: Any, actual: Any) -> None:
        if expected != actual:
            self.mismatches.append(Mismatch(view.round, expected, actual))
