"""Floating-point operations of training on one sample: by hand, and by torch."""

import math

import pytest

from benchmarks import flower_apps
from benchmarks.flop import training_flop
from benchmarks.own_models import NETWORKS, row
from fleetsim.contracts import SampleForm


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


def test_tables_hold_means_of_runs_and_medians_of_rounds():
    results = [
        result("fleetsim", 1, 0.8, [9.0, 1.0]),
        result("fleetsim", 2, 0.9, [2.0, 3.0]),
        result("flower", 1, 0.7, [4.0, 4.0]),
        result("flower", 2, 0.8, [5.0, 40.0]),
    ]

    rows = flower_apps.tables(results).splitlines()

    assert rows[2] == ("| app | 0.850 +- 0.071 | 0.750 +- 0.071 | -0.204 to +0.404 | 150 | 1.50 |")
    assert rows[6] == "| app | 2.50 | 4.50 | 15 | 15 | 8 | 8 |"


def test_two_digests_of_one_seed_are_refused():
    same = [result("fleetsim", 1, 0.8, [1.0]), result("fleetsim", 1, 0.8, [1.0], repeat=2)]
    flower_apps.check_repeated(same)

    with pytest.raises(ValueError, match="some/folder/app, seed 1: two digests"):
        flower_apps.check_repeated([*same, result("fleetsim", 1, 0.8, [1.0], digest="other")])
