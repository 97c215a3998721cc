"""Work of a client, its cost, and outcomes of tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Parameters = NDArray[np.float32]
"""Trained parameters and buffers of a model in one flat vector [P]; never changed in place."""
State = dict[str, NDArray[np.generic]]
"""State of a part for a checkpoint: named arrays (scalars as 0-d), no objects."""
Arrays = dict[str, NDArray[Any]]
"""Named arrays of numbers that clients' own training keeps or sends; never changed in place."""
ClientRows = dict[str, NDArray[np.generic]]
"""Rows of some clients: `client` [k], ascending, and a row of each other array [k, ...]."""


class Purpose(StrEnum):
    """Purpose of a task."""

    TRAIN = "train"
    PROBE = "probe"
    EVALUATE = "evaluate"


class Outcome(StrEnum):
    """Outcome of a task; the energy of all but `DELIVERED` is wasted."""

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
    """Delivered too late: the global model is too many versions ahead."""
    REFUSED = "refused"
    """Delivered, but not aggregated: not finite, or too far from the model that was sent."""


class WorkKind(StrEnum):
    """Kind of computation in a task."""

    NONE = "none"
    EVALUATE = "evaluate"
    """Forward passes over local samples: mean loss."""
    GRADIENT = "gradient"
    """One forward and backward pass over local samples: the mean gradient."""
    TRAIN = "train"
    """Local epochs or steps of SGD: new parameters."""


@dataclass(frozen=True, slots=True)
class CountedWork:
    """Cost of one computation as a whole, counted while it ran or declared by its author."""

    flop: tuple[tuple[str, float], ...]
    """FLOP by operation class, as in `ModelCost.forward_flop`, of all its passes together."""
    batches: int = 1
    """Batches that it runs, each of which costs a device the overhead of a dispatch."""
    launches: int = 0
    """Matrix operations that it launches, backward passes included."""
    updated_parameters: int = 0
    """Parameters that all its optimizer steps update, summed over the steps."""
    num_samples: int = 0
    """Samples that it uses."""

    @property
    def total_flop(self) -> float:
        """FLOP of all operation classes."""
        return sum(flop for _, flop in self.flop)


@dataclass(frozen=True, slots=True)
class Work:
    """Computation that one client is asked for."""

    kind: WorkKind
    epochs: int = 0
    """Number of local epochs; `TRAIN` only, and 0 where `steps` is given."""
    steps: int | None = None
    """`TRAIN` only: number of local steps instead, >= 1, with as many passes as they take."""
    num_samples: int | None = None
    """`EVALUATE` and `GRADIENT`: number of the client's samples, drawn at random; None: all."""
    clock_fraction: float = 1.0
    """Share of its full clock, in (0, 1], at which the device computes."""
    tells_epoch_losses: bool = False
    """`TRAIN` only: whether the client also reports the loss of each of its epochs."""
    counted: CountedWork | None = None
    """Cost of this computation, whatever model and samples it has; None: it follows from both."""

    def __post_init__(self) -> None:
        if not 0.0 < self.clock_fraction <= 1.0:
            raise ValueError(f"clock_fraction must be in (0, 1], got {self.clock_fraction}")
        if self.steps is not None and (
            self.kind is not WorkKind.TRAIN or self.epochs or self.steps < 1
        ):
            raise ValueError(f"steps are at least 1, of training, and instead of epochs: {self}")


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Memory of a step of local training, derived from the real model."""

    state_byte: int
    """Bytes of weights, gradients, state of the optimizer and anchor of a proximal term."""
    sample_byte: int
    """Bytes that the forward pass of one sample keeps for the backward pass."""
    unfolded_byte: int
    """Bytes of the unfolded inputs of convolutions for one sample, if an engine unfolds them."""


@dataclass(frozen=True, slots=True)
class BackwardCost:
    """Cost of the backward pass of a model of which some weights are frozen."""

    flop: Mapping[str, float]
    """FLOP of one sample's backward pass by operation class: gradients of activations down to the
    first trained weight, and gradients of trained weights."""
    num_launches: int
    """Products that it launches in a batch; each costs what one of the forward pass does."""


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Cost of a model for a device, derived from the real model."""

    forward_flop: Mapping[str, float]
    """FLOP of one sample's forward pass (2 per multiply-add) by operation class: conv, depthwise,
    gemm or rnn (spelt as in the `phi` table of the device profiles)."""
    num_parameters: int
    """Number of trained parameters."""
    payload_byte: int
    """Bytes of one model on the wire, from its state dict without the frozen weights."""
    num_layers: int = 0
    """Number of layers that multiply matrices; each costs a device an overhead per batch."""
    layer_counts: Mapping[str, int] = field(default_factory=dict)
    """Number of those layers by operation class; empty where only their sum is known."""
    memory: StepMemory | None = None
    """Memory of a step; None in worlds without a memory model."""
    train_factor: float = 1.0
    """Work of a training step divided by that of one forward and backward pass."""
    frozen_byte: int = 0
    """Bytes of the frozen weights, which a client downloads once."""
    backward: BackwardCost | None = None
    """Cost of the backward pass; None: no weight is frozen, and it is twice the forward pass."""

    @property
    def is_transformer(self) -> bool:
        """True if most of its work is matrix products at every position of a sample.

        A linear layer on a whole sample spends 2 FLOP per weight. More than twice that means that
        the weights are used at several positions: tokens of a text, patches of an image.
        """
        products = self.forward_flop.get("gemm", 0.0)
        if "rnn" in self.forward_flop:
            return False
        return products > max(0.5 * sum(self.forward_flop.values()), 4.0 * self.num_parameters)
