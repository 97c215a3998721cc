from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fleetsim.learning.kernels.conv.im2col import ColumnConv2d, is_plain_convolution
from tests.learning.drawn_layers import SMALL, conv_of, drawn

torch.set_num_threads(1)  # small operations wait for a second thread longer than they take


@given(
    sizes=st.tuples(SMALL, SMALL, SMALL, st.integers(4, 7), st.integers(4, 7)),
    kernel=st.tuples(SMALL, SMALL),
    stride=st.tuples(SMALL, SMALL),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    bias=st.booleans(),
)
def test_maps_and_gradients_are_those_of_the_convolution(
    sizes: tuple[int, int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    bias: bool,
) -> None:
    num_samples, num_in, num_out, height, width = sizes
    conv = conv_of(num_in, num_out, kernel, stride, padding, bias=bias)
    maps = drawn(num_samples, num_in, height, width)
    wanted = [maps, *conv.parameters()]

    expected, found = conv(maps), ColumnConv2d(conv)(maps)

    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    pull = drawn(*expected.shape).detach()
    for one, other in zip(
        torch.autograd.grad(found, wanted, pull),
        torch.autograd.grad(expected, wanted, pull),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_one_position_by_hand() -> None:
    """A 1x2 kernel (2, 3) on the pixels (5, 7): 2 * 5 + 3 * 7 = 31; derivatives are the factors."""
    conv = conv_of(1, 1, (1, 2), bias=False)
    conv.weight = nn.Parameter(torch.tensor([2.0, 3.0]).double().view(1, 1, 1, 2))
    pixels = torch.tensor([5.0, 7.0]).double().view(1, 1, 1, 2).requires_grad_()

    found = ColumnConv2d(conv)(pixels)
    for_pixels, for_weight = torch.autograd.grad(found.sum(), [pixels, conv.weight])

    assert found.tolist() == [[[[31.0]]]]
    assert for_pixels.flatten().tolist() == [2.0, 3.0]
    assert for_weight.flatten().tolist() == [5.0, 7.0]


def test_maps_come_out_channels_last() -> None:
    found = ColumnConv2d(conv_of(2, 3, (3, 3)))(drawn(2, 2, 5, 5))

    assert found.is_contiguous(memory_format=torch.channels_last)


def test_what_is_frozen_gets_no_gradient() -> None:
    layer = ColumnConv2d(conv_of(2, 3, (3, 3)).requires_grad_(False))
    maps = drawn(1, 2, 4, 4)
    layer(maps).sum().backward()

    assert maps.grad is not None
    assert [parameter.grad for parameter in layer.parameters()] == [None, None]


@pytest.mark.parametrize(
    ("conv", "is_plain"),
    [
        (nn.Conv2d(4, 4, 3, padding=1), True),
        (nn.Conv2d(4, 4, 3, groups=2), False),
        (nn.Conv2d(4, 4, 3, dilation=2), False),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), False),
        (nn.Conv2d(4, 4, 3, padding="same"), False),
    ],
    ids=["plain", "groups", "dilation", "reflected padding", "padding by name"],
)
def test_only_plain_convolutions_can_be_columns(conv: nn.Conv2d, is_plain: bool) -> None:
    assert is_plain_convolution(conv) == is_plain
