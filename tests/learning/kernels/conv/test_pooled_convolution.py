from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from fleetsim.learning.kernels.conv.pooled_convolution import PooledConv2d
from tests.learning.drawn_layers import SMALL, conv_of, drawn

torch.set_num_threads(1)  # small operations wait for a second thread longer than they take


def gradients(maps: Tensor, wanted: list[Tensor], pull: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(maps, wanted, pull)


@given(
    sizes=st.tuples(SMALL, SMALL, SMALL, st.integers(5, 9), st.integers(5, 9)),
    kernel=st.tuples(SMALL, SMALL),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    window=st.tuples(SMALL, SMALL),
    step=st.tuples(SMALL, SMALL),
    dilation=st.integers(1, 2),
    ceil_mode=st.booleans(),
    bias=st.booleans(),
    activation=st.sampled_from([nn.ReLU(), nn.Sigmoid()]),
)
def test_maps_and_gradients_are_those_of_the_two_layers(
    sizes: tuple[int, int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    window: tuple[int, int],
    step: tuple[int, int],
    dilation: int,
    ceil_mode: bool,
    bias: bool,
    activation: nn.Module,
) -> None:
    """With windows that overlap and such that leave gaps; a ReLU makes some gradients 0."""
    num_samples, num_in, num_out, height, width = sizes
    conv = conv_of(num_in, num_out, kernel, stride, padding, bias=bias)
    pool = nn.MaxPool2d(window, step, (min(window) // 2), dilation=dilation, ceil_mode=ceil_mode)
    maps = drawn(num_samples, num_in, height, width)
    convolved = conv(maps)
    assume(min(convolved.shape[2:]) > dilation * (max(window) - 1))
    wanted = [maps, *conv.parameters()]

    expected, found = activation(pool(convolved)), activation(PooledConv2d(conv, pool)(maps))

    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    pull = drawn(*expected.shape).detach()
    for one, other in zip(
        gradients(found, wanted, pull), gradients(expected, wanted, pull), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_one_window_by_hand() -> None:
    """A 1x2 kernel (2, 3) on the pixels (5, 7, 1), 2 * 5 + 3 * 7 = 31 and 2 * 7 + 3 * 1 = 17.

    The first wins. With gradient 10: the weights' is 10 times its patch (5, 7), its pixels' 10
    times the kernel, the bias's 10; the third pixel has no part in it.
    """
    conv = conv_of(1, 1, (1, 2))
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([[[[2.0, 3.0]]]]))
        conv.bias.zero_()  # type: ignore[union-attr]
    pixels = torch.tensor([[[[5.0, 7.0, 1.0]]]], dtype=torch.float64, requires_grad=True)

    found = PooledConv2d(conv, nn.MaxPool2d((1, 2)))(pixels)
    pull = torch.full_like(found, 10.0)
    for_pixels, *for_conv = gradients(found, [pixels, *conv.parameters()], pull)

    assert found.item() == 31.0
    assert for_pixels.flatten().tolist() == [20.0, 30.0, 0.0]
    assert [one.flatten().tolist() for one in for_conv] == [[50.0, 70.0], [10.0]]


@pytest.mark.parametrize("num_images", [1, 9])
def test_gradients_in_float32_are_within_its_rounding(num_images: int) -> None:
    """Sums of up to 225 terms of either sign; 1e-5 of the largest is 84 units in its last place."""
    conv, pool = conv_of(8, 6, (3, 3), padding=(1, 1)), nn.MaxPool2d(2)
    maps = drawn(num_images, 8, 10, 10)
    pull = drawn(num_images, 6, 5, 5).detach()
    expected = gradients(torch.relu(pool(conv(maps))), [maps, *conv.parameters()], pull)
    conv, single = conv.float(), maps.detach().float().requires_grad_()

    found = gradients(
        torch.relu(PooledConv2d(conv, pool)(single)), [single, *conv.parameters()], pull.float()
    )

    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).abs().max() / other.abs().max()) < 1e-5


def test_only_what_is_asked_for_is_computed_and_what_is_not_a_number_spreads() -> None:
    conv, pool = conv_of(2, 3, (3, 3)), nn.MaxPool2d(2)
    images = drawn(2, 2, 6, 6).detach()  # of the first layer: they need no gradient
    images[1, 0, 2, 2] = torch.nan

    found = PooledConv2d(conv, pool)(images)
    for_weight, for_bias = gradients(found, list(conv.parameters()), torch.ones_like(found))

    assert for_weight[:, 0].isnan().flatten(1).any(dim=1).all()
    assert not for_bias.isnan().any()
    with torch.no_grad():
        torch.testing.assert_close(
            PooledConv2d(conv, pool)(images), pool(conv(images)), equal_nan=True
        )
