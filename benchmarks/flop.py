"""Floating-point operations of training on one sample, as torch counts them.

The usual estimate, three forward passes, includes the gradient with respect to the input, which is
not computed for the first layer. For a network with one large first layer that is a third. Here
torch counts the operations of one forward and one backward pass.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.peers.worksheet import build


def training_flop(model: str, shape: tuple[int, ...], num_classes: int) -> float:
    """Count the FLOP of one sample's forward and backward pass: matrix products and convolutions.

    The network is that of `worksheet.build`.
    """
    # On the meta device nothing is computed.
    with torch.device("meta"):
        network = build(model, shape, num_classes)
        inputs, labels = torch.empty(1, *shape), torch.zeros(1, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        loss = nn.functional.cross_entropy(network(inputs), labels)
        torch.autograd.grad(loss, list(network.parameters()))
    return float(counter.get_total_flops())


def sample_flop(data: Path, model: str) -> float:
    """Count the same for exported data, see `benchmarks.export`."""
    inputs = np.load(data / "train_inputs.npy", mmap_mode="r", allow_pickle=False)
    num_classes = int(np.load(data / "num_classes.npy", allow_pickle=False))
    return training_flop(model, inputs.shape[1:], num_classes)
