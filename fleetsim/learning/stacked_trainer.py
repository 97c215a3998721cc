"""Training many clients at once, where the network allows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim.contracts import Evaluation, Job, JobResult, Parameters, WorkKind
from fleetsim.learning.gemm import onednn, onednn_is_exact
from fleetsim.learning.linear_chain import widths_of
from fleetsim.learning.settings import LocalSettings
from fleetsim.learning.stacked import StackJob, train_together
from fleetsim.learning.trainers import DataTrainer, TrainerData


class StackedTrainer(DataTrainer):
    """Trains all clients whose results are asked for together, in stacks.

    For chains of linear layers with ReLU only. Equals SerialTrainer but for rounding. Gradients and
    evaluations are computed one by one.
    """

    def __init__(
        self,
        module: nn.Module,
        data: TrainerData,
        *,
        local_settings: LocalSettings,
        seed: int,
        torch_device: str = "cpu",
    ) -> None:
        """Build it; arguments are those of `DataTrainer`.

        Raises:
            ScenarioError: the torch device is not there.
            ValueError: the network is no such chain.
        """
        super().__init__(
            module, data, local_settings=local_settings, seed=seed, torch_device=torch_device
        )
        widths = widths_of(module)
        if widths is None:
            raise ValueError("only chains of linear layers with ReLU can be stacked")
        self._widths = widths
        is_on_cpu = self._device.type == "cpu"
        self._uses_onednn = is_on_cpu and onednn_is_exact(widths, local_settings.batch_size)
        # On the CPU these share the arrays' memory, unless they are read-only.
        self._inputs = _tensor(data.train_inputs).flatten(1).to(self._device)
        self._labels = _tensor(data.train_labels).to(self._device)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy (fraction) and mean cross-entropy of a model [P] on the server's test set."""
        with onednn(is_allowed=self._uses_onednn):
            return super().evaluate(parameters)

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """The same on the samples kept for selectors; None if none are kept."""
        with onednn(is_allowed=self._uses_onednn):
            return super().validate(parameters)

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        # The order in which results are asked for must not show in who shares a stack.
        order = sorted(range(len(jobs)), key=lambda i: (jobs[i].client, jobs[i].address))
        trained = [i for i in order if jobs[i].work.kind is WorkKind.TRAIN]
        with onednn(is_allowed=self._uses_onednn):
            results = {
                i: self._compute_one(jobs[i])
                for i in order
                if jobs[i].work.kind is not WorkKind.TRAIN
            }
            results |= zip(trained, self._train([jobs[i] for i in trained]), strict=True)
        return [results[i] for i in range(len(jobs))]

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        shares = self._data.shares
        results = train_together(
            self._widths,
            [
                StackJob(job.base, shares[job.client], job.work.epochs, self._stream(job))
                for job in jobs
            ],
            self._inputs,
            self._labels,
            self._local_settings,
        )
        for job in jobs:
            self._count_steps(job)
        return results


def _tensor(array: NDArray[Any]) -> Tensor:
    """An array as a tensor in the same memory; copied if it is read-only, as torch has no such."""
    return torch.from_numpy(np.require(array, requirements="W"))
