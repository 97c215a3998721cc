"""Convolutions and maps of given shapes, with values drawn, for tests of other forms of them."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from fleetsim import rng

SMALL = st.integers(1, 3)


def drawn(*shape: int) -> Tensor:
    """Values that depend on the shape alone, so that a gradient is wanted of them."""
    values = rng.stream(7, "test/layers", *shape).normal(size=shape)
    return torch.from_numpy(np.asarray(values)).requires_grad_()


def conv_of(
    num_in: int,
    num_out: int,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    *,
    bias: bool = True,
) -> nn.Conv2d:
    conv = nn.Conv2d(
        num_in, num_out, kernel, stride, padding, bias=bias, device="meta", dtype=torch.float64
    )
    conv.weight = nn.Parameter(drawn(num_out, num_in, *kernel).detach())
    if bias:
        conv.bias = nn.Parameter(drawn(num_out).detach())
    return conv
