from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from fleetsim.kernels.cpu import whole_products
from fleetsim.kernels.cpu.numerical_platform import forms, forms_of
from fleetsim.kernels.cpu.whole_products import digits_of

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
