"""Opinions and beliefs of bandits in the tables."""

import pytest

from fleetsim.scenario import load
from fleetsim.selectors import build_selector
from fleetsim.simulate import run
from tests.selectors.delegate import Watched


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
    opinions = run(scenario, out=tmp_path / "run", workers=1, selector=watched).opinions()
    rows = list(zip(opinions["round"], opinions["client"], strict=True))

    # Everybody is asked after rounds 2 and 4.
    assert rows == [(round_, client) for round_ in (2, 4) for client in range(6)]
    assert dict(zip(rows, opinions["opinion"], strict=True)) == {
        (view.round - 1, report.client): report.accuracy
        for view in watched.views
        for report in view.reports
        if report.accuracy is not None
    }
    beliefs = {
        (round_ - 1, request.client): request.belief
        for round_, request in watched.requests
        if request.belief is not None
    }
    if has_beliefs:
        assert dict(zip(rows, opinions["belief"], strict=True)) == beliefs
    else:
        assert opinions["belief"].isna().all()
        assert beliefs == {}
