"""Opinions and beliefs of bandits in the tables."""

import pytest

from fleetsim.scenario import load
from fleetsim.selectors import build_selector
from fleetsim.simulate import run
from tests.selectors.delegate import Delegate


class Watched(Delegate):
    """A selector, what it was told, and the beliefs that went with its requests."""

    def __init__(self, selector):
        super().__init__(selector)
        self.opinions: dict[tuple[int, int], float] = {}
        self.beliefs: dict[tuple[int, int], float] = {}

    def probe(self, view):
        requests = self.selector.probe(view)
        for request in requests:
            if request.belief is not None:
                self.beliefs[view.round - 1, request.client] = request.belief
        return requests

    def select(self, view):
        for report in view.reports:
            if report.accuracy is not None:
                self.opinions[view.round - 1, report.client] = report.accuracy
        return self.selector.select(view)


@pytest.mark.parametrize(("kind", "has_beliefs"), [("quick-init-ucb", False), ("bp-ucb", True)])
def test_opinions_and_beliefs_are_those_of_the_selector(kind, has_beliefs, tmp_path):
    scenario = load(
        "quickstart",
        [
            f"server.selector={{kind: {kind}, slot_rounds: 2}}",
            *("task.partition={kind: iid}", "task.model.hidden=[8, 8]", "task.local.epochs=1"),
            "fleet={size: 6, devices: {jetson-nano-cpu: 1.0}, channel: {kind: fading}}",
            "server.cohort=2",
            "server.deadline_s=null",
            "stop.rounds=5",
        ],
    )
    watched = Watched(build_selector(scenario.server.selector))
    told = run(scenario, out=tmp_path / "run", workers=1, selector=watched).opinions()
    rows = list(zip(told["round"], told["client"], strict=True))

    # Everybody is asked after rounds 2 and 4.
    assert rows == [(round_, client) for round_ in (2, 4) for client in range(6)]
    assert dict(zip(rows, told["opinion"], strict=True)) == watched.opinions
    if has_beliefs:
        assert dict(zip(rows, told["belief"], strict=True)) == watched.beliefs
    else:
        assert told["belief"].isna().all()
        assert watched.beliefs == {}
