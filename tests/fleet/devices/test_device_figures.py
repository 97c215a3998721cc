"""The bundled devices' figures against the measurements that they were computed from.

Each file lists the cores that train, at one clock. Peaks are computed from that list, watts of
phones from measured watts of single cores at that very clock, and what is derived lies near what
was measured, unless the file explains why not.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile import device_names, load_device
from fleetsim.fleet.devices.profile_files import CoreFile, DeviceFile
from fleetsim.validation import measurements

VECTOR_UNITS = 1.25
"""Watts of training over those of CoreMark on the same cores."""
SNAPDRAGON_855 = 40.0 / 161.632
"""Share of its peak at which the one phone trained that was measured: 40.0 GFLOP/s of
(2.8416 + 3 x 2.4192) GHz x 16."""
PI_4, TX2_GPU = 13.7 / 48.0, 356.2 / 665.6
"""The same of the Raspberry Pi 4, convolutions, and of the TX2's GPU, matrix products."""


def file_of(name: str) -> DeviceFile:
    return HardwareFiles().device(name)[1]


def cores_of(name: str) -> tuple[CoreFile, ...]:
    cores = file_of(name).compute.cores
    assert cores is not None
    return cores


@cache
def measured() -> dict[tuple[str, int], dict[float, float]]:
    """Watts by clock in GHz of each run and CPU."""
    of_cores = measurements.groups(measurements.table("core-power"), "run", "cpu")
    return {
        core: dict(zip(of["clock_mhz"] / 1e3, of["power_w"], strict=True)) for core, of in of_cores
    }


def one_core_w(core: CoreFile) -> float:
    """Measured watts of a core at the profile's clock, by the rules of the file."""
    assert core.run is not None
    assert core.cpu is not None
    by_ghz = measured()[core.run, core.cpu]
    clocks = sorted(by_ghz)
    if core.clock_ghz > clocks[-1] + 1e-9:
        assert core.exponent is not None, f"{core.core} was not measured at {core.clock_ghz} GHz"
        return float(by_ghz[clocks[-1]] * (core.clock_ghz / clocks[-1]) ** core.exponent)
    assert core.exponent is None
    assert core.clock_ghz >= clocks[0]
    return float(np.interp(core.clock_ghz, clocks, [by_ghz[clock] for clock in clocks]))


WITH_RUNS = [name for name in device_names() if any(core.run for core in cores_of(name))]


@pytest.mark.parametrize("name", WITH_RUNS)
def test_training_watts_are_those_of_the_measured_cores_at_the_profiles_clock(name):
    cores_w = [core.count * (one_core_w(core) - core.less_w) for core in cores_of(name)]
    train_w = load_device(name).power.train_above_idle_w

    assert sum(core.count for core in cores_of(name)) == 4
    assert train_w == pytest.approx(VECTOR_UNITS * sum(cores_w), abs=0.006)
    figure = file_of(name).power.train_above_idle_w
    assert figure.inferred
    assert all(f"results/{core.run}" in figure.source for core in cores_of(name))


class Range(NamedTuple):
    """Measured values; derived figures lie within a factor of two of them."""

    share: float
    """Of the peak."""
    flop_per_j: float


PHONES = Range(SNAPDRAGON_855, 40.0e9 / 4.53)
CPU_BOARDS = Range(PI_4, 13.7e9 / 2.15)
GPU_BOARDS = Range(TX2_GPU, 356.2e9 / 10.0)
EXPLAINED = {
    "nexus-6": "far below the other phones",
    "jetson-orin-nano": "younger process",
    "jetson-tx2-cpu": "an upper end",
    "t2.small": "an estimate from averages",
    "t2.medium": "an estimate from averages",
    "t2.large": "an estimate from averages",
    "t2.xlarge": "an estimate from averages",
}


@pytest.mark.parametrize("name", device_names())
def test_rates_and_joules_lie_near_measured_ones_or_the_file_explains_why_not(name):
    device = load_device(name)
    compute = device.compute
    assert compute.peak_flop_per_s is not None
    near, rate = (PHONES, 1.0) if device.kind == "phone" else (CPU_BOARDS, 1.0)
    if compute.backend == "gpu":
        near, rate = GPU_BOARDS, compute.phi["gemm"]
    rate *= compute.conv_flop_per_s
    factors = [
        rate / compute.peak_flop_per_s / near.share,
        rate / device.power.train_above_idle_w / near.flop_per_j,
    ]

    is_near = all(abs(math.log2(factor)) <= 1.0 for factor in factors)
    if name in EXPLAINED:
        assert not is_near, f"{name} needs no explanation any more"
        assert EXPLAINED[name] in " ".join((file_of(name).notes or "").split())
        assert {"compute.conv_gflop_per_s", "power.train_above_idle_w"} <= set(device.inferred)
    else:
        assert is_near, factors
