"""What a client can be asked to compute, what that costs, and how a task can end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Parameters = NDArray[np.float32]
"""All parameters and buffers of a model in one flat vector [P]; never changed in place."""
State = dict[str, NDArray[np.generic]]
"""What a part must keep over a stop and a resume: named arrays (scalars as 0-d), no objects."""
ClientRows = dict[str, NDArray[np.generic]]
"""What is kept of some clients: `client` [k], ascending, and a row of each other array [k, ...]."""


class Purpose(StrEnum):
    """What a task is for."""

    TRAIN = "train"
    PROBE = "probe"
    EVALUATE = "evaluate"


class Outcome(StrEnum):
    """How a task ended. Everything but `DELIVERED` is wasted energy."""

    DELIVERED = "delivered"
    LATE = "late"
    """Still running at the deadline."""
    OFFLINE = "offline"
    """The client stopped being eligible: offline, unplugged or off Wi-Fi, as the rule says."""
    BATTERY = "battery"
    """The battery fell to the cut-off."""
    LINK = "link"
    """The transfer did not finish within the channel's give-up time."""
    CRASHED = "crashed"
    """The client's process died."""
    MEMORY = "memory"
    """The device had too little free memory for a step of training."""
    CANCELLED = "cancelled"
    """The server had enough reports, or the run ended."""
    STALE = "stale"
    """Delivered, but too late to be used: the model had moved on by too many versions."""
    REFUSED = "refused"
    """Delivered, but not to be aggregated: not finite, or too far from the model that was sent."""


class WorkKind(StrEnum):
    """What a client computes in a task."""

    NONE = "none"
    EVALUATE = "evaluate"
    """Forward passes over local samples: mean loss."""
    GRADIENT = "gradient"
    """One forward and backward pass over local samples: the mean gradient."""
    TRAIN = "train"
    """Local epochs or steps of SGD: new parameters."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one client is asked to compute."""

    kind: WorkKind
    epochs: int = 0
    """Local epochs; `TRAIN` only, and 0 where it counts in steps."""
    steps: int | None = None
    """`TRAIN` only: so many local steps instead, >= 1, through the data as often as that takes."""
    num_samples: int | None = None
    """`EVALUATE` and `GRADIENT`: on so many of the client's samples, drawn at random; None: all."""
    clock_fraction: float = 1.0
    """Share of its full clock, in (0, 1], at which the device is to compute: slower, for less."""
    tells_epoch_losses: bool = False
    """`TRAIN` only: whether the client is also to say what it lost in each of its epochs."""

    def __post_init__(self) -> None:
        if not 0.0 < self.clock_fraction <= 1.0:
            raise ValueError(f"clock_fraction must be in (0, 1], got {self.clock_fraction}")
        if self.steps is not None and (
            self.kind is not WorkKind.TRAIN or self.epochs or self.steps < 1
        ):
            raise ValueError(f"steps are at least 1, of training, and instead of epochs: {self}")


@dataclass(frozen=True, slots=True)
class StepMemory:
    """What a step of local training holds in memory, read off the real model."""

    state_byte: int
    """Weights, gradients, state of the optimizer and anchor of a proximal term."""
    sample_byte: int
    """What the forward pass of one sample keeps for the backward pass."""
    unfolded_byte: int
    """Patches under the convolutions' kernels for one sample, if an engine lays them out."""


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What a model costs a device, read off the real model."""

    forward_flop: Mapping[str, float]
    """FLOP of one sample's forward pass (2 per multiply-add) by operation class: conv, depthwise,
    gemm or rnn (spelt as in the `phi` table of the device profiles)."""
    num_parameters: int
    payload_byte: int
    """Bytes of one model on the wire, from its state dict."""
    num_layers: int = 0
    """Layers that multiply matrices, each of which costs a device an overhead per batch."""
    memory: StepMemory | None = None
    """None in worlds where nobody's memory is looked at."""
