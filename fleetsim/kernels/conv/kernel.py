"""Kernel that trains image networks one client at a time, in their fastest form on a CPU."""

from collections import Counter
from typing import Any

from fleetsim.kernels.base import Kernel
from fleetsim.kernels.conv.channels_last import form_of
from fleetsim.kernels.cpu.gemm import library

_CONVOLUTIONS = ("Conv2d", "ColumnConv2d", "PooledConv2d", "WinogradConv2d")
"""Forms of convolutions; the choice depends on sizes alone, on every processor."""


class ChannelsLastKernel(Kernel):
    """Kernel that computes on another form of the network; see `channels_last`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shape, batch_size = self._all_samples.shape[1:], self._local_settings.batch_size
        form = form_of(self._module, shape, batch_size)
        self._module = form.module
        self._uses_onednn = form.uses_onednn

    def forms(self) -> dict[str, str]:
        """Return the library of the products, and the number of convolutions by form."""
        names = Counter(type(module).__name__ for module in self._module.modules())
        layers = [f"{names[name]} {name}" for name in _CONVOLUTIONS if names[name]]
        return {"products": library(is_onednn=self._uses_onednn), "convolutions": ", ".join(layers)}
