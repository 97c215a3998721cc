"""Errors of device figures: log-normal with the stated spread, median 1, one per address."""

import math

import numpy as np
import pytest
from scipy import stats

from fleetsim.contracts import FloatArray, ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.devices.figures import PowerFigure
from fleetsim.fleet.devices.profile import load_device
from fleetsim.fleet.devices.uncertainty import FigureErrors
from tests.fleet.alone import compute_timeline
from tests.fleet.one_timeline import Timeline
from tests.theory.intervals import (
    assert_distributed,
    assert_mean,
    assert_share,
    assert_uncorrelated,
)

SIZE = 60_000


def factors(seed: int = 1, *, sd: float = 0.3, key: str = "power.idle_awake_w") -> FloatArray:
    """Factors of one figure in many devices; half of the devices have it inferred."""
    errors = FigureErrors(seed, inferred=sd, measured=0.05)
    figure = PowerFigure(value=1.0, source="test", inferred=True)
    return np.array([errors.factor("device", f"d{n}", key, figure) for n in range(SIZE)])


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.05, 0.3, 1.0])
def test_factors_are_log_normal_with_the_stated_spread(sd):
    """A spread 2 % off moves the mean of the squares by 4 %, beyond the interval."""
    drawn = factors(sd=sd)

    assert_distributed(np.log(drawn), stats.norm(0.0, sd).cdf)
    # The square of a normal variable of variance s^2 has the mean s^2 and the variance 2 s^4.
    assert_mean(np.log(drawn) ** 2, sd**2, 2.0 * sd**4, within=0.03)
    assert_share((drawn > 1.0).astype(np.float64), 0.5)


def test_the_mark_of_a_figure_decides_its_spread():
    errors = FigureErrors(1, inferred=0.3, measured=0.05)
    figure = PowerFigure(value=1.0, source="test")
    measured = np.array(
        [errors.factor("device", f"d{n}", "wifi.receive_w", figure) for n in range(20_000)]
    )

    assert_mean(np.log(measured) ** 2, 0.05**2, 2.0 * 0.05**4, within=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [{"seed": 2}, {"key": "power.train_above_idle_w"}],
    ids=["the next seed", "the next figure"],
)
def test_factors_of_other_addresses_are_independent(other):
    one, two = np.log(factors()) / 0.3, np.log(factors(**other)) / 0.3

    assert_uncorrelated(1.0 + one, 1.0 + two)


# ResNet-18 for 32 x 32 images: 0.5554 GMAC forward, 11.17 M parameters.
RESNET18 = ModelCost({"conv": 1.1108e9}, 11_170_000, 44_700_000, num_layers=21)
# FedGCS (Ning et al., IJCAI 2024), overhead analysis: 500 samples, 5 local epochs; its code: 32.
TRAIN = Work(WorkKind.TRAIN, epochs=5)


def round_on(device: str, load: float = 0.0) -> Timeline:
    profile = load_device(device)
    samples = np.array([500])
    size = Batching(32)
    work_s = unloaded_s(profile.compute, RESNET18, TRAIN, num_samples=samples, batching=size)
    return compute_timeline(
        0.0, float(work_s[0]), profile.power.train_above_idle_w, [(math.inf, load)]
    )


def test_the_reproduction_trains_resnet18_in_the_28_24_minutes_of_fedgcs() -> None:
    assert round_on("reproduction/jetson-nano-fedgcs").end_s == pytest.approx(28.24 * 60, rel=1e-3)


def test_t2_instances_take_the_times_that_two_thirds_parallel_work_gives() -> None:
    # Amdahl with a serial third; FedGRA (arXiv:2310.08147) measured xlarge at half of small.
    times_s = [round_on(f"t2.{size}").end_s for size in ("small", "medium", "large", "xlarge")]

    assert [t / times_s[0] for t in times_s] == pytest.approx([1, 2 / 3, 2 / 3, 1 / 2], rel=1e-9)


# Worked by hand from the model and each device's figures: whole seconds and joules.
@pytest.mark.parametrize(
    ("device", "time_s", "energy_j"),
    [
        ("oneplus-10-pro", 145, 874),
        ("realme-q3s", 212, 749),
        ("pixel-6", 207, 916),
        ("redmi-note-10", 550, 1518),
        ("jetson-nano-cpu", 631, 2083),
        ("jetson-nano-gpu", 100, 421),
        ("jetson-tx2", 50, 501),
    ],
)
def test_a_round_of_the_fedgcs_workload_takes_the_worked_out_time_and_energy(
    device: str, time_s: float, energy_j: float
) -> None:
    timeline = round_on(device)

    assert timeline.end_s == pytest.approx(time_s, abs=0.5)
    assert timeline.energy_until(math.inf) == pytest.approx(energy_j, abs=0.5)
