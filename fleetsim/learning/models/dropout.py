"""Dropout whose masks are drawn from the address of a job, not from a shared generator.

`Dropout` is that of fleetsim's own networks; torch's own layers draw from the global generator,
which a kernel sets to the address of the job. In an SGD step each unit is left out with chance p
and the others are scaled by 1 / (1 - p). Evaluation, and gradients for a selector, use the whole
network. Source: docs/models/models.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

_SEEDS = 2**63
_STOCK = (
    nn.modules.dropout._DropoutNd,
    nn.MultiheadAttention,
    nn.RReLU,
    nn.FractionalMaxPool2d,
    nn.FractionalMaxPool3d,
)
"""Torch's layers that draw random numbers in training mode; recurrent ones do with dropout."""


class Dropout(nn.Module):
    """Layer that leaves units out by a chance in [0, 1) while it has a generator."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance
        self.generator: torch.Generator | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs of any shape, some of them 0 and the others scaled."""
        if self.generator is None:
            return inputs
        drawn = torch.rand(inputs.shape, generator=self.generator, device=inputs.device)
        return inputs * (drawn >= self.chance) / (1.0 - self.chance)


@contextmanager
def dropping_out(module: nn.Module, stream: np.random.Generator) -> Iterator[None]:
    """Turn the network's dropout on inside the block.

    Nothing is drawn from the stream if the network has no dropout.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, Dropout)]
    if not layers:
        yield
        return
    device = next(module.parameters()).device
    generator = torch.Generator(device).manual_seed(int(stream.integers(_SEEDS)))
    for layer in layers:
        layer.generator = generator
    try:
        yield
    finally:
        for layer in layers:
            layer.generator = None


def use_whole_network(module: nn.Module) -> None:
    """Switch off the dropout of torch's own layers in a network in training mode.

    Its next `train()` switches it on again.
    """
    for layer in module.modules():
        if isinstance(layer, _STOCK) or (isinstance(layer, nn.RNNBase) and layer.dropout > 0.0):
            layer.training = False
