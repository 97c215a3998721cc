"""Winograd's algorithm against torch's convolution, and examples by hand."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from fleetsim.kernels.conv import winograd
from fleetsim.kernels.conv.winograd import WinogradConv2d
from fleetsim.kernels.cpu.workspace import Workspace
from tests.learning.drawn_layers import all_of, assert_as_far_as_wanted, conv_of, drawn


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
def test_it_equals_the_convolution_in_float64(
    monkeypatch: pytest.MonkeyPatch,
    num: int,
    num_in: int,
    num_out: int,
    padding: tuple[int, int],
    size: tuple[int, int],
    bias: bool,
    part_byte: int,
) -> None:
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
def test_in_float32_it_is_a_few_times_as_far_off_as_torch(channels: int, side: int) -> None:
    """Relative to all values; images after a ReLU, as in networks. The docstring says 1.2e-6."""
    maps = drawn(4, channels, side, side).detach().relu_()
    conv = scaled_conv(channels, channels, bias=False)
    exact = all_of(conv, maps)
    found = all_of(WinogradConv2d(conv.float(), Workspace()), maps.float())

    for mine, theirs in zip(found, exact, strict=True):
        assert float((mine.double() - theirs).norm() / theirs.norm()) <= 1.5e-6


def test_one_tile_by_its_matrices() -> None:
    """y = A^T [(G g G^T) * (B^T x B)] A, with B and A from their polynomials: for the points p,
    (B^T x)_p is x's coefficients times those of prod_{q != p} (t - q), A's columns are powers."""
    near, far = 0.5**0.5, 2**0.5
    points = [0.0, near, -near, far, -far]
    b_t = np.zeros((6, 6))
    for line, point in enumerate(points):
        b_t[line, :5] = np.poly([q for q in points if q != point])[::-1]
    b_t[5] = np.poly(points)[::-1]
    a_t = np.array([[p**power for p in points] + [float(power == 3)] for power in range(4)])
    g = np.array(
        [
            [p**power / np.prod([p - q for q in points if q != p]) for power in range(3)]
            for p in points
        ]
        + [[0.0, 0.0, 1.0]]
    )
    x, kernel = drawn(6, 6).detach().numpy(), drawn(3, 3).detach().numpy()
    expected = a_t @ ((g @ kernel @ g.T) * (b_t @ x @ b_t.T)) @ a_t.T
    plain = [[(x[i : i + 3, j : j + 3] * kernel).sum() for j in range(4)] for i in range(4)]
    conv = nn.Conv2d(1, 1, 3, bias=False).double()
    with torch.no_grad():
        conv.weight[0, 0] = torch.from_numpy(kernel)
    found = WinogradConv2d(conv, Workspace())(torch.from_numpy(x)[None, None])

    np.testing.assert_allclose(expected, plain, atol=1e-12)
    np.testing.assert_allclose(found[0, 0].detach(), expected, atol=1e-12)


def test_only_what_is_wanted_is_computed() -> None:
    conv = scaled_conv(2, 3)

    assert_as_far_as_wanted(WinogradConv2d(conv, Workspace()), conv, drawn(2, 2, 8, 8))
