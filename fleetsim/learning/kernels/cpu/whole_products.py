"""Products of matrices of bytes with matrices of floats, in whole numbers.

Processors with instructions for neural networks in eight bits (VNNI) multiply whole numbers of one
byte four times as fast as float32. A matrix of floats takes part as digits: with q the quantum of a
row, its largest value by 126 * 256^2,

    v / q = d_0 + 256 d_1 + 256^2 d_2 + e,    d in -128 .. 127,    |e| <= 1/2

but for the rounding of v / q itself, so that three digits keep of a row's largest value nearly as
many bits as float32 does, and of its others those to the same place. Products of the digits are
sums of whole numbers, without any rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_BASE_BIT = 8
_TOP = 126
"""The highest digit of a row's largest value; 127 is left for what rounds up."""
_NUM_DIGITS = {torch.float32: 3, torch.float64: 7}
"""Digits that keep what floats do: 24 and 53 bits."""
_WHOLE = {torch.float32: torch.int32, torch.float64: torch.int64}
MOST_TERMS = 2**16
"""Of one sum: 2^16 * 2^14 is as much as 32 bits hold."""
_multiply = getattr(torch, "_int_mm", None)


class Digits(NamedTuple):
    """Rows of floats as whole numbers."""

    digits: Tensor
    """[digits * rows, columns] int8, the lowest digit of all rows first."""
    quantum: Tensor
    """What 1 stands for, of each row [rows, 1]."""


def digits_of(values: Tensor) -> Digits:
    """The digits of some floats [rows, columns], float32 or float64.

    What is not finite makes its row's quantum so, and with it all products of the row.

    >>> digits, quantum = digits_of(torch.tensor([[8257536.0, -1.0, 128.0]]))
    >>> digits.tolist(), quantum.item()
    ([[0, -1, -128], [0, 0, 1], [126, 0, 0]], 1.0)
    """
    num = _NUM_DIGITS[values.dtype]
    most = _TOP << (_BASE_BIT * (num - 1))
    # Of rows without any, or so small ones that their quantum would be no normal number.
    tiny = torch.finfo(values.dtype).tiny
    quantum = values.abs().amax(dim=1, keepdim=True).div_(most).clamp_(min=tiny)
    left = values.div(quantum).round_().to(_WHOLE[values.dtype])
    digits = values.new_empty((num, *values.shape), dtype=torch.int8)
    for digit in digits[:-1]:
        left = left.sub_(digit.copy_(left)).bitwise_right_shift_(_BASE_BIT)
    digits[-1].copy_(left)
    return Digits(digits.flatten(0, 1), quantum)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """The product of int8 matrices [n, m] and [m, k], m at most `MOST_TERMS`: int32 [n, k]."""
    if _multiply is None:
        raise RuntimeError("this torch multiplies no matrices of bytes")
    product: Tensor = _multiply(left, right)
    return product


def put_together(products: Tensor, out: Tensor, *, dim: int) -> Tensor:
    """Products with digits as numbers, in quanta.

    Args:
        products: int32, with those of each digit after one another along `dim`.
        out: takes them, [n, k] float.
        dim: 0 or 1.
    """
    parts = torch.split(products, out.shape[dim], dim)
    scaled(parts[-1], float(1 << (_BASE_BIT * (len(parts) - 1))), out)
    for place in reversed(range(len(parts) - 1)):
        out.add_(parts[place], alpha=1 << (_BASE_BIT * place))
    return out


def scaled(whole: Tensor, factor: float, out: Tensor) -> Tensor:
    """Whole numbers times a factor, in the arithmetic of `out`, which takes them."""
    # By a mere number torch would multiply in float32.
    return torch.mul(whole, out.new_tensor(factor), out=out)


def are_exact() -> bool:
    """Whether this machine multiplies bytes exactly.

    Processors without VNNI add products of bytes in 16 bits, which overflow.
    """
    if _multiply is None:
        return False
    for value in (-128, 127):
        left, right = torch.full((64, 256), value), torch.full((256, 48), -128)
        product = multiply(left.to(torch.int8), right.to(torch.int8))
        if not bool((product == 256 * value * -128).all()):
            return False
    return True
