"""Training samples in the memory of a torch device, as numbers when somebody takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetsim.learning.byte_images import ByteImages
from fleetsim.learning.standardise import CACHED, PIXEL_MAX
from fleetsim.learning.workspace import Workspace


class Samples:
    """Samples of all clients.

    Attributes:
        shape: [n, ...] of all of them.
        numbers: the numbers themselves, for whoever takes samples by other ways; None of images
            that are kept as bytes.
    """

    def __init__(self, inputs: NDArray[Any] | ByteImages, device: torch.device) -> None:
        """Bring them to the device; on the CPU arrays share their memory, unless read-only."""
        self.shape = inputs.shape
        self.numbers: Tensor | None = None
        if isinstance(inputs, ByteImages):
            self._bytes = as_tensor(inputs.pixels).to(device)
            # Tensors, not Python's numbers, by which CUDA multiplies as their reciprocal.
            by_channel = (torch.tensor(part).view(-1, 1, 1) for part in (inputs.mean, inputs.std))
            self._mean, self._std = (part.to(device, torch.float32) for part in by_channel)
            self._most = torch.tensor([PIXEL_MAX], device=device)
        else:
            self.numbers = as_tensor(inputs).to(device)

    def take(self, rows: Tensor, space: Workspace | None = None) -> Tensor:
        """The numbers of some samples [m, ...].

        Args:
            rows: which [m] int64, on the device.
            space: memory for those that were bytes; what was taken with it before is overwritten.
                None: their own.
        """
        if self.numbers is not None:
            return self.numbers.index_select(0, rows)
        # Indexing by brackets takes several times as long.
        of_rows = self._bytes.index_select(0, rows)
        like, shape = self._most, tuple(of_rows.shape)
        taken = like.new_empty(shape) if space is None else space.take("samples", shape, like)
        # As `from_pixels` does it, to the bit; few at a time: all steps find them in the cache.
        parts = zip(torch.split(taken, CACHED), torch.split(of_rows, CACHED), strict=True)
        for part, pixels in parts:
            part.copy_(pixels).div_(self._most).sub_(self._mean).div_(self._std)
        return taken


def as_tensor(array: NDArray[Any]) -> Tensor:
    """An array as a tensor in the same memory; copied if it is read-only, as torch has no such."""
    return torch.from_numpy(np.require(array, requirements="W"))
