"""Interface of inputs that are made anew whenever a client trains on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray


class AccessedInputs(ABC):
    """Samples [n, ...] that the user's own transform makes at each access."""

    items: IntArray
    """Item of the source of each sample [n]."""
    largest: float
    """Largest number of all samples as they were read first."""
    sha256: str
    """Digest of all samples of the source, each as one access with a fixed address made it."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the samples, [n, ...]."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers: float32 or, of tokens, int64."""

    def __len__(self) -> int:
        return len(self.items)

    @abstractmethod
    def __getitem__(self, kept: NDArray[Any]) -> AccessedInputs:
        """Return some of the samples, still to be made."""

    @abstractmethod
    def taken(
        self, rows: IntArray, visits: Sequence[int], *, seed: int, address: tuple[int, ...]
    ) -> NDArray[Any]:
        """Return some samples as numbers [m, ...].

        `visits` are the numbers of earlier accesses to each in this task [m]; the address is of the
        client and its task.
        """

    @abstractmethod
    def fixed(self, *, hint: str) -> NDArray[Any]:
        """Return all samples as an array [n, ...], read once.

        The hint says what to do about samples that are drawn, which are refused.
        """
