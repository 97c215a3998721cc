"""Arithmetic of the benchmarks, on results whose figures can be computed by hand."""

import dataclasses

import pytest

from benchmarks.figures import (
    Spread,
    cores_used,
    figures,
    gflop_per_round,
    peak_memory_mib,
    round_durations_s,
    seconds_per_round,
    simulator_cost,
)
from benchmarks.results import Result, Simulator

PEER = Result(
    work="w1",
    contestant="flower",
    repeat=1,
    rounds=4,
    started_at_s=100.0,
    ended_at_s=120.0,
    began_at_s=103.0,
    round_ended_at_s=(108.0, 109.0, 111.0, 114.0),
    accuracy=0.8,
    samples=(
        (101.0, 50.0, 0.5),
        (108.0, 200.0, 4.0),
        (110.0, 300.0, 8.0),
        (112.0, 250.0, 11.0),
        (114.0, 100.0, 13.0),
        (119.0, 900.0, 14.0),
    ),
)
OURS = Result(
    work="w1",
    contestant="fleetsim",
    repeat=1,
    rounds=3,
    began_at_s=10.0,
    round_ended_at_s=(12.0, 13.0, 15.0),
    simulator=Simulator(
        training_s=(1.5, 2.4, 3.9),
        evaluation_s=(0.0, 0.0, 0.3),
        num_steps=(600, 1200, 1800),
        num_tasks=30,
        used_flop=6e9,
        trainer="StackedTrainer",
    ),
)


def test_numbers_of_a_run_by_hand():
    one = dataclasses.replace(PEER, round_ended_at_s=(108.0,))
    too_few = dataclasses.replace(PEER, samples=PEER.samples[:4])

    # From the end of a round to the end of the next, without the evaluation.
    assert round_durations_s(PEER) == [5.0, 1.0, 2.0, 3.0]
    assert round_durations_s(OURS) == pytest.approx([2.0, 1.0, 1.7])
    # The median without the first round, unless it is the only one.
    assert (seconds_per_round(PEER), seconds_per_round(one)) == (2.0, 5.0)
    assert peak_memory_mib(PEER, until_s=114.0) == 300.0
    assert peak_memory_mib(PEER, until_s=120.0) == 900.0
    # Processor time over wall time of the rounds after the first.
    assert cores_used(PEER) == pytest.approx((13.0 - 4.0) / 6.0)
    assert cores_used(too_few) is None


def test_figures_span_the_repeats_and_keep_every_error_once():
    slower = dataclasses.replace(PEER, repeat=2, round_ended_at_s=(108.0, 112.0, 116.0, 120.0))
    failed = [Result("w1", "flower", n, 4, error="exit code 1: out of luck") for n in (3, 4)]

    result = figures([PEER, slower, *failed])

    assert result.round_s == Spread(3.0, 2.0, 4.0)
    assert result.errors == ("exit code 1: out of luck",)
    assert figures(failed).round_s is None
    assert figures(failed).memory_mib is None


def test_work_of_a_round_is_that_of_the_trainings_that_were_used():
    assert gflop_per_round([PEER, OURS]) == 2.0
    assert gflop_per_round([PEER]) is None


def test_the_simulator_costs_what_is_neither_training_nor_evaluation():
    # Round 2: 1.0 s of which .9 training; round 3: 2.0 s of which .3 evaluation, 1.5 training.
    cost = simulator_cost([OURS])

    assert cost is not None
    assert cost.round_ms.median == pytest.approx(150.0)
    assert cost.share == pytest.approx(0.3 / 2.7)
    assert cost.task_us.median == pytest.approx(15_000.0)
    assert cost.num_tasks == 10.0
    assert cost.num_steps == 600.0
    assert simulator_cost([PEER]) is None
