"""Numerical modes: as fast as the processor allows, or equal results on all x86-64-v3 processors.

docs/develop/kernels.md describes them. `portable` works by environment variables that libraries
read when they are loaded, so none is imported here.

Sources: intel.com, oneMKL developer guide, "Conditional Numerical Reproducibility" (COMPATIBLE is
the one branch that processors of all makers share); numpy.org, "CPU build options", "Runtime
dispatch"; numba.readthedocs.io, "Environment variables"; github.com/OpenMathLib/OpenBLAS, README,
"DYNAMIC_ARCH"; pytorch/pytorch aten/src/ATen/native/DispatchStub.cpp (ATEN_CPU_CAPABILITY).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib import metadata

from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted

VARIABLE = "FLEETSIM_NUMERICS"
_LIBRARIES = ("numpy", "scipy", "torch", "numba")
_PORTABLE = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "NUMBA_CPU_FEATURES": "",
    "NUMBA_CPU_NAME": "haswell",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
_BEYOND_V3 = "X86_V4 AVX512_ICL AVX512_SPR"
"""NumPy's names, from 2.4 on, of instructions beyond x86-64-v3."""
_BEYOND_V3_BEFORE_2_4 = (
    "AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
)
_NUMPY_VARIABLE = "NPY_DISABLE_CPU_FEATURES"
DECIDING = (
    *sorted(_PORTABLE),
    _NUMPY_VARIABLE,
    *("DNNL_MAX_CPU_ISA", "DNNL_DEFAULT_FPMATH_MODE", "GLIBC_TUNABLES", "MKL_DEBUG_CPU_TYPE"),
    *("MKL_ENABLE_INSTRUCTIONS", "NPY_ENABLE_CPU_FEATURES", "NVIDIA_TF32_OVERRIDE"),
    *("ONEDNN_DEFAULT_FPMATH_MODE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"),
)
"""Environment variables by which a user can change kernels, and with them the last bits."""


class Numerics(StrEnum):
    """Numerical mode of a process."""

    FASTEST = "fastest"
    PORTABLE = "portable"


def chosen() -> Numerics:
    """Return the mode that the environment names; `fastest` unless it names one."""
    named = os.environ.get(VARIABLE) or Numerics.FASTEST.value
    try:
        return Numerics(named)
    except ValueError:
        raise ScenarioError(
            f"{VARIABLE}={quoted(named)}: is neither fastest nor portable; set one of them, or none"
        ) from None


def portable_variables() -> dict[str, str]:
    """Return the environment variables of the portable mode, for the installed NumPy."""
    major, minor = (int(part) for part in metadata.version("numpy").split(".")[:2])
    beyond = _BEYOND_V3 if (major, minor) >= (2, 4) else _BEYOND_V3_BEFORE_2_4
    return {**_PORTABLE, _NUMPY_VARIABLE: beyond}


def settle() -> None:
    """Set the variables of the chosen portable mode, unless a library has read them already."""
    is_portable = os.environ.get(VARIABLE) == Numerics.PORTABLE.value
    if is_portable and not any(name in sys.modules for name in _LIBRARIES):
        os.environ.update(portable_variables())


def require_settled() -> None:
    """Check that the variables of the mode are in place."""
    if chosen() is Numerics.FASTEST:
        return
    required = portable_variables()
    missing = [name for name, value in required.items() if os.environ.get(name) != value]
    if missing:
        exports = " ".join(f"{name}='{required[name]}'" for name in missing)
        raise ScenarioError(
            f"{VARIABLE}=portable: numpy or torch was loaded before its settings were in place;"
            f" import fleetsim first, or start Python with: {exports}"
        )


class OneBlasThread:
    """Limit of the loaded BLAS libraries to one thread, see `fleetsim.host.turns`.

    On several threads OpenBLAS sums in another order. The number of cores would then change the
    last bits of dot products of more than 10,000 numbers and of matrix products.
    """

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - light commands need none

        self._libraries = ThreadpoolController()

    def take(self) -> None:
        """Set the limit."""
        self._limit = self._libraries.limit(limits=1, user_api="blas")

    def give_back(self) -> None:
        """Set the number of threads that was set before."""
        self._limit.restore_original_limits()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the loaded BLAS libraries to one thread within the block."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - light commands need none

    with threadpool_limits(limits=1, user_api="blas"):
        yield
