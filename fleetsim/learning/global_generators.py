"""Global random generators of Python, NumPy and torch around code of the user's own.

fleetsim draws from addressed streams alone. Code of a user may draw from the global generators, as
stock dropout does. It gets them seeded by an address, and they are restored after it. torch is not
imported for this: where it is not there yet, nothing can have drawn from it.
"""

import random  # noqa: TID251 - seeded for the user's code, and restored
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fleetsim import rng

_WORD = 1 << 32


class GeneratorWatch:
    """Comparison of the global generators with their states when it was made.

    After the block of `addressed`, `library` is the first that was drawn from in it: `torch`,
    `numpy` or `random`; None if nothing was.
    """

    def __init__(self, *, on_cuda: bool = False) -> None:
        """Note the present states; `on_cuda` those of CUDA's generators, too."""
        self.library: str | None = None
        self._on_cuda = on_cuda
        self._before = _states(on_cuda=on_cuda)

    def drawn(self) -> list[str]:
        """Return the libraries that were drawn from, or seeded, since then: torch first."""
        now = _states(on_cuda=self._on_cuda)
        moved = (name for name, state in self._before.items() if not _is_same(state, now[name]))
        return list(dict.fromkeys(name.partition(" ")[0] for name in moved))


class GlobalGenerators:
    """The caller's states of the global generators, which a run leaves; see `host.turns`."""

    def take(self) -> None:
        """Note the present states; of CUDA's generators if CUDA is used."""
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        self._before = _states(on_cuda=cuda is not None and cuda.is_initialized())

    def give_back(self) -> None:
        """Set the noted states."""
        _restore(self._before)


@contextmanager
def restored(*, on_cuda: bool = False) -> Iterator[None]:
    """Restore the global generators at the end of the block; `on_cuda` CUDA's, too."""
    before = _states(on_cuda=on_cuda)
    try:
        yield
    finally:
        _restore(before)


def seed(root: int, purpose: str, *indices: int, on_cuda: bool = False) -> None:
    """Seed the global generators by an address, see `fleetsim.rng`; `on_cuda` CUDA's, too."""
    number = rng.torch_seed(root, purpose, *indices)
    random.seed(number)
    # Both halves: of 2^32 seeds, some of a million addresses would be alike. torch's generator of
    # the CPU takes the lower half alone.
    np.random.seed([number % _WORD, number // _WORD])  # noqa: NPY002, TID251
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(number)
        if on_cuda:
            torch.cuda.manual_seed_all(number)


@contextmanager
def addressed(
    root: int, purpose: str, *indices: int, on_cuda: bool = False
) -> Iterator[GeneratorWatch]:
    """Seed the global generators by an address inside the block, and restore them after it.

    The address is that of `fleetsim.rng.stream`; `on_cuda` CUDA's generators are set, too.

    >>> with addressed(3, "test") as draws:
    ...     one = random.random()
    >>> with addressed(3, "test"):
    ...     two = random.random()
    >>> one == two, draws.library
    (True, 'random')
    """
    with restored(on_cuda=on_cuda):
        seed(root, purpose, *indices, on_cuda=on_cuda)
        watch = GeneratorWatch(on_cuda=on_cuda)
        yield watch
        watch.library = next(iter(watch.drawn()), None)


def _states(*, on_cuda: bool) -> dict[str, Any]:
    """Return the state of each global generator by its name; torch's only if torch is imported."""
    states: dict[str, Any] = {}
    torch = sys.modules.get("torch")
    # Absent while torch is being imported.
    generator = getattr(torch, "default_generator", None)
    if generator is not None:
        states["torch"] = generator.get_state()
    if torch is not None and on_cuda:
        states["torch on cuda"] = torch.cuda.get_rng_state_all()
    states["numpy"] = np.random.get_state()  # noqa: NPY002
    states["random"] = random.getstate()
    return states


def _restore(states: dict[str, Any]) -> None:
    random.setstate(states["random"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None and "torch" in states:
        torch.default_generator.set_state(states["torch"])
    if torch is not None and "torch on cuda" in states:
        torch.cuda.set_rng_state_all(states["torch on cuda"])


def _is_same(one: Any, two: Any) -> bool:
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(map(_is_same, one, two))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two)
    # A tensor has `equal`, and compares element by element.
    return bool(one.equal(two)) if hasattr(one, "equal") else bool(one == two)
