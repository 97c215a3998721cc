"""Training samples in the memory of a torch device, as numbers when somebody takes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.standardisation import CACHED, PIXEL_MAX
from fleetsim.learning.kernels.batches import StackJob
from fleetsim.learning.kernels.cpu.workspace import Workspace


class Samples:
    """Samples of all clients.

    Attributes:
        shape: [n, ...] of all of them.
        numbers: the numbers themselves, for whoever takes samples by other ways; None of images
            that are kept as bytes.
        like: has their type, as numbers, and is where they are.
        num_features: of one sample.
        scale: what the bytes of each channel are multiplied by, [C] float64, to become numbers.
        shift: what is added then [C] float64; both are empty of samples that are no bytes.
    """

    def __init__(self, inputs: NDArray[Any] | ByteImages, device: torch.device) -> None:
        """Bring them to the device; on the CPU arrays share their memory, unless read-only."""
        self.shape = inputs.shape
        self.num_features = math.prod(self.shape[1:])
        self.numbers: Tensor | None = None
        self.scale = self.shift = torch.empty(0, dtype=torch.float64)
        if isinstance(inputs, ByteImages):
            self._bytes = as_tensor(inputs.pixels).to(device)
            # Tensors, not Python's numbers, by which CUDA multiplies as their reciprocal.
            by_channel = (torch.tensor(part).view(-1, 1, 1) for part in (inputs.mean, inputs.std))
            self._mean, self._std = (part.to(device, torch.float32) for part in by_channel)
            self._most = self.like = torch.tensor([PIXEL_MAX], device=device)
            mean, std = (part.flatten().double() for part in (self._mean, self._std))
            self.scale, self.shift = 1 / (self._most.double() * std), -mean / std
        else:
            self.numbers = as_tensor(inputs).to(device)
            self.like = self.numbers[:0]

    def take(self, rows: Tensor, space: Workspace | None = None) -> Tensor:
        """The numbers of some samples [m, ...].

        Args:
            rows: which [m] int64, on the device.
            space: memory for them; what was taken with it before is overwritten. None: their own.
        """
        if self.numbers is not None:
            if space is None:
                return self.numbers.index_select(0, rows)
            own = space.take("samples", (len(rows), *self.numbers.shape[1:]), self.numbers)
            return torch.index_select(self.numbers, 0, rows, out=own)
        of_rows = self.bytes_of(rows)
        like, shape = self._most, tuple(of_rows.shape)
        taken = like.new_empty(shape) if space is None else space.take("samples", shape, like)
        # As `from_pixels` does it, to the bit; few at a time: all steps find them in the cache.
        parts = zip(torch.split(taken, CACHED), torch.split(of_rows, CACHED), strict=True)
        for part, pixels in parts:
            part.copy_(pixels).div_(self._most).sub_(self._mean).div_(self._std)
        return taken

    def bytes_of(self, rows: Tensor) -> Tensor:
        """The bytes of some images [m, C, H, W] uint8, copied.

        Args:
            rows: as of `take`.
        """
        # Indexing by brackets takes several times as long.
        return self._bytes.index_select(0, rows)


def side_by_side(
    jobs: Sequence[StackJob], samples: Samples, labels: Tensor, space: Workspace | None = None
) -> tuple[list[StackJob], Tensor, Tensor]:
    """Trainings of one stack, and the numbers and labels whose rows theirs are.

    Args:
        jobs: by rows of all samples.
        samples: of all clients.
        labels: of all clients [n, ...].
        space: memory for numbers that were bytes; None: their own.
    """
    if samples.numbers is not None:
        return list(jobs), samples.numbers, labels
    # Once for all epochs: the numbers of the stack's own samples, client after client.
    rows = torch.from_numpy(np.concatenate([job.rows for job in jobs])).to(labels.device)
    ends = np.cumsum([len(job.rows) for job in jobs]).tolist()
    moved = [
        job._replace(rows=np.arange(end - len(job.rows), end))
        for job, end in zip(jobs, ends, strict=True)
    ]
    return moved, samples.take(rows, space), labels.index_select(0, rows)


def as_tensor(array: NDArray[Any]) -> Tensor:
    """An array as a tensor in the same memory; copied if it is read-only, as torch has no such."""
    return torch.from_numpy(np.require(array, requirements="W"))
