"""Kernel that trains many clients at once, for any network that torch can vectorise."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from fleetsim.contracts import Job, JobResult
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.device_samples import stack_samples
from fleetsim.kernels.vmap.vmap_sgd import STACK_BYTE, fault, footprint, stacks, train_stack
from fleetsim.learning.local.step_settings import Precision


class VectorisedKernel(Kernel):
    """Kernel that trains clients in stacks, by `torch.func.vmap`, on samples as they are.

    Gradients and evaluations are computed one at a time, in float32.
    """

    def __init__(self, *args: Any, precision: Precision = "float32", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        message = fault(self._module)
        if message is not None:
            raise ValueError(f"clients of this network cannot be trained at once: {message}")
        if not self._local_settings.augmentation.is_none:
            raise ValueError("samples of clients that train at once are not augmented")
        self._precision = precision
        first = torch.zeros(1, dtype=torch.int64, device=self._device)
        self._footprint = footprint(self._module, self._all_samples.take(first))
        self._stack_byte = STACK_BYTE[self._device.type]

    def _stacks(self, jobs: Sequence[Job]) -> list[list[int]]:
        return stacks(self._footprint, self._lengths(jobs), self._local_settings, self._stack_byte)

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        stack, inputs, labels = stack_samples(
            self._stack_jobs(jobs), self._all_samples, self._labels
        )
        with warnings.catch_warnings():
            # Torch computes some operations for one client at a time, which changes no result.
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            return train_stack(
                self._module,
                stack,
                inputs,
                labels,
                self._settings_at(self._rate_of(jobs[0])),
                precision=self._precision,
                own_loss=self._own_loss,
            )
