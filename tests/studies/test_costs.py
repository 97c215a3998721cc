"""Costs of made-up runs until targets, by hand."""

import numpy as np
import pandas as pd
import pytest

from fleetsim.record.measures.cost_to_target import first_reached
from fleetsim.studies.costs import costs, ledgers
from fleetsim.studies.settings import WHOLE_RUN, Budgets, Target
from tests.report.made_runs import MadeUp, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("made") / "run", MadeUp(num_rounds=8))


def test_a_cost_is_that_of_the_round_that_reached_the_target(run):
    accuracy = run.rounds["accuracy"]
    target = float(accuracy.iloc[3])
    row = run.rounds[accuracy >= target].iloc[0]

    result = {cost.metric: cost for cost in costs(run, [Target(accuracy=target)], None, None)}

    assert result["rounds"].cost == row["round"]
    assert result["seconds"].cost == run.time_to_accuracy(target)
    assert result["joules"].cost == run.energy_to_accuracy(target)
    assert all(cost.is_reached for cost in result.values())


def test_a_run_that_never_reaches_a_target_costs_what_it_spent(run):
    last = run.rounds.iloc[-1]

    result = {cost.metric: cost for cost in costs(run, [Target(accuracy=1.0)], None, None)}

    assert result["seconds"].cost == last["finished_at_s"]
    assert result["joules"].cost == last["energy_total_j"]
    assert not any(cost.is_reached for cost in result.values())


def test_beyond_a_budget_a_run_counts_as_ended(run):
    target = Target(accuracy=float(run.rounds["accuracy"].max()))
    spent_s = run.time_to_accuracy(target.accuracy)

    result = {
        cost.metric: cost
        for cost in costs(run, [target], None, Budgets(time_s=spent_s / 2, energy_j=1e12))
    }

    assert (result["seconds"].cost, result["seconds"].is_reached) == (spent_s / 2, False)
    assert result["joules"].is_reached
    assert result["rounds"].is_reached


def test_a_ledger_adds_up_to_the_joules_until_the_target(run):
    targets = [Target(accuracy=float(run.rounds["accuracy"].iloc[3])), Target(accuracy=1.0)]
    of_costs = {
        cost.target: cost.cost
        for cost in costs(run, targets, None, None)
        if cost.metric == "joules"
    }

    sums_j = ledgers(run, targets).groupby("target")["energy_j"].sum()

    assert sums_j.to_dict() == pytest.approx(of_costs)
    assert sums_j[targets[0].label] < sums_j[targets[1].label]


def test_client_updates_are_those_that_the_server_received(run):
    target = Target(accuracy=float(run.rounds["accuracy"].iloc[3]))
    last = run.rounds["round"] <= run.rounds_to_accuracy(target.accuracy)

    result = {cost.metric: cost for cost in costs(run, [target], None, None)}

    assert (
        result["client updates"].cost
        == run.tasks.merge(run.rounds[last], on="round")
        .eval("outcome == 'delivered' and purpose == 'train'")
        .sum()
    )


def test_without_targets_the_whole_run_counts(run):
    result = list(costs(run, [], None, None))

    assert {cost.target for cost in result} == {WHOLE_RUN}
    assert result[0].cost == 8.0
    assert all(cost.is_reached for cost in result)


def test_a_smoothed_target_is_reached_by_the_mean_of_evaluated_rounds():
    nan = np.nan
    rounds = pd.DataFrame({"accuracy": [0.2, nan, 0.8, 0.4, nan, 0.6, 0.9]})

    # Means of 2 evaluated rounds: (.2 + .8) / 2 = .5 at row 2, .6 at 3, .5 at 5, .75 at 6.
    assert first_reached(rounds, 0.55, smooth_rounds=2) == 3
    assert first_reached(rounds, 0.7, smooth_rounds=2) == 6
    assert first_reached(rounds, 0.7) == 2
    assert first_reached(rounds, 0.8, smooth_rounds=2) is None
    assert first_reached(rounds, 0.1, smooth_rounds=6) is None
    # A mean that equals the target reaches it.
    level = pd.DataFrame({"accuracy": [0.75] * 5 + [0.85] * 5})
    assert first_reached(level, 0.8, smooth_rounds=10) == 9
