"""Kernel that trains image networks one client at a time, in their fastest form on a CPU.

`form_of` returns a copy of a network with its own weights. The functions of `local_sgd` compute the
same with it, but for rounding. In the copy

* maps and kernels store the channels of a pixel contiguously (NHWC), from the images on: torch's
  max-pooling and most of oneDNN's convolutions are faster on this layout;
* max-pooling precedes an increasing activation, where a layer list has them in the other order:
  max f(x) = f(max x), with a quarter of the work after a 2 x 2 pooling;
* a ReLU after a normalisation overwrites its input, which no derivative needs;
* convolutions with many weights on small maps are matrix products, see `im2col`;
* other convolutions of 3 x 3 with many channels need a quarter of the products, see `winograd`;
* gradients of a pooled convolution visit the winners alone, see `pooled_convolution`;
* matrix products are computed by oneDNN, where that is exact, see `gemm`.

The choice depends on the layers and the size of an image alone, never on the clock or the
processor's speed, so a network always takes the same form. On one thread of an AMD EPYC of family
26 with torch 2.13, training takes 0.63 of the plain time for FedGRA's CNN, 0.9 for LeNet-5,
ResNet-18 and VGG-16, 0.9 to 1 for ShuffleNet v2; evaluation 0.28, and 0.7 to 0.9 for the others.
Pooled convolutions take another quarter off FedGRA's CNN, and Winograd's algorithm 0.22 off
ResNet-18. A hand-written backward pass of the whole network gained 3 %, so autograd computes it.
"""

import copy
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fleetsim.kernels.base import Kernel
from fleetsim.kernels.conv.im2col import (
    MAX_POSITIONS,
    MIN_WEIGHTS,
    ColumnConv2d,
    is_plain_convolution,
)
from fleetsim.kernels.conv.tiles import TILE, num_tiles
from fleetsim.kernels.cpu import gemm
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.learning.local.sample_losses import HasLoss

_Size = tuple[int, int]

MIN_WINDOW = 4
"""Least number of positions per pooling window for `PooledConv2d`."""
MIN_RUN = 24
"""Least number of contiguous numbers of a patch (input channels times the kernel's width) for which
loops over winners are faster than products with zeros. Pooled 2 x 2, on one thread of an AMD EPYC
of family 25 with torch 2.13, `PooledConv2d` takes of the two layers' time, forward and backward,
when half of the winners have a gradient (and when all have): 1.9 to 2.1 for runs of 3 and 9; 0.76
to 0.94 (1.14 to 1.28) for 12 to 20; 0.60 to 0.79 (0.79 to 1.07) from 24 on. In FedGRA's CNN half of
the winners have a gradient at first, a third after ten clients' training."""
MIN_CHANNELS = 64
MAX_TILE_RATIO = 1.35
"""Limits of Winograd's algorithm: least number of channels on both sides, and largest ratio of the
pixels of whole tiles to those of the output. It also needs fewer weights than `MIN_WEIGHTS`. For
batches of 20 and 50 on one thread of an AMD EPYC of family 25 with torch 2.13, it takes of the
faster other form's time: 1.08 to 1.17 with 32 channels; 0.50 to 0.85 with 64 to 256, the most on
14 x 14 pixels, of which tiles have 1.31 times as many; 0.91 to 2.55 with 1.2 M weights and more."""
EVALUATED_IMAGES = 50
"""Images of one pass through the network without gradients: their maps fit the caches."""

_INCREASING = (nn.ReLU, nn.Sigmoid)
"""Activations that never decrease, so that a maximum may precede them."""
_NORMS = (nn.BatchNorm2d, nn.GroupNorm)


_CONVOLUTIONS = ("Conv2d", "ColumnConv2d", "PooledConv2d", "WinogradConv2d")
"""Forms of convolutions; the choice depends on sizes alone, on every processor."""


