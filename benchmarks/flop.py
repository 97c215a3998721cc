"""Floating-point operations of training on one sample, as torch counts them.

The usual estimate, three forward passes, includes the gradient with respect to the input, which is
not computed for the first layer. For a network with one large first layer that is a third. Here
torch counts the operations of one forward and one backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.peers.networks import Form, build
from benchmarks.peers.worksheet import loss


def training_flop(model: str, form: Form, sizes: Mapping[str, int]) -> float:
    """Count the FLOP of one sample's forward and backward pass: matrix products and convolutions.

    The network is that of `networks.build`.
    """
    # On the meta device nothing is computed, and torch's counter sees the products of an LSTM.
    with torch.device("meta"):
        network = build(model, form, sizes)
        tokens = form.vocabulary_size is not None
        inputs = torch.empty(1, *form.shape, dtype=torch.int64 if tokens else torch.float32)
        num_labels = form.shape[0] if form.is_sequence else 1
        labels = torch.zeros(1, num_labels, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.grad(loss(network(inputs), labels), list(network.parameters()))
    return float(counter.get_total_flops())
