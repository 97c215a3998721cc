"""Aggregators of the user's own beside privacy and secure aggregation, which show sums alone."""

import numpy as np
import pytest

import fleetsim
from fleetsim.errors import ScenarioError

SECURE = {"server.secure_aggregation": {"kind": "secagg"}, "server.selector": {"kind": "random"}}
PRIVATE = {
    "server.privacy": {"clip_norm": 1.0, "noise_multiplier": 0.5, "delta": 0.001},
    "server.selector": {"kind": "random"},
}


class Mean:
    sees_single_updates = False

    def aggregate(self, base, reports):
        return np.mean([report.vector for report in reports], axis=0)


class Median:
    def aggregate(self, base, reports):
        return np.median([report.vector for report in reports], axis=0)


def run(**how):
    return fleetsim.run("small.yaml", **{"progress": False, "workers": 1, **how})


@pytest.fixture(autouse=True)
def small(own_module):
    own_module("")


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, SECURE, PRIVATE], ids=["plain", "secure", "private"])
def test_one_that_says_so_has_the_models_of_fleetsim_s_mean(changes):
    uniform = {"server.aggregator": {"kind": "fedavg", "weights": "uniform"}}
    if changes is PRIVATE:
        pytest.importorskip("dp_accounting", reason="needs the extra fleetsim[privacy]")
    mine = run(aggregator=Mean, overrides=changes, out="mine")
    theirs = run(overrides={**changes, **uniform}, out="theirs")

    assert mine.rounds.loss.tolist() == pytest.approx(theirs.rounds.loss.tolist(), rel=1e-4)


@pytest.mark.parametrize("changes", [SECURE, PRIVATE], ids=["secure", "private"])
def test_any_other_is_refused_with_the_way_out(changes):
    with pytest.raises(ScenarioError, match="or set sees_single_updates = False in it") as fault:
        run(aggregator=Median, overrides=changes, out="none")
    (line,) = fault.value.faults

    assert "sees single updates" in line
    with pytest.raises(ScenarioError, match="use fedavg or") as theirs:
        run(overrides={**changes, "server.aggregator": {"kind": "median"}}, out="none")
    assert "sees_single_updates" not in theirs.value.faults[0]


@pytest.mark.slow
def test_an_object_may_say_so_itself():
    class Says(Median):
        def __init__(self, sees_single_updates):
            self.sees_single_updates = sees_single_updates

    assert len(run(aggregator=Says(False), overrides=SECURE, out="run").rounds) == 4
    with pytest.raises(ScenarioError, match="sees single updates"):
        run(aggregator=Says(True), overrides=SECURE, out="none")