class ChannelsLastKernel(Kernel):
    """Kernel that computes on the fastest form of the network."""

    steps_in_backward = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shape, most = self._all_samples.shape[1:], self._local_settings.batching.most
        self.module, self._uses_onednn = form_of(self.module, shape, most)

    def forms(self) -> dict[str, str]:
        """Return the library of the products, and the number of convolutions by form."""
        names = Counter(type(module).__name__ for module in self.module.modules())
        layers = [f"{names[name]} {name}" for name in _CONVOLUTIONS if names[name]]
        return {
            "products": gemm.library(is_onednn=self._uses_onednn),
            "convolutions": ", ".join(layers),
        }


def form_of(
    module: nn.Module, input_shape: tuple[int, ...], batch_size: int
) -> tuple[nn.Module, bool]:
    """Return the form of an image network on the CPU, and whether oneDNN is to multiply in it.

    The network is not changed. An image has the shape (channels, height, width). ValueError: a
    sample is no image; TypeError: the network has its own loss.
    """
    if isinstance(module, HasLoss):
        raise TypeError(f"{type(module).__name__} has a loss of its own, which its copy would lose")
    if len(input_shape) != 3:
        raise ValueError(f"a sample of the shape {input_shape} is no image")
    body: nn.Module = copy.deepcopy(module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    sizes = _sizes(body, input_shape)
    _pool_first(body)
    _rectify_in_place(body)
    _take_columns(body, sizes)
    _take_pooled(body)
    tiled = _take_winograd(body, sizes)
    return _Images(body), _onednn_is_exact(body, sizes, tiled, batch_size)


class _Images(nn.Module):
    """Network that converts images to channels-last, and evaluates few at a time."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor) -> Tensor:
        # No copy for images of one channel; the kernels' layout makes the first maps NHWC.
        nhwc = images.contiguous(memory_format=torch.channels_last)
        if self.training:
            logits: Tensor = self.body(nhwc)
            return logits
        return torch.cat([self.body(part) for part in torch.split(nhwc, EVALUATED_IMAGES)])


def _pool_first(module: nn.Module) -> None:
    """Swap increasing activations with a max-pooling that follows them, in all layer lists."""
    for layers, ordered in list(_lists(module)):
        for i, ((_, first), (_, second)) in enumerate(pairwise(list(ordered))):
            if type(first) in _INCREASING and type(second) is nn.MaxPool2d:
                ordered[i], ordered[i + 1] = ordered[i + 1], ordered[i]
        for name, _ in ordered:
            delattr(layers, name)
        for name, layer in ordered:
            layers.add_module(name, layer)


def _rectify_in_place(module: nn.Module) -> None:
    """Let a ReLU overwrite its input after a normalisation, whose derivative needs no output."""
    for layers, ordered in list(_lists(module)):
        for (_, norm), (name, activation) in pairwise(ordered):
            if type(norm) in _NORMS and type(activation) is nn.ReLU:
                setattr(layers, name, nn.ReLU(inplace=True))


def _take_pooled(module: nn.Module) -> None:
    """Replace convolutions whose pooling leaves few winners, and the pooling, by one layer."""
    for layers, ordered in list(_lists(module)):
        for (name, conv), (name_of_pool, pool) in pairwise(ordered):
            if (
                type(conv) is nn.Conv2d
                and type(pool) is nn.MaxPool2d
                and _has_few_winners(conv, pool)
            ):
                # It imports numba, which takes 0.4 s and 50 MiB.
                from fleetsim.kernels.conv.pooled_convolution import PooledConv2d  # noqa: PLC0415

                setattr(layers, name, PooledConv2d(conv, pool))
                delattr(layers, name_of_pool)


def _has_few_winners(conv: nn.Conv2d, pool: nn.MaxPool2d) -> bool:
    stride = pool.stride
    down, right = (stride, stride) if isinstance(stride, int) else stride
    run = conv.in_channels * conv.kernel_size[1]
    is_supported = is_plain_convolution(conv) and not pool.return_indices
    return is_supported and down * right >= MIN_WINDOW and run >= MIN_RUN


def _lists(module: nn.Module) -> Iterator[tuple[nn.Sequential, list[tuple[str, nn.Module]]]]:
    """Return the layer lists of a network with their layers, but those with a repeated layer."""
    for child in module.modules():
        if type(child) is nn.Sequential:
            ordered = list(child.named_children())
            if len(ordered) == len(child):  # a repeated layer is named once
                yield child, ordered


def _sizes(module: nn.Module, input_shape: tuple[int, ...]) -> dict[str, _Size]:
    """Return the largest output map of every convolution by name, from one image's way through."""
    result: dict[str, _Size] = {}

    def watch(name: str, conv: nn.Conv2d) -> torch.utils.hooks.RemovableHandle:
        def note(_layer: nn.Module, _inputs: object, maps: Tensor) -> None:
            rows, columns = maps.shape[2:]
            result[name] = max(result.get(name, (0, 0)), (rows, columns), key=math.prod)

        return conv.register_forward_hook(note)

    handles = [watch(name, conv) for name, conv in _convolutions(module)]
    module.eval()
    with torch.no_grad():
        module(torch.zeros(1, *input_shape, dtype=next(module.parameters()).dtype))
    for handle in handles:
        handle.remove()
    return result


def _convolutions(module: nn.Module) -> Iterator[tuple[str, nn.Conv2d]]:
    return ((name, layer) for name, layer in module.named_modules() if type(layer) is nn.Conv2d)


def _take_columns(module: nn.Module, sizes: dict[str, _Size]) -> None:
    for name, conv in list(_convolutions(module)):
        is_better = conv.weight.numel() >= MIN_WEIGHTS and math.prod(sizes[name]) <= MAX_POSITIONS
        if is_better and is_plain_convolution(conv):
            _replace(module, name, ColumnConv2d(conv))


def _take_winograd(module: nn.Module, sizes: dict[str, _Size]) -> list[gemm.Shape]:
    """Replace convolutions that are faster by Winograd's algorithm.

    Return the input channels, output channels and tiles of one image, for each.
    """
    space, result = Workspace(), []
    for name, conv in list(_convolutions(module)):
        if _suits_winograd(conv, sizes[name]):
            # It imports numba.
            from fleetsim.kernels.conv.winograd import WinogradConv2d  # noqa: PLC0415

            _replace(module, name, WinogradConv2d(conv, space))
            result.append((conv.in_channels, conv.out_channels, _tiles(sizes[name])))
    return result


def _suits_winograd(conv: nn.Conv2d, size: _Size) -> bool:
    """Return whether the algorithm supports a convolution with this output size and is faster."""
    is_supported = is_plain_convolution(conv) and (conv.kernel_size, conv.stride) == (
        (3, 3),
        (1, 1),
    )
    return (
        is_supported
        and min(conv.in_channels, conv.out_channels) >= MIN_CHANNELS
        and conv.weight.numel() < MIN_WEIGHTS
        and _tiles(size) * TILE**2 <= MAX_TILE_RATIO * math.prod(size)
    )


def _tiles(size: _Size) -> int:
    return math.prod(num_tiles(side) for side in size)


def _replace(module: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(module.get_submodule(parent), child, layer)


def _onednn_is_exact(
    module: nn.Module, sizes: dict[str, _Size], tiled: Sequence[gemm.Shape], batch_size: int
) -> bool:
    """Return whether oneDNN computes a step's products in float32; false if there are none."""
    chains = {
        (layer.weight[0].numel(), len(layer.weight), batch_size * math.prod(sizes.get(name, ())))
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear | ColumnConv2d)
    }
    chains |= {(fan_in, fan_out, batch_size * tiles) for fan_in, fan_out, tiles in tiled}
    return bool(chains) and all(
        gemm.onednn_is_exact(gemm.products((fan_in, fan_out), rows))
        for fan_in, fan_out, rows in chains
    )
