"""Arithmetic of the benchmarks, on results whose figures can be computed by hand."""

import dataclasses
import math

import pytest

from benchmarks import flower_apps
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
from benchmarks.flop import training_flop
from benchmarks.own_models import NETWORKS, row
from benchmarks.page import render
from benchmarks.results import Result, Simulator
from fleetsim.contracts import SampleForm

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

    result = figures("flower", [PEER, slower, *failed])

    assert (result.round_s, result.num_runs) == (Spread(3.0, 2.0, 4.0), 2)
    assert result.errors == ("exit code 1: out of luck",)
    assert figures("flower", failed).round_s is None
    assert figures("flower", failed).memory_mib is None


def test_work_of_a_round_is_that_of_the_trainings_that_were_used():
    assert gflop_per_round([PEER, OURS]) == 2.0
    assert gflop_per_round([PEER]) is None


def test_the_simulator_costs_what_is_neither_training_nor_evaluation():
    # Round 2: 1.0 s of which .9 training; round 3: 2.0 s of which .3 evaluation, 1.5 training.
    cost = simulator_cost([OURS])

    assert cost is not None
    assert cost.round_ms.median == pytest.approx(150.0)
    assert cost.share.median == pytest.approx(0.3 / 2.7)
    assert cost.task_us.median == pytest.approx(15_000.0)
    assert cost.num_tasks == 10.0
    assert cost.num_steps == 600.0
    assert simulator_cost([PEER]) is None


SESSION = {
    "machine": {"processor": "A CPU", "cores": "2"},
    "versions": {"flower": {"flwr": "1.41.0", "torch": "2.13.0+cpu"}},
    "peaks": [{"mm_1": 100.0, "mm_2": 8.0, "onednn_2": 16.0}, {"mm_1": 90.0}],
}
FAILED = Result("w1", "flgo", 1, 3, error="exit code 1: RuntimeError: no luck")
W1 = [dataclasses.replace(OURS, accuracy=0.81), PEER, FAILED]


def test_equal_work_is_checked_by_the_final_accuracy():
    far = [dataclasses.replace(OURS, accuracy=0.9), PEER]

    assert "within 0.02 of fleetsim's" in render(W1, SESSION)
    assert "differs from fleetsim's by more than 0.02: Flower (-0.100)" in render(far, SESSION)


def test_logistic_regression_needs_a_product_forward_and_one_for_the_weights():
    assert training_flop("logistic", (60,), 10) == 2 * 2 * 60 * 10


def test_later_layers_need_a_third_product_for_their_inputs():
    first, second, third = 784 * 200, 200 * 200, 200 * 10

    assert training_flop("2nn", (1, 28, 28), 10) == 2 * (2 * first + 3 * second + 3 * third)


def test_so_do_later_convolutions():
    # Outputs x weights of an output: 5 x 5 kernels on 28 x 28 and 14 x 14 pixels.
    conv1, conv2 = 28 * 28 * 32 * 25, 14 * 14 * 64 * 32 * 25
    dense = 64 * 7 * 7 * 512 + 512 * 10

    assert training_flop("fedgra-cnn", (1, 28, 28), 10) == pytest.approx(
        2 * (2 * conv1 + 3 * conv2 + 3 * dense)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_row_has_a_proof_and_the_flop_of_torch(name: str) -> None:
    result = row(name, SampleForm((1, 24, 24), 4), batch_size=4, repeats=1)

    assert result["trainer"] != "serial" or result["reason"] == "none is faster for such a network"
    assert result["trainer"] == "serial" or result["reason"].startswith("equal to serial within ")
    assert result["flop"] == result["torch_flop"] > 0
    assert result["fast_s"] > 0.0
    assert result["serial_s"] > 0.0


def result(of, seed, accuracy, round_s, repeat=1, digest="d"):
    more = {"virtual_s": 100.0 * seed, "energy_j": 1000.0 * seed, "digest": digest}
    return {
        "app": "some/folder/app",
        "of": of,
        "seed": seed,
        "repeat": repeat,
        "accuracy": accuracy,
        "round_s": round_s,
        "process_s": 10.0 * seed,
        "cpu_s": 5.0 * seed,
        **(more if of == flower_apps.OURS else {}),
    }


def test_the_interval_of_a_difference_is_welchs():
    low, high = flower_apps.difference_interval([0.8, 0.9], [0.7, 0.8])

    # Variances of 0.005 with two runs each: standard error sqrt(0.005), two degrees of freedom.
    half = 4.302652729911275 * math.sqrt(0.005)
    assert [low, high] == pytest.approx([0.1 - half, 0.1 + half])
