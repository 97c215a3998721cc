"""Numerical platform of a run: all that its last bits depend on besides the scenario.

Floating-point sums round, and each library kernel adds in its own order. The kernels depend on the
processor, on the versions of the libraries, and on their settings. They are chosen once per process
(`forms`) and recorded once per run (`resolve`): equal scenarios on equal platforms give equal
bytes.

In the portable mode (`fleetsim.host.numerics`) results do not depend on the processor:

* the libraries are limited to x86-64-v3;
* oneDNN and NNPACK are off, because their block sizes depend on the caches;
* fleetsim's own rules by processor are not applied.

One exception is known: MKL's square roots of tensors begin with the processor's own approximation.
No code here uses them.
"""

import os
import platform
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module, metadata

import numpy as np
import torch
from threadpoolctl import threadpool_info

from fleetsim.errors import ScenarioError
from fleetsim.host import numerics
from fleetsim.host.numerics import Numerics
from fleetsim.kernels.cpu import processor, whole_products

_V3 = ("AVX2", "FMA3")
"""NumPy's names of instructions that the portable mode needs, in old and new NumPy."""
_NUMPY_WITHIN_V3 = frozenset(
    {"SSE", "SSE2", "SSE3", "SSSE3", "SSE41", "POPCNT", "SSE42", "AVX", "F16C", "FMA3", "AVX2"}
    | {"X86_V2", "X86_V3"}
)
_ZEN_4, _ZEN_5 = 25, 26
"""AMD's numbers of the families; Zen 3 is 25 as well."""


@dataclass(frozen=True, slots=True)
class Forms:
    """Forms of products that are fast on this processor; kernels check no processor themselves."""

    has_onednn: bool = False
    """True if oneDNN may be used."""
    stacks_by_onednn: bool = False
    """True if stacks use oneDNN. Measured with stacks of one to eight networks (784, ..., 10),
    batches of 10 to 100: on AMD's family 26 oneDNN takes half of MKL's time, on family 25 1.0 to
    1.35 times of it."""
    long_sums_by_onednn: bool = False
    """True if long sums use oneDNN. Measured with stacks of five products of (50, 600, 200), (600,
    784, 200) and (200, 600, 784): on family 25 oneDNN takes 0.85 to 0.95 of MKL's time, on family
    26 half."""
    bytes_as_whole_numbers: bool = False
    """True if bytes are multiplied as whole numbers. Processors with VNNI do so four times as fast
    as float32. Those without add products of bytes in 16 bits, which overflow; a trial decides."""


@lru_cache(maxsize=1)
def forms() -> Forms:
    """Return the forms of this process, by the mode and the processor, never by the clock."""
    if numerics.chosen() is Numerics.PORTABLE:
        return Forms()
    return forms_of(processor.cpuinfo())


def forms_of(cpuinfo: str) -> Forms:
    """Return the forms of a processor in the fastest mode, from the text of `processor.cpuinfo`."""
    family = processor.amd_family(cpuinfo)
    has_vnni = processor.has_flag(cpuinfo, "avx512_vnni")
    return Forms(
        has_onednn=True,
        stacks_by_onednn=family >= _ZEN_5,
        long_sums_by_onednn=family >= _ZEN_4,
        bytes_as_whole_numbers=has_vnni and whole_products.are_exact(),
    )


def require_portable(*, torch_device: str) -> None:
    """Check that the portable mode, if it is chosen, is in effect; ScenarioError: it cannot be."""
    numerics.require_settled()
    if numerics.chosen() is Numerics.FASTEST:
        return
    if torch_device != "cpu":
        raise ScenarioError(
            f"--torch-device: {torch_device} has kernels of its own; leave out --numerics portable"
            f" and {numerics.VARIABLE}, or use --torch-device cpu"
        )
    features = _numpy_features()
    if platform.machine() not in ("x86_64", "AMD64") or not all(map(features.get, _V3)):
        raise ScenarioError(
            f"--numerics: portable needs an x86-64 processor with AVX2 and FMA, this one is"
            f" {platform.machine()} {processor.model(processor.cpuinfo())}; use fastest"
        )
    beyond = sorted(set(_numpy_simd()) - _NUMPY_WITHIN_V3)
    if beyond or torch.backends.cpu.get_cpu_capability() != "AVX2":
        raise ScenarioError(
            "--numerics: numpy or torch was loaded before the portable mode was chosen; import"
            f" fleetsim first, or set {numerics.VARIABLE}=portable before Python starts"
        )


