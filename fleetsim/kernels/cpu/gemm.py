"""Choice of the library for float32 matrix products on the CPU: MKL or oneDNN.

Torch uses MKL, which computes with 256-bit instructions on AMD's processors, half of what Zen 5
(family 26) can; oneDNN, also part of torch, uses all. Torch uses it only if it is *allowed* to
round the factors to bfloat16. Processors without bfloat16 matrix units (such as AMX) compute in
full float32 nevertheless; on others it is never allowed. A trial of the products tells the two
kinds apart, never the clock, so every run on a machine makes the same choice.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fleetsim.kernels.cpu.numerical_platform import forms

_FACTOR = 1 + 2.0**-11
"""Factor with 12 significant bits; bfloat16 keeps 8, TF32 and float16 keep 11."""
_BOUND = 2.0**-12
"""Largest relative error of an exact product; rounding one of two factors costs about 2**-11."""
_MAX_SIDE = 2048
"""Largest side of a trial; float32's own rounding, at most 2**-24 a term, stays below 2**-13."""
_COPIES = 2
_MIN_FLOP = 150_000
"""Least mean work of products for oneDNN, which takes longer than MKL to start a product."""
_mkldnn: Any = torch.backends.mkldnn  # torch has no types for it

Multiply = Callable[[Tensor, Tensor], Tensor]
Widths = tuple[int, ...]
"""Numbers of units from the inputs to the classes, such as (784, 200, 200, 10)."""
Shape = tuple[int, int, int]
"""Rows, terms of each sum, columns of a product."""


@contextmanager
def onednn(*, is_allowed: bool) -> Iterator[None]:
    """Use oneDNN within the block, if allowed; see `onednn_is_exact`."""
    if not is_allowed:
        yield
        return
    switch = _mkldnn.matmul
    before = switch.fp32_precision
    switch.fp32_precision = "bf16"
    try:
        yield
    finally:
        switch.fp32_precision = before


def prefers_onednn(widths: Widths, batch_size: int) -> bool:
    """Return whether to train stacks of this network with oneDNN: exact, large, and MKL slow."""
    return (
        forms().stacks_by_onednn
        and onednn_is_faster(widths, batch_size)
        and onednn_is_exact(products(widths, batch_size))
    )


@lru_cache(maxsize=64)
def prefers_onednn_for_long(shapes: tuple[Shape, ...]) -> bool:
    """Return whether to use oneDNN for products of these shapes, with sums of many terms."""
    return forms().long_sums_by_onednn and onednn_is_exact(shapes)


def library(*, is_onednn: bool) -> str:
    """Return the name of the library that multiplies float32 matrices."""
    if is_onednn:
        return "oneDNN"
    has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return "MKL" if has_mkl else "the BLAS of torch's build"


def onednn_is_faster(widths: Widths, batch_size: int) -> bool:
    """Return whether the products of a client's step are large enough on average."""
    work = [2 * math.prod(shape) for shape in products(widths, batch_size)]
    return sum(work) >= _MIN_FLOP * len(work)


def onednn_is_exact(shapes: Iterable[Shape]) -> bool:
    """Return whether oneDNN is allowed, available, and multiplies these shapes in float32."""
    # Torch has the switch since 2.9.
    if not (forms().has_onednn and _mkldnn.is_available() and hasattr(_mkldnn, "matmul")):
        return False
    with onednn(is_allowed=True):
        return is_exact(torch.bmm, shapes)


def products(widths: Widths, batch_size: int) -> list[Shape]:
    """Return the products of an SGD step on a chain of linear layers: forward, backward, gradient.

    >>> products((4, 3), 2)
    [(2, 4, 3), (2, 3, 4), (3, 2, 4)]
    """
    return [
        shape
        for fan_in, fan_out in pairwise(widths)
        for shape in (
            (batch_size, fan_in, fan_out),
            (batch_size, fan_out, fan_in),
            (fan_out, batch_size, fan_in),
        )
    ]


def is_exact(multiply: Multiply, shapes: Iterable[Shape]) -> bool:
    """Return whether products of these shapes keep all bits of their float32 factors.

    `multiply` is a product of [k, rows, terms] and [k, terms, columns], as `torch.bmm`.
    """
    for shape in shapes:
        rows, terms, columns = (min(side, _MAX_SIDE) for side in shape)
        left = torch.full((_COPIES, rows, terms), _FACTOR)
        # Transposed as in training, for which the library may use another kernel.
        right = torch.full((_COPIES, columns, terms), _FACTOR).transpose(1, 2)
        expected = terms * _FACTOR**2
        for product in (multiply(left, right), multiply(left, right.contiguous())):
            if float((product.double() / expected - 1).abs().max()) > _BOUND:
                return False
    return True
