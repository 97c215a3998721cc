"""Peak rates of matrix products on this machine, to compare the rates of rounds with.

    python -m benchmarks.peaks

Prints JSON: GFLOP/s of float32 products of 2048 x 2048 matrices, best of several, on one thread
and on all cores, by `torch.mm` (what `nn.Linear` gets) and by oneDNN.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import torch

_SIDE = 2048
_REPEATS = 7
_GIGA = 1e9


def gflop_per_s(multiply: Callable[[], object]) -> float:
    """Return the rate of the fastest of several products."""
    seconds = []
    for _ in range(_REPEATS):
        began_s = time.perf_counter()
        multiply()
        seconds.append(time.perf_counter() - began_s)
    return 2 * _SIDE**3 / min(seconds) / _GIGA


def measure() -> dict[str, float]:
    """Measure the rates by kind and number of threads, such as `mm_1` and `onednn_2`."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(_SIDE, _SIDE, generator=generator) for _ in range(2))
    kinds: dict[str, Callable[[], object]] = {"mm": lambda: torch.mm(left, right)}
    mkldnn: Any = torch.backends.mkldnn  # not typed in torch
    if mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        linear = torch.ops.mkldnn._linear_pointwise
        kinds["onednn"] = lambda: linear(left, right, None, "none", [], "")
    rates: dict[str, float] = {}
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        rates |= {f"{kind}_{threads}": gflop_per_s(multiply) for kind, multiply in kinds.items()}
    return rates


if __name__ == "__main__":
    print(json.dumps(measure()))
