"""Global random generators of Python, NumPy and torch, seeded around the user's own code.

Code of fleetsim draws from addressed streams. A user's transform may draw from the global
generators. It then gets them seeded by its address, and they are restored after it, so that what it
draws depends on the address alone, and nothing else sees the draws.
"""

from __future__ import annotations

import random  # noqa: TID251 - seeded for the user's code, and restored
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fleetsim import rng

_WORD = 1 << 32


@contextmanager
def restored() -> Iterator[None]:
    """Restore the global generators at the end of the block."""
    before = _states()
    try:
        yield
    finally:
        random.setstate(before["random"])
        np.random.set_state(before["numpy.random"])  # noqa: NPY002
        if "torch" in before:
            _torch_generator().set_state(before["torch"])


def seed(root: int, purpose: str, *indices: int) -> None:
    """Seed the global generators by an address; see `fleetsim.rng`."""
    number = rng.torch_seed(root, purpose, *indices)
    random.seed(number)
    np.random.seed([number % _WORD, number // _WORD])  # noqa: NPY002, TID251
    generator = _torch_generator()
    if generator is not None:
        generator.manual_seed(number)


class Watch:
    """Comparison of the global generators with their states when it was made."""

    def __init__(self) -> None:
        self._before = {name: _plain(state) for name, state in _states().items()}

    def drawn(self) -> list[str]:
        """Return the generators that were drawn from, or seeded, since then."""
        now = _states()
        return [name for name, state in self._before.items() if state != _plain(now[name])]


def _states() -> dict[str, Any]:
    """Return the state of each global generator by its name; torch's only if torch is imported."""
    states: dict[str, Any] = {
        "random": random.getstate(),
        "numpy.random": np.random.get_state(),  # noqa: NPY002
    }
    generator = _torch_generator()
    if generator is not None:
        states["torch"] = generator.get_state()
    return states


def _torch_generator() -> Any:
    """Return torch's global generator of the CPU; None if torch is not imported."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


def _plain(state: Any) -> Any:
    """Return a state as something that `==` compares."""
    if isinstance(state, tuple):
        return tuple(map(_plain, state)) if isinstance(state[0], str) else state
    # An array of NumPy's state, or a tensor.
    return (
        bytes(state) if isinstance(state, np.ndarray) else getattr(state, "tolist", lambda: state)()
    )
