"""Failures of whole runs: each is found, names its cause and key, and a good run has none."""

import math

import numpy as np
import pytest

from fleetsim import simulate
from fleetsim.errors import DivergenceError
from fleetsim.learning.aggregation.asynchronous import FedBuffSettings
from fleetsim.learning.aggregation.fedavg import FedAvgSettings
from fleetsim.record.failures import Baseline, RunHistory, failures
from fleetsim.record.saved_run import open_run
from fleetsim.report.pages import run_page, terminal_summary
from fleetsim.scenario import load

TEN_CLASSES = Baseline(accuracy=0.1, num_samples=900)
"""A constant answer that is clearly beaten from 0.1 + 3 sqrt(0.1 * 0.9 / 900) = 0.13 on."""
GOOD = (0.3, 0.5, 0.7, 0.8, 0.85, 0.88)
SMALL = ("fleet.size=10", "server.cohort=3", "server.over_commit=1.0", "server.deadline_s=null")


def history(
    accuracy=GOOD, *, loss=None, outcomes=None, aggregated=True, cohorts=None, num_eligible=8
) -> RunHistory:
    """A run of two train tasks a round; `outcomes` of each round, `cohorts` by round."""
    num_rounds = len(accuracy)
    outcomes = outcomes or [("delivered", "delivered")] * num_rounds
    cohorts = cohorts or [(n, n + 1) for n in range(num_rounds)]
    return RunHistory(
        accuracy=np.array(accuracy, dtype=np.float64),
        loss=np.array(loss or [1.0] * num_rounds, dtype=np.float64),
        num_eligible=np.full(num_rounds, num_eligible),
        num_delivered=np.array([pair.count("delivered") for pair in outcomes]),
        aggregated=np.full(num_rounds, aggregated),
        task_round=np.repeat(np.arange(1, num_rounds + 1), 2),
        client=np.array(cohorts).ravel(),
        outcome=np.array(outcomes).ravel(),
    )


def found(made: RunHistory, *, baseline=TEN_CLASSES, stop_rule="rounds", selector="random"):
    told = failures(
        made, baseline=baseline, stop_rule=stop_rule, stop_text="because", selector=selector
    )
    return {failure.kind: failure for failure in told}


@pytest.mark.parametrize(
    ("outcome", "key"),
    [("late", "server.deadline_s"), ("link", "fleet.channel"), ("cancelled", "stop.time_s")],
)
def test_nothing_delivered_names_the_key_of_the_most_frequent_outcome(outcome, key):
    ended = [(outcome, outcome)] * 5 + [(outcome, "late")]
    told = found(history(outcomes=ended, aggregated=False), baseline=None)

    assert set(told) == {"nothing_delivered"}
    assert "none of 12 train tasks in 6 round(s)" in told["nothing_delivered"].what
    assert key in told["nothing_delivered"].cause


def test_one_delivery_in_a_hundred_is_almost_nothing():
    ended = [("late", "delivered" if n == 0 else "late") for n in range(50)]
    told = found(history([0.5] * 50, outcomes=ended))

    assert set(told) == {"almost_nothing_delivered"}
    assert "1 of 100 train tasks" in told["almost_nothing_delivered"].what
    # Those that the server cancels do not count.
    assert found(history([0.5] * 40, outcomes=[("delivered", "cancelled")] * 40)) == {}


def test_deliveries_that_end_half_way_are_reported_with_the_cause_from_then_on():
    ended = [("delivered", "late")] * 6 + [("refused", "refused")] * 6
    told = found(history([0.5] * 12, outcomes=ended))

    assert set(told) == {"deliveries_ended"}
    assert "After round 6" in told["deliveries_ended"].what
    assert "100.0 % of them ended as refused" in told["deliveries_ended"].cause


def test_too_few_answers_in_every_round_name_minimum_reports():
    told = found(history(aggregated=False), baseline=None)

    assert set(told) == {"nothing_aggregated"}
    assert "server.minimum_reports" in told["nothing_aggregated"].cause


