import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.kernels.conv import winograd
from fleetsim.kernels.conv.im2col import ColumnConv2d, is_plain_convolution
from fleetsim.kernels.conv.pooled_convolution import PooledConv2d
from fleetsim.kernels.conv.winograd import WinogradConv2d
from fleetsim.kernels.cpu.workspace import Workspace

SMALL = st.integers(1, 3)
PAIR = st.tuples(SMALL, SMALL)


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
    conv = nn.Conv2d(num_in, num_out, kernel, stride, padding, bias=bias, dtype=torch.float64)
    conv.weight = nn.Parameter(drawn(num_out, num_in, *kernel).detach())
    if bias:
        conv.bias = nn.Parameter(drawn(num_out).detach())
    return conv


def all_of(layer: nn.Module, maps: Tensor) -> list[Tensor]:
    """Output, and gradients of a weighted sum of it by the input and the parameters."""
    maps = maps.detach().clone().requires_grad_()
    result = layer(maps)
    gradients = drawn(*result.shape).detach().to(result.dtype)
    return [result.detach(), *torch.autograd.grad(result, [maps, *layer.parameters()], gradients)]


@pytest.mark.slow
@given(
    sizes=st.tuples(SMALL, SMALL, SMALL, st.integers(4, 7), st.integers(4, 7)),
    kernel=PAIR,
    stride=PAIR,
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    bias=st.booleans(),
)
def test_columns_are_the_convolution(sizes, kernel, stride, padding, bias):
    num_samples, num_in, num_out, height, width = sizes
    conv = conv_of(num_in, num_out, kernel, stride, padding, bias=bias)
    maps = drawn(num_samples, num_in, height, width)
    columns = ColumnConv2d(conv)

    torch.testing.assert_close(all_of(columns, maps), all_of(conv, maps), rtol=1e-12, atol=1e-12)
    assert columns(maps).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
@given(
    sizes=st.tuples(SMALL, SMALL, SMALL, st.integers(5, 9), st.integers(5, 9)),
    kernel=PAIR,
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    window=PAIR,
    step=PAIR,
    dilation=st.integers(1, 2),
    ceil_mode=st.booleans(),
    bias=st.booleans(),
    activation=st.sampled_from([nn.ReLU(), nn.Sigmoid()]),
)
def test_pooled_convolutions_are_the_two_layers(
    sizes, kernel, stride, padding, window, step, dilation, ceil_mode, bias, activation
):
    """With windows that overlap and such that leave gaps; a ReLU makes some gradients 0."""
    num_samples, num_in, num_out, height, width = sizes
    conv = conv_of(num_in, num_out, kernel, stride, padding, bias=bias)
    pool = nn.MaxPool2d(window, step, (min(window) // 2), dilation=dilation, ceil_mode=ceil_mode)
    maps = drawn(num_samples, num_in, height, width)
    convolved = conv(maps)
    assume(min(convolved.shape[2:]) > dilation * (max(window) - 1))

    fast, plain = (PooledConv2d(conv, pool),), (conv, pool)
    results, expected = (all_of(nn.Sequential(*some, activation), maps) for some in (fast, plain))
    torch.testing.assert_close(results, expected, rtol=1e-12, atol=1e-12)


def scaled_conv(
    num_in: int, num_out: int, padding: tuple[int, int] = (1, 1), *, bias: bool = True
) -> nn.Conv2d:
    """A convolution whose outputs are as large as its inputs."""
    conv = conv_of(num_in, num_out, (3, 3), padding=padding, bias=bias)
    with torch.no_grad():
        conv.weight /= (9 * num_in) ** 0.5
    return conv


@pytest.mark.slow
@given(
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(1, 6),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.integers(3, 13), st.integers(3, 13)),
    st.booleans(),
    st.sampled_from([1, 5_000, 2_000_000]),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_winograds_algorithm_equals_the_convolution_in_float64(
    monkeypatch, num, num_in, num_out, padding, size, bias, part_byte
):
    """Also where maps are no whole tiles, and whether one image or all are a part."""
    monkeypatch.setattr(winograd, "PART_BYTE", part_byte)
    conv, maps = scaled_conv(num_in, num_out, padding, bias=bias), drawn(num, num_in, *size)
    space = Workspace()
    # What a workspace held before does not show.
    all_of(WinogradConv2d(conv, space), drawn(2, num_in, 9, 9) * float("nan"))

    torch.testing.assert_close(
        all_of(WinogradConv2d(conv, space), maps), all_of(conv, maps), rtol=0, atol=1e-12
    )


@pytest.mark.slow  # compiling the loops for float32 takes as long as all other tests here
@pytest.mark.parametrize(("channels", "side"), [(64, 32), (128, 16), (256, 8)])
def test_in_float32_winograds_algorithm_is_a_few_times_as_far_off_as_torch(channels, side):
    """Relative to all values; images after a ReLU, as in networks. The docstring says 1.2e-6."""
    maps = drawn(4, channels, side, side).detach().relu_()
    conv = scaled_conv(channels, channels, bias=False)
    exact = all_of(conv, maps)
    results = all_of(WinogradConv2d(conv.float(), Workspace()), maps.float())

    for mine, theirs in zip(results, exact, strict=True):
        assert float((mine.double() - theirs).norm() / theirs.norm()) <= 1.5e-6


@pytest.mark.parametrize("num_images", [1, 9])
def test_gradients_of_pooled_convolutions_in_float32_are_within_its_rounding(num_images):
    """Sums of up to 225 terms of either sign; 1e-5 of the largest is 84 units in its last place."""
    conv, pool = conv_of(8, 6, (3, 3), padding=(1, 1)), nn.MaxPool2d(2)
    maps = drawn(num_images, 8, 10, 10)
    expected = all_of(nn.Sequential(conv, pool, nn.ReLU()), maps)
    results = all_of(nn.Sequential(PooledConv2d(conv.float(), pool), nn.ReLU()), maps.float())

    for one, other in zip(results, expected, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).abs().max() / other.abs().max()) < 1e-5


def test_what_is_not_a_number_spreads_through_pooled_convolutions() -> None:
    conv, pool = conv_of(2, 3, (3, 3)), nn.MaxPool2d(2)
    images = drawn(2, 2, 6, 6).detach()
    images[1, 0, 2, 2] = torch.nan
    layer = PooledConv2d(conv, pool)
    maps, _, for_weight, for_bias = all_of(layer, images)

    assert for_weight[:, 0].isnan().flatten(1).any(dim=1).all()
    assert not for_bias.isnan().any()
    torch.testing.assert_close(maps, pool(conv(images)), equal_nan=True)


PLAIN = [
    ({"padding": 1}, True),
    ({"groups": 2}, False),
    ({"dilation": 2}, False),
    ({"padding": 1, "padding_mode": "reflect"}, False),
    ({"padding": "same"}, False),
]


@pytest.mark.parametrize(("form", "is_plain"), PLAIN)
def test_only_plain_convolutions_have_other_forms(form, is_plain):
    assert is_plain_convolution(nn.Conv2d(4, 4, 3, **form)) == is_plain
