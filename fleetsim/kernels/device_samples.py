"""Samples and initial models in the memory of the torch device that trains."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetsim.contracts import Parameters
from fleetsim.kernels.batches import StackJob
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.learning.data.dataset import ByteImages
from fleetsim.learning.data.standardisation import CACHED, PIXEL_MAX


class DeviceSamples:
    """Samples of all clients on a torch device; bytes of images become numbers when they are taken.

    Attributes:
        numbers: the samples as numbers; None for images that are kept as bytes.
        like: empty or small tensor with the samples' number type and device.
        scale: factor of the bytes of each channel [C] float64; empty for samples that are no bytes.
        shift: addend after the factor [C] float64; likewise.
    """

    def __init__(self, inputs: NDArray[Any] | ByteImages, device: torch.device) -> None:
        self.shape = inputs.shape
        self.num_features = math.prod(self.shape[1:])
        self.numbers: Tensor | None = None
        self.scale = self.shift = torch.empty(0, dtype=torch.float64)
        if isinstance(inputs, ByteImages):
            self._bytes = as_tensor(inputs.pixels).to(device)
            # Tensors: CUDA replaces a division by a Python number with a product of its reciprocal.
            by_channel = (torch.tensor(part).view(-1, 1, 1) for part in (inputs.mean, inputs.std))
            self._mean, self._std = (part.to(device, torch.float32) for part in by_channel)
            self._most = self.like = torch.tensor([PIXEL_MAX], device=device)
            mean, std = (part.flatten().double() for part in (self._mean, self._std))
            self.scale, self.shift = 1 / (self._most.double() * std), -mean / std
        else:
            self.numbers = as_tensor(inputs).to(device)
            self.like = self.numbers[:0]

    def take(self, rows: Tensor, space: Workspace | None = None) -> Tensor:
        """Return some samples as numbers [m, ...], in new memory or in that of a space."""
        if self.numbers is not None:
            if space is None:
                return self.numbers.index_select(0, rows)
            target = space.take("samples", (len(rows), *self.numbers.shape[1:]), self.numbers)
            return torch.index_select(self.numbers, 0, rows, out=target)
        of_rows = self.bytes_of(rows)
        like, shape = self._most, tuple(of_rows.shape)
        taken = like.new_empty(shape) if space is None else space.take("samples", shape, like)
        # Bit for bit as `from_pixels`; few at a time, so that they stay in the cache.
        parts = zip(torch.split(taken, CACHED), torch.split(of_rows, CACHED), strict=True)
        for part, pixels in parts:
            part.copy_(pixels).div_(self._most).sub_(self._mean).div_(self._std)
        return taken

    def bytes_of(self, rows: Tensor) -> Tensor:
        """Return a copy of the bytes of some images [m, C, H, W] uint8."""
        # Indexing by brackets takes several times as long.
        return self._bytes.index_select(0, rows)


def stack_samples(
    jobs: Sequence[StackJob], samples: DeviceSamples, labels: Tensor, space: Workspace | None = None
) -> tuple[list[StackJob], Tensor, Tensor]:
    """Return the trainings of one stack, with the numbers and labels that their rows refer to.

    Numbers are converted from bytes into `space`; without it, into new memory.
    """
    if samples.numbers is not None:
        return list(jobs), samples.numbers, labels
    # Converted once for all epochs: the samples of the stack's clients alone.
    rows = torch.from_numpy(np.concatenate([job.rows for job in jobs])).to(labels.device)
    ends = np.cumsum([len(job.rows) for job in jobs]).tolist()
    moved = [
        job._replace(rows=np.arange(end - len(job.rows), end))
        for job, end in zip(jobs, ends, strict=True)
    ]
    return moved, samples.take(rows, space), labels.index_select(0, rows)


def on_device(
    bases: Sequence[Parameters], *, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the distinct bases on a device [D, P], and the row of each model's base [K] int64.

    Bases are flat vectors [P], one per model; an array that several models share is copied once.
    """
    distinct = {id(base): base for base in bases}
    row = {key: index for index, key in enumerate(distinct)}
    flat = torch.from_numpy(np.stack(list(distinct.values()))).to(device, dtype)
    owner = torch.from_numpy(np.array([row[id(base)] for base in bases])).to(device)
    return flat, owner


def as_tensor(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor in the same memory; a copy if it is read-only."""
    return torch.from_numpy(np.require(array, requirements="W"))
