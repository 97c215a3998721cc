"""torch's settings of a process: those of a run, and the caller's around it.

Last bits depend on them. OpenMP's threads do not survive a fork, and an operation on several
threads would wait for them for ever in the new process, so a run sets one thread before its first
operation. torch is not imported for this: where it is not there yet, nothing can have been set.
"""

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np

from fleetsim.host import numerics
from fleetsim.host.numerics import Numerics

_EXACT = ("none", "ieee")
"""Precisions of products that round to float32 alone; `none` is torch's default."""


def configure_torch() -> None:
    """Set torch to the mode of this process; called in every process that computes.

    Sums over several threads have another order, so torch uses one thread.
    """
    torch = sys.modules["torch"]
    torch.set_num_threads(1)
    is_fastest = numerics.chosen() is Numerics.FASTEST
    torch.backends.mkldnn.enabled = is_fastest
    torch.backends.nnpack.set_flags(is_fastest)


class TorchSettings:
    """Settings of torch and floating-point numbers that a run holds, see `fleetsim.host.turns`."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, tuple[Any, ...]]] = []
        """Functions that set the caller's values, with these."""
        self._blocks = ExitStack()

    def take(self) -> None:
        """Note the caller's settings, and set those of a run."""
        self._blocks.enter_context(
            np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")
        )
        torch = sys.modules.get("torch")
        # Absent while torch is being imported.
        if torch is None or not hasattr(torch, "default_generator"):
            return
        self._before = _noted(torch)
        configure_torch()
        torch.set_default_dtype(torch.float32)
        if torch.are_deterministic_algorithms_enabled():  # the call imports torch's compiler
            torch.use_deterministic_algorithms(False)
        torch.set_flush_denormal(False)
        for place in _products(torch):
            if place.fp32_precision not in _EXACT:
                place.fp32_precision = "ieee"
        for block in _blocks(torch):
            self._blocks.enter_context(block)

    def give_back(self) -> None:
        """Set the caller's settings as they were noted."""
        self._blocks.close()
        for function, values in self._before:
            function(*values)
        self._before = []


def _noted(torch: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    backends = torch.backends
    noted: list[tuple[Any, tuple[Any, ...]]] = [
        (torch.set_num_threads, (torch.get_num_threads(),)),
        # It sets a value and returns the one before; `configure_torch` sets it again.
        (backends.nnpack.set_flags, backends.nnpack.set_flags(_enabled=True)),
        (torch.set_default_dtype, (torch.get_default_dtype(),)),
        (_set_deterministic, _deterministic(torch)),
        (torch.set_flush_denormal, (_flushes_denormal(),)),
    ]
    places = [(place, "fp32_precision") for place in _products(torch)]
    places.append((backends.mkldnn, "enabled"))
    if torch.cuda.is_available():
        places += [(backends.cudnn, key) for key in ("deterministic", "benchmark", "allow_tf32")]
    return noted + [(setattr, (place, key, getattr(place, key))) for place, key in places]


def _products(torch: Any) -> tuple[Any, ...]:
    """Return torch's places of the precision of products on the CPU."""
    onednn = torch.backends.mkldnn
    return onednn.matmul, onednn.conv, onednn.rnn


def _blocks(torch: Any) -> list[Any]:
    """Return context managers of what belongs to a thread: gradients are on, autocast is off."""
    blocks = [torch.inference_mode(mode=False), torch.enable_grad()]
    blocks += [
        torch.autocast(kind, enabled=False)
        for kind in ("cpu", "cuda")
        if torch.is_autocast_enabled(kind)
    ]
    if torch.get_default_device().type != "cpu":
        # Not always: every operation passes through such a block.
        blocks.append(torch.device("cpu"))
    return blocks


def _deterministic(torch: Any) -> tuple[bool, bool]:
    """Return whether only deterministic algorithms are allowed, and whether others just warn."""
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warns


def _set_deterministic(is_on: bool, warns: bool) -> None:
    torch = sys.modules["torch"]
    if _deterministic(torch) != (is_on, warns):  # the call imports torch's compiler
        torch.use_deterministic_algorithms(is_on, warn_only=warns)


def _flushes_denormal() -> bool:
    """Return whether numbers below the least normal one become 0 in this thread."""
    least = np.full(1, sys.float_info.min)
    return bool((least / 2 == 0).all())
