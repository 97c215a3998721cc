import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fleetsim.kernels.conv.im2col import ColumnConv2d, is_plain_convolution
from tests.learning.drawn_layers import SMALL, all_of, assert_as_far_as_wanted, conv_of, drawn


@pytest.mark.slow
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

    torch.testing.assert_close(
        all_of(ColumnConv2d(conv), maps), all_of(conv, maps), rtol=1e-12, atol=1e-12
    )


def test_maps_come_out_channels_last() -> None:
    found = ColumnConv2d(conv_of(2, 3, (3, 3)))(drawn(2, 2, 5, 5))

    assert found.is_contiguous(memory_format=torch.channels_last)


def test_only_what_is_wanted_is_computed() -> None:
    conv = conv_of(2, 3, (3, 3))

    assert_as_far_as_wanted(ColumnConv2d(conv), conv, drawn(1, 2, 4, 4))


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
