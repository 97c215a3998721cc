"""Serial kernel for samples that the user's transform makes anew at each access."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fleetsim.contracts import IntArray, Job, JobResult, WorkKind
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.data.accessed_inputs import AccessedInputs
from fleetsim.learning.local.step_settings import StepSettings


class AccessKernel(Kernel):
    """Serial kernel on `AccessedInputs`.

    A sample is made from its address: the run's seed, the client, its task, the item, and the
    number of times that the task has read the item before, which is the epoch. So results do not
    depend on the order of jobs, nor on the process. The server reads its own samples once per
    evaluation, always with the same draws.
    """

    def __init__(
        self,
        module: nn.Module,
        data: TrainerData,
        *,
        local_settings: StepSettings,
        seed: int,
        torch_device: str = "cpu",
        **options: Any,
    ) -> None:
        """Build it; arguments and errors are those of `Kernel`."""
        assert data.accessed is not None  # or another kernel had been chosen
        self._inputs = data.accessed
        self._job: Job | None = None
        super().__init__(
            module,
            data,
            local_settings=local_settings,
            seed=seed,
            torch_device=torch_device,
            **options,
        )

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of the jobs of one chunk, in their order."""
        results = []
        for job in jobs:
            self._job = job
            results += super().compute([job])
        self._job = None
        return results

    def _samples(self, rows: IntArray) -> tuple[Any, Tensor]:
        """Return inputs and labels of some rows; those of a training are made at each access."""
        labels = self._labels.index_select(0, torch.from_numpy(rows).to(self._device))
        job = self._job
        address = () if job is None else (job.client, *job.address)
        inputs = _JobInputs(self._inputs, rows, self._seed, address, self._device)
        if job is not None and job.work.kind is WorkKind.TRAIN:
            return inputs, labels
        return inputs.index_select(0, torch.arange(len(rows))), labels


class _JobInputs:
    """Samples of one job, in the place of a tensor from which batches are taken."""

    def __init__(
        self,
        inputs: AccessedInputs,
        rows: IntArray,
        seed: int,
        address: tuple[int, ...],
        device: torch.device,
    ) -> None:
        self._inputs = inputs
        self._rows = rows
        self._seed = seed
        self._address = address
        self._device = device
        self._num_visits = Counter[int]()

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Return the samples at some places, made anew [m, ...]."""
        if dim != 0:
            raise ValueError(f"samples are along dimension 0, not {dim}")
        rows = self._rows[index.cpu().numpy()]
        visits = []
        for row in rows.tolist():
            visits.append(self._num_visits[row])
            self._num_visits[row] += 1
        taken = self._inputs.taken(rows, visits, seed=self._seed, address=self._address)
        return torch.from_numpy(taken).to(self._device)
