"""Library that multiplies float32 matrices on the CPU: MKL or oneDNN.

Torch hands them to MKL, which uses instructions of 256 bits on AMD's processors. From Zen 5 on
(family 26) these do 512 bits at a time, and MKL leaves half of their rate unused; oneDNN, which
torch carries as well, does not. On older ones MKL is the faster of the two for most products of
stacks. `numerical_platform.forms` says which processor this is.

Torch routes products to oneDNN when it is *allowed* to round the factors to bfloat16. Processors
without bfloat16 matrix units (AMX and the like) compute in full float32 all the same; on the others
the permission is never given. The products themselves are tried to tell the two kinds apart, never
the clock: the answer is the same in every run on a machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fleetsim.learning.kernels.cpu.numerical_platform import forms

_FACTOR = 1 + 2.0**-11
"""Needs 12 significant bits; bfloat16 keeps 8, TF32 and float16 keep 11."""
_BOUND = 2.0**-12
"""Relative error that tells them apart: rounding one of two factors costs about 2**-11."""
_MOST = 2048
"""Largest side that is tried; float32's own rounding, at most 2**-24 a term, stays below 2**-13."""
_COPIES = 2
_WORTH_FLOP = 150_000
"""Work of a product from which on oneDNN is faster; to start one costs it more than MKL."""
_mkldnn: Any = torch.backends.mkldnn  # not typed in torch

Multiply = Callable[[Tensor, Tensor], Tensor]
Widths = tuple[int, ...]
"""Numbers of units from the inputs to the classes, such as (784, 200, 200, 10)."""
Shape = tuple[int, int, int]
"""Rows, terms of each sum, columns of a product."""


@contextmanager
def onednn(*, is_allowed: bool) -> Iterator[None]:
    """Multiply with oneDNN within the block, if allowed; see `onednn_is_exact`."""
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
    """Whether to train stacks of this network with oneDNN.

    It is exact, the products are worth it, and MKL is slow here.
    """
    return (
        forms().stacks_by_onednn
        and onednn_pays(widths, batch_size)
        and onednn_is_exact(products(widths, batch_size))
    )


@lru_cache(maxsize=64)
def prefers_onednn_for_long(shapes: tuple[Shape, ...]) -> bool:
    """Whether to multiply matrices of these shapes, with sums of many terms, with oneDNN."""
    return forms().long_sums_by_onednn and onednn_is_exact(shapes)


def library(*, is_onednn: bool) -> str:
    """Name of the library that multiplies float32 matrices."""
    if is_onednn:
        return "oneDNN"
    has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return "MKL" if has_mkl else "the BLAS of torch's build"


def onednn_pays(widths: Widths, batch_size: int) -> bool:
    """Whether the products of one client's step are large enough on average; a rule on sizes alone.

    >>> onednn_pays((784, 200, 200, 10), 50), onednn_pays((60, 10), 10)
    (True, False)
    """
    work = [2 * math.prod(shape) for shape in products(widths, batch_size)]
    return sum(work) >= _WORTH_FLOP * len(work)


def onednn_is_exact(shapes: Iterable[Shape]) -> bool:
    """Whether oneDNN may be used, is there, and multiplies such matrices in float32."""
    # Torch has had the switch since 2.9.
    if not (forms().has_onednn and _mkldnn.is_available() and hasattr(_mkldnn, "matmul")):
        return False
    with onednn(is_allowed=True):
        return is_exact(torch.bmm, shapes)


def products(widths: Widths, batch_size: int) -> list[Shape]:
    """Products of one step of SGD on a chain of linear layers: forward, backward, gradient.

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
    """Whether products of these shapes keep all the bits of their float32 factors.

    Args:
        multiply: [k, rows, terms] times [k, terms, columns], as `torch.bmm`.
        shapes: what to try it on.
    """
    for shape in shapes:
        rows, terms, columns = (min(side, _MOST) for side in shape)
        left = torch.full((_COPIES, rows, terms), _FACTOR)
        # Transposed as in training, which may make the library take another kernel.
        right = torch.full((_COPIES, columns, terms), _FACTOR).transpose(1, 2)
        expected = terms * _FACTOR**2
        for product in (multiply(left, right), multiply(left, right.contiguous())):
            if float((product.double() / expected - 1).abs().max()) > _BOUND:
                return False
    return True
