import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fleetsim import rng
from fleetsim.kernels.cpu import gemm
from fleetsim.kernels.cpu.numerical_platform import forms_of

SHAPES = gemm.products((784, 200, 10), 50)
mkldnn: Any = torch.backends.mkldnn


def rounded_to(bits: int) -> Callable[[Tensor, Tensor], Tensor]:
    """A product whose factors keep so many significant bits."""

    def rounded(values: Tensor) -> Tensor:
        mantissa, exponent = torch.frexp(values)
        return torch.ldexp(torch.round(mantissa * 2**bits) / 2**bits, exponent)

    return lambda left, right: torch.bmm(rounded(left), rounded(right))


def test_the_probe_sees_rounded_factors_one_of_them_and_one_bad_shape() -> None:
    """As bfloat16, tf32 and float16 round."""

    def one_factor(left: Tensor, right: Tensor) -> Tensor:
        return torch.bmm(left.bfloat16().float(), right)

    def wide_ones(left: Tensor, right: Tensor) -> Tensor:
        is_wide = left.shape[2] > 700
        return one_factor(left, right) if is_wide else torch.bmm(left, right)

    for rounds in (rounded_to(8), rounded_to(11), one_factor, wide_ones):
        assert not gemm.is_exact(rounds, SHAPES)


@pytest.mark.parametrize("widths", [(1, 2), (784, 200, 10), (100_000, 10)])
def test_float32_passes_at_every_size(widths: tuple[int, ...]) -> None:
    assert gemm.is_exact(torch.bmm, gemm.products(widths, 50))


@pytest.mark.skipif(not hasattr(mkldnn, "matmul"), reason="torch has no such switch before 2.9")
def test_the_switch_is_thrown_inside_the_block_only_and_only_if_allowed() -> None:
    before = mkldnn.matmul.fp32_precision
    with gemm.onednn(is_allowed=False):
        forbidden = mkldnn.matmul.fp32_precision
    with contextlib.suppress(KeyError), gemm.onednn(is_allowed=True):
        allowed = mkldnn.matmul.fp32_precision
        raise KeyError

    assert (forbidden, allowed, mkldnn.matmul.fp32_precision) == (before, "bf16", before)


def test_where_the_probe_passes_products_are_as_exact_as_ever() -> None:
    """Against float64, within the rounding of a sum of 784 float32 products."""
    if not gemm.onednn_is_exact(gemm.products((784, 200), 50)):
        pytest.skip("oneDNN would round factors on this processor, so it is not used")
    draw = rng.stream(1, "test/gemm")
    left = torch.from_numpy(draw.normal(size=(3, 50, 784)).astype(np.float32))
    right = torch.from_numpy(draw.normal(size=(3, 784, 200)).astype(np.float32))
    with gemm.onednn(is_allowed=True):
        result = torch.bmm(left, right)

    exact = torch.bmm(left.double(), right.double())
    assert float((result - exact).abs().max()) < 1e-4  # bfloat16 factors: about 0.2


@pytest.mark.parametrize("is_exact", [True, False], ids=["exact", "rounds"])
@pytest.mark.parametrize("family", [0, 24, 25, 26, 27])
def test_onednn_is_preferred_where_it_is_exact_and_worth_it_and_mkl_is_slow(
    family, is_exact, monkeypatch
):
    """The mean product of (750, 10) at batch 10 is 2 * 10 * 750 * 10 = 150,000 FLOP."""
    text = f"vendor_id : AuthenticAMD\ncpu family : {family}\n" if family else ""
    monkeypatch.setattr(gemm, "forms", lambda: forms_of(text))
    monkeypatch.setattr(gemm, "onednn_is_exact", lambda _shapes: is_exact)

    assert not gemm.prefers_onednn((749, 10), 10)
    assert not gemm.prefers_onednn((750, 10, 10), 10)  # (150,000 + 2,000) / 2
    assert gemm.prefers_onednn((750, 10), 10) == (family >= 26 and is_exact)
    assert gemm.prefers_onednn_for_long.__wrapped__(((50, 600, 200),)) == (
        family >= 25 and is_exact
    )
