"""Sections of devices, against sums by hand."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from fleetsim.fleet.devices.profile import load_device
from fleetsim.validation import launches, measurements, other_phones, peak_memory, phones
from fleetsim.validation.devices import board_training


def assert_minimum(squares: Callable[[np.ndarray], float], found: np.ndarray) -> None:
    """A hundredth more or less of any figure fits worse."""
    least = squares(found)
    for index, factor in itertools.product(range(found.size), (0.99, 1.01)):
        figures = found.copy()
        figures[index] *= factor
        assert squares(figures) > least


@pytest.mark.slow
def test_the_fit_is_a_minimum_of_squared_relative_errors() -> None:
    measured_s = phones.times()["batch_s"]

    def squares(figures: np.ndarray) -> float:
        said = phones.model_s(phones.as_fitted(*figures.tolist()))
        return float(((said / measured_s - 1.0) ** 2).sum())

    assert_minimum(squares, np.array(phones.fit()))


@pytest.mark.parametrize("board", ["jetson-nano", "jetson-agx-xavier"])
def test_the_fit_of_a_boards_layers_is_a_minimum_and_the_files_carry_it(board: str) -> None:
    found = launches.fit(board)
    figures = np.linalg.lstsq(found.terms, found.model_s, rcond=None)[0]

    def squares(figures: np.ndarray) -> float:
        return float(((found.terms @ figures / found.measured_s - 1.0) ** 2).sum())

    assert figures[0] == pytest.approx(found.layer_s, rel=1e-6)
    assert_minimum(squares, figures[:3])
    device = {"jetson-nano": "jetson-nano-gpu", "jetson-agx-xavier": "jetson-xavier-nx"}[board]
    assert load_device(device).compute.layer_s == pytest.approx(3 * found.layer_s, rel=0.01)


@pytest.mark.slow
def test_the_memory_fit_is_a_minimum_of_squared_relative_errors() -> None:
    measured = measurements.table("mnn-memory")["resident_mib"]
    found = peak_memory.fit()

    def squares(engine) -> float:
        return float(((peak_memory.needed_mib(engine) / measured - 1.0) ** 2).sum())

    for key in ("base_byte", "state_factor", "sample_factor", "unfolded_factor"):
        for factor in (0.99, 1.01):
            other = dataclasses.replace(found, **{key: getattr(found, key) * factor})
            assert squares(other) > squares(found)


# GMAC of a forward pass and million parameters as torchvision's and timm's model tables have them.
@pytest.mark.parametrize(
    ("network", "gmac", "mparam"),
    [
        ("resnet18", 1.81, 11.7),
        ("resnet50", 4.09, 25.6),
        ("mobilenetv2_100", 0.30, 3.5),
        ("mobilenetv3_small_100", 0.06, 2.5),
        ("mobilenetv3_large_100", 0.22, 5.5),
        ("vit_tiny", 1.26, 5.7),
        ("vit_base", 17.56, 86.6),
        ("convnext_tiny", 4.46, 28.6),
        ("efficientnet_b0", 0.39, 5.3),
        ("mnasnet_100", 0.31, 4.4),
    ],
)
def test_the_networks_of_the_boards_have_their_published_sizes(network, gmac, mparam) -> None:
    for cost in board_training.costs(board_training.times().query("network == @network")):
        assert sum(cost.forward_flop.values()) / 2e9 == pytest.approx(gmac, abs=0.0075)
        assert cost.num_parameters / 1e6 == pytest.approx(mparam, abs=0.06)


def test_the_files_of_the_pis_carry_the_least_squares_of_the_logarithms() -> None:
    points, found = board_training.times(), np.array(board_training.fit())

    def squares(figures: np.ndarray) -> float:
        said = board_training.model_s(points, board_training.as_fitted(*figures.tolist()))
        return float((np.log(said / points["batch_s"]) ** 2).sum())

    assert_minimum(squares, found)
    pi4, pi5 = board_training.shipped().values()
    assert pi4.phi == pi5.phi
    assert found == pytest.approx(
        [pi4.conv_flop_per_s, pi5.conv_flop_per_s, pi4.phi["depthwise"], pi4.phi["gemm"]], rel=0.01
    )


def test_scaling_by_latency_takes_the_ratio_of_latencies() -> None:
    """Note10 179 ms of FEMNIST x 264 / 105 ms = 450 ms, against 588 measured: -23.5 %."""
    section = other_phones.section()
    (femnist,) = [line for line in section.text.splitlines() if "redmi-note-8` | FEMNIST" in line]

    assert "-23.5 %" in femnist
