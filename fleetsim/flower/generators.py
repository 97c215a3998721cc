"""Python's, numpy's and torch's global generators, seeded by address.

Code of an app draws from them as it likes. Each call of a client app, and the server app as a
whole, begins with states of its own address, so that no draw depends on which clients were called
before, or at all.
"""

from __future__ import annotations

import random  # noqa: TID251  # seeded here for an app's code, not drawn from
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from fleetsim import rng

_NUMPY_SEEDS = 1 << 32


@contextmanager
def seeded(seed: int, purpose: str, *indices: int) -> Iterator[None]:
    """Seed the global generators by an address within the block, and restore them after it."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    word = rng.torch_seed(seed, purpose, *indices)
    try:
        random.seed(word)
        np.random.seed(word % _NUMPY_SEEDS)  # noqa: NPY002, TID251
        torch.manual_seed(word)  # noqa: TID251
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