@pytest.mark.parametrize(("best", "kinds"), [(0.129, {"nothing_learned"}), (0.131, set())])
def test_accuracy_at_chance_is_nothing_learned(best, kinds):
    assert set(found(history([0.1, 0.08, best, best]))) == kinds


def test_an_accuracy_that_falls_back_to_chance_is_lost():
    told = found(history([0.5, 0.8, 0.1]))

    assert set(told) == {"unlearned"}
    assert "from 80.0 % to 10.0 %" in told["unlearned"].what


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_diverged(broken):
    told = found(history([0.5, math.nan, 0.1], loss=[1.0, math.nan, broken]))

    assert set(told) == {"loss_not_finite"}
    assert "from round 3 on" in told["loss_not_finite"].what
    assert "learning_rate" in told["loss_not_finite"].cause


def test_a_good_run_has_no_failures_nor_have_rounds_that_were_not_evaluated():
    assert found(history()) == {}
    assert found(history([math.nan, 0.5], loss=[math.nan, 1.0])) == {}
    assert found(history([math.nan, math.nan], loss=[math.nan, math.nan]), baseline=None) == {}


@pytest.mark.parametrize(
    ("rounds", "num_eligible", "selector", "kinds"),
    [
        (30, 8, "oort", {"same_clients"}),
        (29, 8, "oort", set()),
        (30, 2, "oort", set()),
        (30, 8, "fixed", set()),
    ],
)
def test_a_selector_that_never_tries_others_is_reported(rounds, num_eligible, selector, kinds):
    cohorts = [(3, 1), (1, 3)] * (rounds // 2) + [(1, 3)] * (rounds % 2)
    made = history([0.5] * rounds, cohorts=cohorts, num_eligible=num_eligible)

    assert set(found(made, selector=selector)) == kinds


def test_a_run_without_a_round_and_one_that_ran_out_of_clients_say_why():
    nothing = history([], loss=[], outcomes=[], cohorts=[(0, 0)][:0])

    assert found(nothing)["no_round"].cause.startswith("because")
    assert found(history(), stop_rule="no_clients")["ended_early"].cause == "because"


def test_the_baseline_is_the_share_of_the_most_frequent_label():
    assert Baseline.of(np.array([2, 0, 2, 1])) == Baseline(accuracy=0.5, num_samples=4)
    assert Baseline.of(np.array([[1, 1], [1, 0]])) == Baseline(accuracy=0.75, num_samples=4)


def test_terminal_page_and_manifest_tell_of_a_failure(tmp_path):
    changes = (*SMALL[:3], "server.deadline_s=0.001", "stop.rounds=2")
    done = simulate.run(load("quickstart", changes), out=tmp_path / "run", workers=1)
    told = done.manifest.failures

    assert [failure.kind for failure in told] == ["nothing_delivered", "nothing_learned"]
    assert "server.deadline_s" in told[0].cause
    assert any("FAILED    Nothing was delivered" in line for line in terminal_summary.lines(done))
    assert list(run_page._banners(done)) == [(failure.what, failure.cause) for failure in told]


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


@pytest.mark.parametrize(
    ("settings", "server"),
    [
        (FedAvgSettings, "server.minimum_reports=1"),
        (FedBuffSettings, "server={mode: buffered, concurrency: 2, buffer_size: 1}"),
    ],
)
def test_a_global_model_that_is_not_finite_ends_the_run(tmp_path, monkeypatch, settings, server):
    monkeypatch.setattr(settings, "build", Overflowing)
    changes = [*SMALL[:1], "stop.rounds=5", server]

    with pytest.raises(
        DivergenceError, match=r"3 of .* weights of global model 2 are not .*server\.aggregator"
    ):
        simulate.run(load("quickstart", changes), out=tmp_path / "run", workers=1)
    manifest = open_run(tmp_path / "run").manifest
    assert (manifest.status, manifest.rounds) == ("failed", 1)
    assert "weights of global model 2" in (manifest.stop_text or "")
