"""Memory that a process computes in again and again.

Large arrays that are freed go back to the system, and the next ones come as pages that have to be
cleared first: up to a twentieth of the time of training a stack. What is kept here is not given
back before its owner ends.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Workspace:
    """Arrays by name, one of each in use at a time."""

    def __init__(self) -> None:
        """Without any."""
        self._kept: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An array that holds anything; whatever was taken by this name before is overwritten.

        Args:
            name: what it is for.
            shape: its own.
            like: has its type and place.

        >>> space, like = Workspace(), torch.zeros(1)
        >>> first = space.take("sums", (2, 3), like)
        >>> first.data_ptr() == space.take("sums", (5,), like).data_ptr()
        True
        """
        num = math.prod(shape)
        key = name, like.dtype, like.device
        kept = self._kept.get(key)
        if kept is None or len(kept) < num:
            kept = self._kept[key] = like.new_empty(num)
        return kept[:num].view(shape)
