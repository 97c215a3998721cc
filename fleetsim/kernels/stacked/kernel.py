"""Kernel that trains many small networks at once."""

from collections.abc import Sequence
from typing import Any

from fleetsim.contracts import Job, JobResult
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.cpu.gemm import library, prefers_onednn
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.kernels.stacked.linear_chain import widths_of
from fleetsim.kernels.stacked.stacked_sgd import stacks, train_stack
from fleetsim.learning.models.hinge_loss import LinearSvm


class StackedKernel(Kernel):
    """Kernel that trains clients in stacks, by hand-written steps, for chains of linear layers.

    Gradients and evaluations are computed one at a time.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        widths = widths_of(self._module)
        if widths is None:
            raise ValueError("only chains of linear layers with ReLU can be stacked")
        self._local_settings.plain_sgd()
        self._widths = widths
        self._hinge = self._module.hinge if isinstance(self._module, LinearSvm) else None
        batch_size = self._local_settings.batch_size
        self._uses_onednn = self.is_on_cpu and prefers_onednn(widths, batch_size)
        self._space = Workspace()

    def forms(self) -> dict[str, str]:
        """Return the library of the stacks' products; other forms follow from the platform."""
        return {"products": library(is_onednn=self._uses_onednn)} if self.is_on_cpu else {}

    def _stacks(self, jobs: Sequence[Job]) -> list[list[int]]:
        return stacks(self._widths, self._lengths(jobs), self._local_settings.batch_size)

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        return train_stack(
            self._widths,
            self._stack_jobs(jobs),
            self._all_samples,
            self._labels,
            self._settings_at(self._rate_of(jobs[0])),
            hinge=self._hinge,
            space=self._space,
        )
