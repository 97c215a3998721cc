"""Selectors that watch another one."""

from typing import Any

from fleetsim.contracts import Cohort, ProbeRequest, Report, RoundView


class Delegate:
    """A selector that leaves to another one what a subclass does not do itself."""

    def __init__(self, selector: Any) -> None:
        self.selector = selector

    def __getattr__(self, name: str) -> Any:
        return getattr(self.selector, name)


class Watched(Delegate):
    """A selector, what it asked and chose, and what it was told."""

    def __init__(self, selector: Any) -> None:
        super().__init__(selector)
        self.requests: list[tuple[int, ProbeRequest]] = []
        """Each with its round."""
        self.views: list[RoundView] = []
        self.chosen: list[list[int]] = []
        self.reports: list[Report] = []
        """Of trainings."""

    def probe(self, view):
        requests = self.selector.probe(view)
        self.requests += [(view.round, request) for request in requests]
        return requests

    def select(self, view):
        self.views.append(view)
        answer = self.selector.select(view)
        self.chosen.append((answer.clients if isinstance(answer, Cohort) else answer).tolist())
        return answer

    def observe(self, outcome):
        self.reports += outcome.reports
        self.selector.observe(outcome)
