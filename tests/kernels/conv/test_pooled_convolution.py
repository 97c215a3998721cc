import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from fleetsim.kernels.conv.pooled_convolution import PooledConv2d
from tests.learning.drawn_layers import SMALL, all_of, assert_as_far_as_wanted, conv_of, drawn


@pytest.mark.slow
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

    torch.testing.assert_close(
        all_of(nn.Sequential(PooledConv2d(conv, pool), activation), maps),
        all_of(nn.Sequential(conv, pool, activation), maps),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("num_images", [1, 9])
def test_gradients_in_float32_are_within_its_rounding(num_images: int) -> None:
    """Sums of up to 225 terms of either sign; 1e-5 of the largest is 84 units in its last place."""
    conv, pool = conv_of(8, 6, (3, 3), padding=(1, 1)), nn.MaxPool2d(2)
    maps = drawn(num_images, 8, 10, 10)
    expected = all_of(nn.Sequential(conv, pool, nn.ReLU()), maps)
    found = all_of(nn.Sequential(PooledConv2d(conv.float(), pool), nn.ReLU()), maps.float())

    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).abs().max() / other.abs().max()) < 1e-5


def test_only_what_is_wanted_is_computed() -> None:
    conv, pool = conv_of(2, 3, (3, 3)), nn.MaxPool2d(2)

    plain = nn.Sequential(conv, pool)
    assert_as_far_as_wanted(PooledConv2d(conv, pool), plain, drawn(2, 2, 6, 6))


def test_what_is_not_a_number_spreads() -> None:
    conv, pool = conv_of(2, 3, (3, 3)), nn.MaxPool2d(2)
    images = drawn(2, 2, 6, 6).detach()
    images[1, 0, 2, 2] = torch.nan
    layer = PooledConv2d(conv, pool)
    maps, _, for_weight, for_bias = all_of(layer, images)

    assert for_weight[:, 0].isnan().flatten(1).any(dim=1).all()
    assert not for_bias.isnan().any()
    torch.testing.assert_close(maps, pool(conv(images)), equal_nan=True)
