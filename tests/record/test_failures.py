"""Failures of whole runs: each is found, names its cause and key, and a good run has none."""

import math
from typing import Any

import numpy as np
import pytest
from markupsafe import escape

from fleetsim import simulate
from fleetsim.errors import DivergenceError
from fleetsim.learning.aggregation.asynchronous import FedBuffSettings
from fleetsim.learning.aggregation.fedavg import FedAvgSettings
from fleetsim.record.failures import Baseline, RunHistory, failures
from fleetsim.record.saved_run import open_run
from fleetsim.report.pages import run_page, summary
from fleetsim.scenario import load

TEN_CLASSES = Baseline(accuracy=0.1, num_samples=900)
"""A constant answer that is clearly beaten from 0.1 + 3 sqrt(0.1 * 0.9 / 900) = 0.13 on."""
GOOD = (0.3, 0.5, 0.7, 0.8, 0.85, 0.88)
SMALL = ("fleet.size=10", "server.cohort=3", "server.over_commit=1.0", "server.deadline_s=null")
NAN, INF = math.nan, math.inf
ALL = ("delivered", "delivered")
LATE = ("late", "late")
REFUSED = ("refused", "refused")


def failures_of(accuracy=GOOD, loss=None, outcomes=None, aggregated=True, cohorts=None, **ending):
    """Failures of a run of two train tasks a round, with the outcomes and clients of each."""
    num_rounds = len(accuracy)
    outcomes = outcomes or [ALL] * num_rounds
    history = RunHistory(
        accuracy=np.array(accuracy, dtype=np.float64),
        loss=np.array(loss or [1.0] * num_rounds, dtype=np.float64),
        num_eligible=np.full(num_rounds, ending.pop("num_eligible", 8)),
        num_delivered=np.array([pair.count("delivered") for pair in outcomes]),
        aggregated=np.full(num_rounds, aggregated),
        task_round=np.repeat(np.arange(1, num_rounds + 1), 2),
        client=np.array(cohorts or [(n, n + 1) for n in range(num_rounds)]).ravel(),
        outcome=np.array(outcomes).ravel(),
    )
    usual: dict[str, Any] = {"baseline": TEN_CLASSES, "stop_rule": "rounds", "selector": "random"}
    return failures(history, stop_text="because", **usual | ending)


def lost(outcome: str) -> dict[str, object]:
    ended = [(outcome, outcome)] * 5 + [(outcome, "late")]
    return {"outcomes": ended, "aggregated": False, "baseline": None}


ONE_IN_100 = {"accuracy": [0.5] * 50, "outcomes": [("late", "delivered"), *[LATE] * 49]}
ENDED = {"accuracy": [0.5] * 12, "outcomes": [("delivered", "late")] * 6 + [REFUSED] * 6}
HALF, PAIRS = [0.5] * 30, [(3, 1), (1, 3)] * 15
SAME: dict[str, Any] = {"accuracy": HALF, "cohorts": PAIRS, "selector": "oort"}
NOTHING = "none of 12 train tasks in 6 round(s)"


@pytest.mark.parametrize(("made", "kind", "what", "cause"), [
    (lost("late"), "nothing_delivered", NOTHING, "server.deadline_s"),
    (lost("link"), "nothing_delivered", NOTHING, "fleet.channel"),
    (lost("cancelled"), "nothing_delivered", NOTHING, "stop.time_s"),
    (ONE_IN_100, "almost_nothing_delivered", "1 of 100 train tasks", "deadline"),
    (ENDED, "deliveries_ended", "After round 6", "100.0 % of them ended as refused"),
    ({"aggregated": False}, "nothing_aggregated", "never updated", "server.minimum_reports"),
    ({"accuracy": [0.1, 0.129]}, "nothing_learned", "12.9 %", "learning_rate"),
    ({"accuracy": [0.5, 0.8, 0.1]}, "unlearned", "from 80.0 % to 10.0 %", "diverged"),
    ({"loss": [NAN] + [1.0] * 5}, "loss_not_finite", "from round 1 on", "learning_rate"),
    ({"loss": [1.0] * 5 + [INF]}, "loss_not_finite", "from round 6 on", "learning_rate"),
    ({"accuracy": []}, "no_round", "No round", "because"),
    ({"stop_rule": "no_clients"}, "ended_early", "ended early", "because"),
    (SAME, "same_clients", "the same 2 client(s), of 8", "never tried others"),
])  # fmt: skip
def test_a_failure_names_its_cause_and_key(made, kind, what, cause):
    (failure,) = failures_of(**made)

    assert failure.kind == kind
    assert what in failure.what
    assert cause in failure.cause


@pytest.mark.parametrize("made", [
    {},
    {"accuracy": [0.5] * 40, "outcomes": [("delivered", "cancelled")] * 40},
    {"accuracy": [0.1, 0.131]},
    {"accuracy": [NAN, 0.5], "loss": [NAN, 1.0]},
    {"accuracy": [NAN, NAN], "loss": [NAN, NAN], "baseline": None},
    {name: SAME[name][:29] for name in SAME},
    SAME | {"num_eligible": 2},
    SAME | {"selector": "fixed"},
])  # fmt: skip
def test_a_run_that_went_well_has_no_failures(made):
    assert not failures_of(**made)


def test_the_baseline_is_the_share_of_the_most_frequent_label():
    assert Baseline.of(np.array([2, 0, 2, 1])) == Baseline(accuracy=0.5, num_samples=4)
    assert Baseline.of(np.array([[1, 1], [1, 0]])) == Baseline(accuracy=0.75, num_samples=4)


def test_terminal_page_and_manifest_tell_of_a_failure(tmp_path):
    changes = (*SMALL[:3], "server.deadline_s=0.001", "stop.rounds=2")
    done = simulate.run(load("quickstart", changes), out=tmp_path / "run", workers=1)
    reported, page = done.manifest.failures, run_page.write_report(done).read_text("utf-8")

    assert [failure.kind for failure in reported] == ["nothing_delivered", "nothing_learned"]
    assert "server.deadline_s" in reported[0].cause
    assert any("FAILED    Nothing was delivered" in line for line in summary.terminal_lines(done))
    for each in reported:
        assert f"<strong>{escape(each.what)}</strong> {escape(each.cause)}" in page


class Overflowing:
    """An aggregator whose second model is beyond 32-bit floats."""

    def __init__(self, *_settings, **_buffers) -> None:
        self.num_models = 0

    def aggregate(self, base, reports):
        self.num_models += 1
        model = base.copy()
        model[:3] = np.inf if self.num_models == 2 else 0.0
        return model

    def state(self):
        return {}

    def restore(self, state):
        pass


@pytest.mark.parametrize(("settings", "server"), [
    (FedAvgSettings, "server.minimum_reports=1"),
    (FedBuffSettings, "server={mode: buffered, concurrency: 2, buffer_size: 1}"),
])  # fmt: skip
def test_a_global_model_that_is_not_finite_ends_the_run(tmp_path, monkeypatch, settings, server):
    monkeypatch.setattr(settings, "build", Overflowing)
    changes = [*SMALL[:1], "stop.rounds=5", server]

    with pytest.raises(
        DivergenceError, match=r"3 of .* global model 2 are not .*server\.aggregator"
    ):
        simulate.run(load("quickstart", changes), out=tmp_path / "run", workers=1)
    manifest = open_run(tmp_path / "run").manifest
    assert (manifest.status, manifest.rounds) == ("failed", 1)
    assert "weights of global model 2" in (manifest.stop_text or "")
