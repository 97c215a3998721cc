"""Memory of engines, and free memory of devices."""

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.contracts import ModelCost, StepMemory
from fleetsim.counts import Batching
from fleetsim.fleet.devices.memory import (
    ENGINES,
    FreeMemory,
    ShareSettings,
    build_memory,
    needed_byte,
)
from fleetsim.fleet.devices.profile import load_device
from fleetsim.units import BYTE_PER_GIB

SHARE = {"kind": "share", "free_fraction": [0.25, 0.75]}
STEP = StepMemory(1000, 100, 10)
COST = ModelCost({"conv": 1e9}, num_parameters=1, payload_byte=4, memory=STEP)


def built(size: int, devices: tuple[str, ...] = ("pixel-6",), **changes: object) -> FreeMemory:
    memory = build_memory(
        ShareSettings.model_validate(SHARE | changes),
        profiles=[load_device(name) for name in devices],
        device=np.arange(size, dtype=np.int64) % len(devices),
        seed=5,
    )
    assert memory is not None
    return memory


def test_free_memory_is_uniform_between_the_shares():
    free_gib = built(10_000).free_byte / BYTE_PER_GIB

    # 8 GiB of a Pixel 6: uniform in [2, 6], of mean 4 and standard deviation 4 / sqrt(12) = 1.155.
    assert free_gib.min() >= 2.0
    assert free_gib.max() <= 6.0
    assert free_gib.mean() == pytest.approx(4.0, abs=5 * 1.155 / 100)
    assert free_gib.std() == pytest.approx(1.155, rel=0.03)
    assert (free_gib[:10] == built(10).free_byte / BYTE_PER_GIB).all()  # whatever the fleet's size


def test_each_kind_of_device_has_its_engine():
    names = ("pixel-6", "jetson-tx2", "t2.small")

    assert built(3, names).engine == ("mnn", "autograd", "autograd")
    assert built(3, names, engines={"board": "mnn"}).engine == ("mnn", "mnn", "autograd")


def test_who_has_exactly_enough_is_not_short():
    need = float(needed_byte(ENGINES["mnn"], STEP, np.array([4]))[0])
    free = np.array([need - 1, need, need + 1])
    memory = FreeMemory(free, ("mnn",), np.zeros(3, dtype=np.int64), "fails")
    samples = np.array([4, 4, 100])

    spare_byte = memory.spare_byte(COST, num_samples=samples, batching=Batching(4))

    assert spare_byte.tolist() == [-1.0, 0.0, 1.0]
    # Merged batches of 5, 7 and 4 samples are the largest.
    merged = memory.spare_byte(COST, num_samples=np.array([9, 7, 4]), batching=Batching(4, "merge"))
    needs = needed_byte(ENGINES["mnn"], STEP, np.array([5, 7, 4]))
    assert merged.tolist() == (free - needs).tolist()


@pytest.mark.parametrize("fractions", [[0.6, 0.5], [0.0, 0.5], [0.5, 1.1], None])
def test_shares_are_given_and_lie_in_order_between_none_and_all(fractions):
    keys = {} if fractions is None else {"free_fraction": fractions}
    with pytest.raises(ValidationError, match="free_fraction"):
        ShareSettings.model_validate({"kind": "share", **keys})
