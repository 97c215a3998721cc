"""Device model compared with measurements of devices, through the calls of a run."""

import math

import numpy as np
import pytest

from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.devices.profile import load_device
from fleetsim.fleet.timeline import Timeline
from tests.fleet.alone import compute_timeline

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
