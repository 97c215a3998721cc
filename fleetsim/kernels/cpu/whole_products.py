"""Products of byte matrices with float matrices, in whole numbers.

Processors with 8-bit neural network instructions (VNNI) multiply one-byte integers four times as
fast as float32. A matrix of floats is converted to digits: with q the quantum of a row, its largest
value divided by 126 * 256^2,

    v / q = d_0 + 256 d_1 + 256^2 d_2 + e,    d in -128 .. 127,    |e| <= 1/2

but for the rounding of v / q itself. So three digits keep nearly as many bits of a row's largest
value as float32. Products of digits are sums of whole numbers, without rounding.
"""

from typing import NamedTuple

import torch
from torch import Tensor

_BASE_BIT = 8
_TOP = 126
"""Highest digit of a row's largest value; 127 is reserved for rounding up."""
_NUM_DIGITS = {torch.float32: 3, torch.float64: 7}
"""Number of digits by float type, for its 24 or 53 bits."""
_WHOLE = {torch.float32: torch.int32, torch.float64: torch.int64}
MAX_TERMS = 2**16
"""Largest number of terms of one sum: 2^16 * 2^14 still fits 32 bits."""
_multiply = getattr(torch, "_int_mm", None)


class Digits(NamedTuple):
    """Rows of floats as digits."""

    digits: Tensor
    """[digits * rows, columns] int8, the lowest digit of all rows first."""
    quantum: Tensor
    """Value of 1 in each row [rows, 1]."""


def digits_of(values: Tensor) -> Digits:
    """Return the digits of floats [rows, columns], float32 or float64.

    A value that is not finite makes its row's quantum not finite, and all products of the row.
    """
    num = _NUM_DIGITS[values.dtype]
    most = _TOP << (_BASE_BIT * (num - 1))
    # For rows of zeros, or of values whose quantum would be a subnormal number.
    tiny = torch.finfo(values.dtype).tiny
    quantum = values.abs().amax(dim=1, keepdim=True).div_(most).clamp_(min=tiny)
    left = values.div(quantum).round_().to(_WHOLE[values.dtype])
    digits = values.new_empty((num, *values.shape), dtype=torch.int8)
    for digit in digits[:-1]:
        left = left.sub_(digit.copy_(left)).bitwise_right_shift_(_BASE_BIT)
    digits[-1].copy_(left)
    return Digits(digits.flatten(0, 1), quantum)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """Return the int32 product [n, k] of int8 matrices [n, m] and [m, k], m <= `MAX_TERMS`."""
    if _multiply is None:
        raise RuntimeError("this torch does not multiply matrices of bytes")
    product: Tensor = _multiply(left, right)
    return product


def combined(products: Tensor, out: Tensor, *, dim: int) -> Tensor:
    """Combine the int32 products of all digits, blocks along `dim`, in units of the quantum."""
    parts = torch.split(products, out.shape[dim], dim)
    scaled(parts[-1], float(1 << (_BASE_BIT * (len(parts) - 1))), out)
    for place in reversed(range(len(parts) - 1)):
        out.add_(parts[place], alpha=1 << (_BASE_BIT * place))
    return out


def scaled(whole: Tensor, factor: float, out: Tensor) -> Tensor:
    """Write whole numbers times a factor to `out`, in its number type."""
    # With a Python number torch would multiply in float32.
    return torch.mul(whole, out.new_tensor(factor), out=out)


def are_exact() -> bool:
    """Return whether this machine multiplies bytes exactly.

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