def resolve(*, torch_device: str) -> dict[str, str]:
    """Return the features on which results depend, by name, as in docs/develop/kernels.md."""
    require_portable(torch_device=torch_device)
    mode = numerics.chosen()
    named = {
        "numerics": mode.value,
        "machine": platform.machine(),
        "system": " ".join((platform.system(), *platform.libc_ver())).strip(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "numpy": metadata.version("numpy"),
        "numpy_simd": " ".join(_numpy_simd()),
        "scipy": metadata.version("scipy"),
        "blas": _blas(),
        "torch": torch.__version__,
        "torch_simd": torch.backends.cpu.get_cpu_capability(),
        "numba": metadata.version("numba"),
        **_chosen_forms(),
        **_device(torch_device),
    }
    if mode is Numerics.FASTEST:
        named |= {
            "processor": processor.model(processor.cpuinfo()),
            "instructions": processor.instructions(processor.cpuinfo()),
            "caches": processor.caches(),
        }
        named |= {name: os.environ[name] for name in numerics.DECIDING if name in os.environ}
    return {name: value for name, value in named.items() if value}


def _chosen_forms() -> dict[str, str]:
    chosen = forms()
    uses = {"stacks": chosen.stacks_by_onednn, "long sums": chosen.long_sums_by_onednn}
    allowed = ", ".join(["convolutions", *(name for name, does in uses.items() if does)])
    return {
        "onednn": allowed if chosen.has_onednn else "off",
        "byte_products": "whole numbers" if chosen.bytes_as_whole_numbers else "float32",
    }


def _device(torch_device: str) -> dict[str, str]:
    if torch_device == "cpu":
        return {"torch_device": "cpu"}
    major, minor = torch.cuda.get_device_capability()
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    switches = {
        "deterministic": torch.backends.cudnn.deterministic,
        "cudnn tf32": torch.backends.cudnn.allow_tf32,
        "matmul tf32": torch.backends.cuda.matmul.allow_tf32,
    }
    return {
        "torch_device": f"{torch.cuda.get_device_name()}, compute capability {major}.{minor}",
        "cuda": str(torch.version.cuda),
        "cudnn": str(cudnn),
        "cuda_switches": ", ".join(name for name, is_on in switches.items() if is_on),
    }


def _numpy_umath() -> object:
    # The public function prints the list; NumPy 2 has renamed the package.
    home = "numpy._core" if int(np.__version__.split(".")[0]) >= 2 else "numpy.core"
    return import_module(f"{home}._multiarray_umath")


def _numpy_features() -> dict[str, bool]:
    """Return the instructions that NumPy detected and no variable disables, by NumPy's names."""
    return dict(getattr(_numpy_umath(), "__cpu_features__"))  # noqa: B009 - not typed


def _numpy_simd() -> list[str]:
    """Return the instructions for which NumPy has kernels and uses them."""
    dispatched = getattr(_numpy_umath(), "__cpu_dispatch__")  # noqa: B009 - not typed
    features = _numpy_features()
    return sorted(name for name in dispatched if features.get(name))


def _blas() -> str:
    libraries = {
        " ".join(str(lib[key]) for key in ("internal_api", "version", "architecture") if key in lib)
        for lib in threadpool_info()
        # SciPy has its own, which is loaded only if a run needs it.
        if lib["user_api"] == "blas" and "scipy.libs" not in lib["filepath"]
    }
    return ", ".join(sorted(libraries))
