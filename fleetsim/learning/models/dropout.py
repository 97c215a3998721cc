"""Dropout whose masks are drawn from a job's address, and from no generator that others share.

In a step each unit is left out with chance p and the others are scaled by 1 / (1 - p) (Srivastava
et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 2014). Evaluation
and gradients that a selector asks for are of the whole network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

_SEEDS = 2**63


class Dropout(nn.Module):
    """Leaves units out while it is given a generator, and nothing otherwise."""

    def __init__(self, chance: float) -> None:
        """Build it.

        Args:
            chance: that a unit is left out, in [0, 1).
        """
        super().__init__()
        self.chance = chance
        self.generator: torch.Generator | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs of any shape, thinned out."""
        if self.generator is None:
            return inputs
        drawn = torch.rand(inputs.shape, generator=self.generator, device=inputs.device)
        return inputs * (drawn >= self.chance) / (1.0 - self.chance)


@contextmanager
def dropping_out(module: nn.Module, stream: np.random.Generator) -> Iterator[None]:
    """While it lasts the network's dropout is on.

    Args:
        module: any network.
        stream: seeds the masks; nothing is drawn if the network has no dropout.
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
