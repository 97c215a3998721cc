"""Serial kernel for samples that the user's transform makes anew at each access."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fleetsim.contracts import IntArray, Job, JobResult, WorkKind
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.data.accessed_inputs import AccessedInputs


class AccessKernel(Kernel):
    """Serial kernel on `AccessedInputs`.

    A sample is made from its address: the run's seed, the client, its task, the item, and the
    number of times that the task has read the item before, which is the epoch if none is dropped.
    The server reads its own samples once per evaluation, always with the same draws.
    """

    def __init__(self, module: nn.Module, data: TrainerData, **options: Any) -> None:
        assert data.accessed is not None  # or another kernel had been chosen
        self._inputs = data.accessed
        self._job: Job | None = None
        super().__init__(module, data, **options)

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


@dataclass(slots=True)
class _JobInputs:
    """Samples of one job, in the place of a tensor from which batches are taken."""

    inputs: AccessedInputs
    rows: IntArray
    seed: int
    address: tuple[int, ...]
    device: torch.device
    num_visits: Counter[int] = field(default_factory=Counter)

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        assert dim == 0
        rows = self.rows[index.cpu().numpy()]
        visits = []
        for row in rows.tolist():
            visits.append(self.num_visits[row])
            self.num_visits[row] += 1
        taken = self.inputs.taken(rows, visits, seed=self.seed, address=self.address)
        return torch.from_numpy(taken).to(self.device)
