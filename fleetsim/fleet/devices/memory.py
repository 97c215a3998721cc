"""Memory of an SGD step, and free memory of devices.

The largest step of a client has m samples: min(n, B) of n in batches of B, or, where the last batch
is merged (`task.local.last_batch`), up to 2B - 1. It needs

    base + a * state + m * (b * sample + c * unfolded)     bytes

where state, sample and unfolded come from the real model (`contracts.StepMemory`), and base, a, b
and c from the engine (`ENGINES`). Free memory, sources and limits: docs/models/memory.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray, ModelCost, StepMemory
from fleetsim.counts import Batching
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.profile import DeviceProfile
from fleetsim.schema.key_conditions import by_key, device_kind
from fleetsim.schema.ranges import PositiveFraction
from fleetsim.settings import Settings
from fleetsim.units import BYTE_PER_MIB

Engine = Literal["mnn", "autograd"]
"""`mnn`: a phone engine that computes convolutions as matrix products; `autograd`: PyTorch."""


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Memory factors of an engine; see the module's equation."""

    base_byte: float
    """Memory of the process itself: code, runtime, own buffers."""
    state_factor: float
    sample_factor: float
    unfolded_factor: float


ENGINES: Mapping[Engine, EngineMemory] = {
    "mnn": EngineMemory(61 * BYTE_PER_MIB, 1.5, 2.1, 4.8),
    "autograd": EngineMemory(220 * BYTE_PER_MIB, 1.0, 1.0, 0.0),
}
"""mnn: fit of resident memory on Snapdragon 855 phones, five networks in batches of 1 to 32, mean
error 7 %, at most 20 % (UbiquitousLearning/Benchmark-On-Device-Training@1b3cfeb,
tools/train/benchmark/MEIZU_Freq_1708800; `fleetsim world validate` repeats it). autograd: base
measured after `import torch` (Python 3.11, torch 2 for CPUs, x86-64 Linux: 218 MiB), without the
context of a GPU; the rest is what torch keeps."""


class UncheckedSettings(Settings):
    """No check: every task fits into every device."""

    kind: Literal["unchecked"] = "unchecked"


class EnginesSettings(Settings):
    """Training engine of each kind of device."""

    acts_if = by_key(phone=device_kind("phone"), board=device_kind("board"), vm=device_kind("vm"))

    phone: Engine = "mnn"
    """Engine of phones: `mnn` or `autograd`."""
    board: Engine = "autograd"
    """Engine of boards: `mnn` or `autograd`."""
    vm: Engine = "autograd"
    """Engine of virtual machines: `mnn` or `autograd`."""


class ShareSettings(Settings):
    """A share of a device's memory is free for training."""

    kind: Literal["share"]
    free_fraction: tuple[PositiveFraction, PositiveFraction]
    """Share of the memory that is free while the owner uses no app, uniform between the two, one
    draw per client. The usage trace states the memory of apps."""
    when_short: Literal["ineligible", "fails"] = "ineligible"
    """While an SGD step exceeds the free memory of a client: `ineligible` is not eligible, and is
    interrupted if it is in a task; `fails` is eligible, downloads the model and fails in its first
    batch if memory is short when the computation begins."""
    engines: EnginesSettings = EnginesSettings()
    """Training engine of each kind of device, which determines what a step occupies."""

    @model_validator(mode="after")
    def _ordered(self) -> ShareSettings:
        low, high = self.free_fraction
        if low > high:
            raise ValueError(f"free_fraction must be [low, high], got [{low}, {high}]")
        return self


MemorySettings = Annotated[UncheckedSettings | ShareSettings, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, eq=False)
class FreeMemory:
    """Free memory of N clients, and their training engines."""

    free_byte: FloatArray
    """Free memory of every client while its owner uses no app [N]."""
    engine: tuple[Engine, ...]
    """Engine of every device profile."""
    device: IntArray
    """Profile of every client [N]."""
    when_short: Literal["ineligible", "fails"]

    def spare_byte(
        self, cost: ModelCost, *, num_samples: IntArray, batching: Batching
    ) -> FloatArray:
        """Return the memory that an SGD step leaves free while no app is used [N]; < 0: short."""
        if cost.memory is None:
            raise ValueError(f"the memory of the model was not counted: {cost!r}")
        size = batching.largest(num_samples)
        needed = np.empty(self.device.size)
        for index, engine in enumerate(self.engine):
            rows = self.device == index
            needed[rows] = needed_byte(ENGINES[engine], cost.memory, size[rows])
        spare: FloatArray = self.free_byte - needed
        if (spare < 0.0).all():
            least = float(needed.min())
            raise ScenarioError(
                f"fleet.memory: an SGD step takes {least / BYTE_PER_MIB:.0f} MiB or more and"
                f" no client has more than {self.free_byte.max() / BYTE_PER_MIB:.0f} MiB free;"
                " choose a smaller task.local.batch_size or model, or devices with more memory"
            )
        return spare


def needed_byte(engine: EngineMemory, memory: StepMemory, num_samples: IntArray) -> FloatArray:
    """Return the bytes [n] that SGD steps of these numbers of samples [n] need."""
    sample_byte = (
        engine.sample_factor * memory.sample_byte + engine.unfolded_factor * memory.unfolded_byte
    )
    fixed_byte = engine.base_byte + engine.state_factor * memory.state_byte
    return np.asarray(fixed_byte + num_samples * sample_byte, dtype=np.float64)


def build_memory(
    settings: UncheckedSettings | ShareSettings,
    *,
    profiles: Sequence[DeviceProfile],
    device: IntArray,
    seed: int,
) -> FreeMemory | None:
    """Draw the free memory of N clients with devices `profiles[device]`; None: not checked."""
    if isinstance(settings, UncheckedSettings):
        return None
    low, high = settings.free_fraction
    ram_byte = np.array([profile.ram_byte for profile in profiles], dtype=np.float64)[device]
    draw = rng.stream(seed, "memory").random(device.size)
    return FreeMemory(
        free_byte=ram_byte * (low + (high - low) * draw),
        engine=tuple(getattr(settings.engines, profile.kind) for profile in profiles),
        device=device,
        when_short=settings.when_short,
    )
