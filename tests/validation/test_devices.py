"""Sections of devices, against sums by hand."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from fleetsim.fleet.devices.profile import load_device
from fleetsim.validation import (
    boards,
    launches,
    measurements,
    other_phones,
    peak_memory,
    phones,
    slowdown,
)
from fleetsim.validation.devices import board_training, lower_clock


def assert_minimum(squares: Callable[[np.ndarray], float], found: np.ndarray) -> None:
    """A hundredth more or less of any figure fits worse."""
    least = squares(found)
    for index, factor in itertools.product(range(found.size), (0.99, 1.01)):
        figures = found.copy()
        figures[index] *= factor
        assert squares(figures) > least


def test_a_batch_of_bert_is_forward_only_below_the_trained_blocks() -> None:
    # 45.9 GFLOP a sample: 12 blocks of 24 t w^2 + 4 t^2 w for 256 tokens of width 768
    forward_flop = 4 * 12 * (24 * 256 * 768**2 + 4 * 256**2 * 768)
    rate = 2.0 * 178.1e9
    # 7 layers a block at 0.98 ms trained, a third of it forward
    launches_s = 7 * 0.00098 * (4 + 8 / 3)
    third = 0.015 + launches_s + forward_flop / rate * (4 / 12 * 3 + 8 / 12)
    third += 0.0005 * 4 * 7.087872

    assert boards.bert_batch_s("jetson-tx2", 0) == pytest.approx(
        0.015 + 7 * 12 * 0.00098 / 3 + forward_flop / rate
    )
    assert boards.bert_batch_s("jetson-tx2", 4) == pytest.approx(third)
    assert boards.bert_batch_s("jetson-tx2") == pytest.approx(
        0.015 + 7 * 12 * 0.00098 + 0.0005 * 110 + 3 * forward_flop / rate
    )


def test_the_nano_is_five_and_nine_times_above_the_energy_of_fedgcs() -> None:
    # By hand: 500 x 5 x 3 x 1.1108 GFLOP / 13.5 GFLOP/s
    # + 80 x (0.02 + 21 x 0.00187 + 0.0105 x 11.17) = 631.2 s
    seconds, joules, nano = boards.nano_round("jetson-nano-cpu")

    batch_s = 0.02 + 21 * 0.00187 + 0.0105 * 11.17
    assert seconds == pytest.approx(2500 * 3 * 1.1108 / 13.5 + 80 * batch_s)
    assert joules / 370.5 == pytest.approx(631.24 * 3.3 / 370.5, rel=1e-4)
    assert (joules + seconds * nano.power.idle_awake_w) / 370.5 == pytest.approx(9.2, abs=0.05)


def test_the_reproduction_has_the_minutes_and_joules_of_fedgcs_and_no_others() -> None:
    seconds, joules, profile = boards.nano_round(boards.REPRODUCTION)

    assert seconds == pytest.approx(28.24 * 60, rel=1e-3)
    assert joules == pytest.approx(370.5, rel=1e-3)
    assert seconds * profile.power.idle_awake_w < 0.01


def test_the_measured_phones_are_a_snapdragon_855_at_the_rate_of_the_fit() -> None:
    phone = phones.sd855()

    assert phone.conv_flop_per_s == pytest.approx(40.0e9)
    assert dataclasses.replace(phone, conv_flop_per_s=37.1e9) == load_device("pixel-4").compute


@pytest.mark.slow
def test_forty_points_are_timed_as_by_hand() -> None:
    times = phones.times().assign(model_s=phones.model_s(phones.sd855()))
    model_s = times.set_index(["phone", "network", "batch_size"])["model_s"]
    by_hand = {
        # k_l L + k_p P + B 3 F / R, in seconds; AlexNet with 7 layers and 30.0067 M parameters
        ("AlexNet", 2): 0.00187 * 7
        + 0.0105 * 30.006666
        + 2 * 3 * (1.925716224 + 0.05251072) / 40.0,
        ("LeNet", 16): 0.00187 * 4 + 0.0105 * 0.34998 + 16 * 3 * 0.004424 / 40.0,
        ("MobileNetV2", 8): 0.00187 * 53
        + 0.0105 * 2.236682
        + 8 * 3 * (0.557581312 / 40.0 + 0.041432832 / (0.0137 * 40.0)),
    }

    assert model_s.size == 40
    for (network, size), seconds in by_hand.items():
        assert model_s[:, network, size].to_numpy() == pytest.approx(seconds, rel=1e-6)


@pytest.mark.slow
def test_the_fit_is_a_minimum_of_squared_relative_errors() -> None:
    measured_s = phones.times()["batch_s"]

    def squares(figures: np.ndarray) -> float:
        said = phones.model_s(phones.as_fitted(*figures.tolist()))
        return float(((said / measured_s - 1.0) ** 2).sum())

    assert_minimum(squares, np.array(phones.fit()))


@pytest.mark.slow
def test_counting_layers_fits_better_than_a_constant_with_as_many_figures() -> None:
    with_layers, without = (
        phones.model_s(form(*phones.fit(form))) / phones.times()["batch_s"] - 1.0
        for form in (phones.as_fitted, phones.as_fitted_per_batch)
    )

    assert (with_layers**2).sum() < 0.6 * (without**2).sum()


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


def test_a_vision_transformer_of_the_boards_is_counted_as_by_hand() -> None:
    """ViT-Ti/16: 197 tokens of width 192; a block has 12 n d^2 in layers, 2 n^2 d in attention."""
    (cost, _) = board_training.costs(board_training.times().query("network == 'vit_tiny'"))
    blocks = 12 * (12 * 197 * 192**2 + 2 * 197**2 * 192)

    assert cost.forward_flop["gemm"] == pytest.approx(2 * (blocks + 192 * 1000), abs=1e3)
    assert cost.forward_flop["conv"] == pytest.approx(2 * 196 * 768 * 192, abs=1e3)
    assert cost.num_layers == 12 * 5 + 2


def test_a_pi_trains_ten_networks_within_a_fifth_of_the_measured_time_in_the_mean() -> None:
    """By hand: resnet18 of 3.627 GFLOP takes 16 x 3 x 3.627 / 13.7 s and overheads, 12.9 s."""
    points = board_training.times()
    model_s = board_training.model_s(points, board_training.shipped())
    errors = np.abs(model_s / points["batch_s"] - 1.0)

    arithmetic_s = 48 * (3.627123 / 13.7 + 0.001024 / (2.04 * 13.7))
    overhead_s = 0.02 + 21 * 0.00187 + 0.0105 * 11.689512
    assert model_s[0] == pytest.approx(arithmetic_s + overhead_s, rel=1e-6)
    by_board = errors.groupby(points["board"]).mean()
    assert by_board["raspberry-pi-4"] < 0.20
    assert by_board["raspberry-pi-5"] < 0.15
    # a network that was not fitted: within 30 % in the mean
    assert np.abs(board_training.held_out_s() / points["batch_s"] - 1.0).mean() < 0.30


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


@pytest.mark.slow
def test_training_at_a_lower_clock_is_within_a_tenth_of_the_measured_time_in_the_mean() -> None:
    """By hand: .677 of the clock stretches .27 of the time to 1.129 times the whole."""
    at = lower_clock.points()
    share = load_device("pixel-4").compute.clock_share
    law = lower_clock.slowed(np.array([share]), at.overhead)
    measured = at.low_s / at.full_s

    assert law == pytest.approx(0.27 / (1.7088 / 2.5248) + 0.73, rel=1e-4)
    assert np.abs(law / measured - 1.0).mean() < 0.10
    # in proportion to the clock, as before: three times as far off
    assert np.abs(1.0 / lower_clock.THETA / measured - 1.0).mean() > 0.30
    # one share for all predicts a network that was not fitted better than two
    one, two = (np.abs(lower_clock.held_out(n) / measured - 1.0).mean() for n in (1, 2))
    assert one < 0.11 < two
    assert lower_clock.fit()[0] == pytest.approx(share, rel=0.02)


def test_scaling_by_latency_takes_the_ratio_of_latencies() -> None:
    """Note10 179 ms of FEMNIST x 264 / 105 ms = 450 ms, against 588 measured: -23.5 %."""
    section = other_phones.section()
    (femnist,) = [line for line in section.text.splitlines() if "redmi-note-8` | FEMNIST" in line]

    assert "-23.5 %" in femnist


def test_a_computation_is_as_long_as_asked_where_nothing_slows_it() -> None:
    timeline = slowdown.computation("pixel-6", work_s=1000.0, thermal={"kind": "none"})

    assert timeline.end_s == pytest.approx(1000.0, abs=1.0)
    assert slowdown.speeds(timeline) == pytest.approx([1.0])
