"""Global random generators of torch, numpy and Python, set by an address for a block of code.

A user's network may draw from them: stock dropout does, and weights are drawn from them when layers
are made. Inside the block they begin at a seed that follows from an address; after it they are as
they were before. So a result depends on its address alone, and nothing outside notices.
"""

from __future__ import annotations

import random  # noqa: TID251
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_NUMPY_SEEDS = 2**32


@dataclass(frozen=True, slots=True)
class _States:
    """States of all global generators."""

    torch_cpu: torch.Tensor
    torch_cuda: torch.Tensor | None
    numpy: tuple[Any, ...]
    python: tuple[Any, ...]

    @classmethod
    def now(cls, device: torch.device) -> _States:
        """Return the present states; that of CUDA only for a device of that kind."""
        is_cuda = device.type == "cuda"
        return cls(
            torch.get_rng_state(),
            torch.cuda.get_rng_state(device) if is_cuda else None,
            np.random.get_state(legacy=True),  # type: ignore[arg-type]  # noqa: NPY002
            random.getstate(),
        )

    def restore(self, device: torch.device) -> None:
        """Set the generators to these states."""
        torch.set_rng_state(self.torch_cpu)
        if self.torch_cuda is not None:
            torch.cuda.set_rng_state(self.torch_cuda, device)
        np.random.set_state(self.numpy)  # noqa: NPY002
        random.setstate(self.python)

    def drawn_by(self, later: _States) -> str | None:
        """Return the library whose generator has moved on since; None if none has."""
        if not torch.equal(self.torch_cpu, later.torch_cpu):
            return "torch"
        cuda = [states.torch_cuda for states in (self, later) if states.torch_cuda is not None]
        if any(not torch.equal(cuda[0], state) for state in cuda[1:]):
            return "torch"
        name, keys, *rest = self.numpy
        other_name, other_keys, *other_rest = later.numpy
        if name != other_name or not np.array_equal(keys, other_keys) or rest != other_rest:
            return "numpy"
        return "random" if self.python != later.python else None


class Draws:
    """Draws of a block of code from global generators; known after the block.

    Attributes:
        library: `torch`, `numpy` or `random`; None if nothing was drawn.
    """

    def __init__(self) -> None:
        """Build it for a block that has not run."""
        self.library: str | None = None


_CPU = torch.device("cpu")


@contextmanager
def addressed_generators(seed: int, device: torch.device = _CPU) -> Iterator[Draws]:
    """Set the global generators to a seed inside the block, and restore them after it.

    Args:
        seed: seed of an address, as of `fleetsim.rng.torch_seed`.
        device: device whose generator is set too, beside that of the CPU.

    Yields:
        What the block draws.

    >>> with addressed_generators(3) as first:
    ...     one = torch.rand(2)
    >>> with addressed_generators(3) as second:
    ...     two = torch.rand(2)
    >>> torch.equal(one, two), first.library
    (True, 'torch')
    """
    before, draws = _States.now(device), Draws()
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
    np.random.seed(seed % _NUMPY_SEEDS)  # noqa: NPY002, TID251
    random.seed(seed)
    began = _States.now(device)
    try:
        yield draws
        draws.library = began.drawn_by(_States.now(device))
    finally:
        before.restore(device)
