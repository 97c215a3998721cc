import contextlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from fleetsim import rng
from fleetsim.kernels.cpu import gemm, whole_products
from fleetsim.kernels.cpu.numerical_platform import forms, forms_of
from fleetsim.kernels.cpu.whole_products import digits_of

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


BITS = {torch.float32: 24, torch.float64: 53}
floats = st.floats(-1e3, 1e3, width=32)


@given(
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=floats),
    st.sampled_from([torch.float32, torch.float64]),
)
@example(np.array([[1e-45, 1e-40, 1e-37], [1.2e-38, 0.0, 2e-38]], np.float32), torch.float32)
@example(np.zeros((1, 2), np.float32), torch.float32)
@example(np.array([[1000.0, -1000.0, 1e-38]], np.float32), torch.float32)
def test_digits_keep_a_row_to_the_last_place_of_its_largest(values, dtype):
    """|v - q w| <= q / 2 and what q and dividing by it round, 2^-bits of v each; w from the digits
    by exact fractions, and q at most 2^(1 - bits) of the largest value but for 2 % (126 of 128)."""
    digits, quantum = digits_of(torch.from_numpy(values).to(dtype))
    by_place = digits.view(-1, *values.shape).tolist()

    for row, (line, unit) in enumerate(zip(values.tolist(), quantum[:, 0].tolist(), strict=True)):
        most = max(map(abs, line))
        assert unit <= max(most * 2.0 ** (1 - BITS[dtype]) * 1.02, torch.finfo(dtype).tiny)
        for column, value in enumerate(line):
            whole = sum(256**place * part[row][column] for place, part in enumerate(by_place))
            bound = Fraction(unit) / 2 + Fraction(abs(value)) / 2 ** (BITS[dtype] - 1)
            assert abs(Fraction(value) - whole * Fraction(unit)) <= bound


@pytest.mark.skipif(not forms().bytes_as_whole_numbers, reason="this machine is slow at bytes")
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (150, 784, 600), (64, 65536, 3)])
def test_products_of_bytes_are_exact(shape: tuple[int, int, int]) -> None:
    rows, terms, columns = shape
    draw = np.random.default_rng(0)
    left, right = (
        torch.from_numpy(draw.integers(-128, 128, size, dtype=np.int8))
        for size in ((rows, terms), (columns, terms))
    )
    left[0] = right[0] = -128
    expected = left.long() @ right.long().t()

    assert torch.equal(whole_products.multiply(left, right.t()).long(), expected)
    assert torch.equal(whole_products.multiply(left, right.t().contiguous()).long(), expected)
    assert int(expected[0, 0]) == terms * 128**2 < 2**31


def saturating(left: Tensor, right: Tensor) -> Tensor:
    """As processors without VNNI do it: sums of two products stop at what 16 bits hold."""
    pairs = left.long().unsqueeze(2) * right.long().unsqueeze(0)
    of_two = pairs.view(len(left), -1, 2, right.shape[1]).sum(dim=2)
    return of_two.clamp(-(2**15), 2**15 - 1).sum(dim=1).int()


def test_machines_without_exact_products_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fast(flags: str) -> bool:
        return forms_of(f"flags : {flags}\n").bytes_as_whole_numbers

    monkeypatch.setattr(whole_products, "multiply", lambda a, b: (a.long() @ b.long()).int())
    assert not fast("avx2")
    assert fast("avx2 avx512_vnni")
    monkeypatch.setattr(whole_products, "multiply", saturating)
    assert not fast("avx2 avx512_vnni")
    monkeypatch.setattr(whole_products, "_multiply", None)
    assert not fast("avx2 avx512_vnni")
