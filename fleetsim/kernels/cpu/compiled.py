"""Compilation of loops over numbers, for sums without a torch operation."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numba import njit

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}


def compiled(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function. Products and sums may be fused, but sums keep their order.

    The code is kept beside the module, as Python's own is, or in the user's cache folder; numba
    keeps it apart for each processor and release. Compiling takes seconds and 50 MiB of memory.
    """
    try:
        result: Callable[_Arguments, _Result] = njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # none of these folders can be written
        result = njit(**_OPTIONS)(function)
    return result
