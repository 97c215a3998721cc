"""Training networks on images one client after the other, in the form that the CPU likes best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from fleetsim.contracts import Job, JobResult, Parameters
from fleetsim.learning.kernels.base import Kernel
from fleetsim.learning.kernels.conv.channels_last import form_of
from fleetsim.learning.kernels.cpu.gemm import library, onednn

_CONVOLUTIONS = ("Conv2d", "ColumnConv2d", "PooledConv2d", "WinogradConv2d")
"""Forms of convolutions; sizes alone decide between them, on every processor alike."""


class ChannelsLastKernel(Kernel):
    """Computes what `Kernel` computes, on another form of the network; see `channels_last`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Build it; arguments are those of `Kernel`.

        Raises:
            ScenarioError: the torch device is not there.
            ValueError: the samples are no images.
        """
        super().__init__(*args, **kwargs)
        shape, batch_size = self._all_samples.shape[1:], self._local_settings.batch_size
        form = form_of(self._module, shape, batch_size)
        self._module = form.module
        self._uses_onednn = form.uses_onednn

    def forms(self) -> dict[str, str]:
        """Library of its products, and how many convolutions of which form there are."""
        names = Counter(type(module).__name__ for module in self._module.modules())
        layers = [f"{names[name]} {name}" for name in _CONVOLUTIONS if names[name]]
        return {
            "products": library(is_onednn=self._uses_onednn),
            "convolutions": ", ".join(layers),
        }

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """What the jobs of one chunk yield, in their order."""
        with onednn(is_allowed=self._uses_onednn):
            return super().compute(jobs)

    def _judged(
        self, parameters: Parameters, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        with onednn(is_allowed=self._uses_onednn):
            return super()._judged(parameters, inputs, labels)
