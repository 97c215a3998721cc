"""Convolutions and maps of given shapes, with values drawn, for tests of other forms of them."""

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


def all_of(layer: nn.Module, maps: Tensor) -> list[Tensor]:
    """Output, and gradients of a weighted sum of it by the input and the parameters."""
    maps = maps.detach().clone().requires_grad_()
    found = layer(maps)
    gradients = drawn(*found.shape).detach().to(found.dtype)
    return [found.detach(), *torch.autograd.grad(found, [maps, *layer.parameters()], gradients)]


def assert_as_far_as_wanted(layer: nn.Module, plain: nn.Module, maps: Tensor) -> None:
    """Gradients are those of the plain layers, for images and for frozen weights too.

    The first layer's images have no gradient.
    """
    images = maps.detach()
    for each in (images, images.clone().requires_grad_()):
        gradients = []
        for network in (layer, plain):
            network.zero_grad()
            each.grad = None
            network(each).sum().backward()
            gradients.append([each.grad, *(value.grad for value in network.parameters())])
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
        assert (gradients[0][0] is None) == (each is images)
        layer.requires_grad_(requires_grad=False)
