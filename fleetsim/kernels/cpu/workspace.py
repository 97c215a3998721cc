"""Memory that is reused between computations.

Large arrays return to the system when they are freed, and new ones are pages that must be cleared
first: up to a twentieth of the time of training a stack. A workspace keeps its arrays instead.
"""

import math

import torch
from torch import Tensor


class Workspace:
    """Arrays by name; at most one array of a name is in use."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return an uninitialised array in the memory of the last one of this name.

        Number type and device are those of `like`.
        """
        num = math.prod(shape)
        key = name, like.dtype, like.device
        kept = self._kept.get(key)
        if kept is None or len(kept) < num:
            kept = self._kept[key] = like.new_empty(num)
        return kept[:num].view(shape)
