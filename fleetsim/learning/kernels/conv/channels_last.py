"""The fastest form of an image network on a CPU, for training one client after the other.

`form_of` makes a copy of a network with which the functions of `local` compute the same but
for rounding. It is a network

* whose maps and kernels keep the channels of a pixel side by side (NHWC), from the images on:
  torch's max-pooling and most of oneDNN's convolutions are faster so;
* that pools before it applies a rising activation, where a layer list has them the other way round:
  max f(x) = f(max x), with a quarter of the work behind a 2 x 2 pooling;
* whose convolutions with many weights on small maps are matrix products, see `columns`;
* whose other convolutions of 3 x 3 with many channels multiply a quarter as much, see `winograd`;
* whose gradients visit the winners alone where a convolution is pooled, see `pooled_convolution`;
* whose matrix products are oneDNN's, where that is exact, see `gemm`.

The copy's weights lie elsewhere in memory, but its flat vectors are those of the network.

Which of these apply follows from the layers and the size of an image, never from the clock or from
the processor's speed, so a network always takes the same form. Milliseconds, plain / this form, on
one thread of an AMD EPYC of family 26 with torch 2.13 (least of six interleaved runs), and of the
NHWC layout alone for one step of 20 images:

| network | images, batch | training | evaluation | NHWC alone |
|---|---|---:|---:|---:|
| FedGRA's CNN | 600 / 1,000 of 28x28, 50 | 330 / 207 | 425 / 119 | |
| LeNet-5 | 600 / 1,000 of 28x28, 50 | 38 / 34 | 32 / 23 | |
| ResNet-18, group | 100 of 32x32, 20 | 1,714 / 1,600 | 632 / 508 | 327 / 322 |
| ResNet-18, batch | 40 / 100 of 32x32, 20 | 726 / 647 | 563 / 488 | 351 / 320 |
| VGG-16, group | 40 / 100 of 32x32, 20 | 518 / 465 | 377 / 309 | 207 / 205 |
| VGG-16, batch | 40 / 100 of 32x32, 20 | 502 / 466 | 321 / 278 | 206 / 218 |
| ShuffleNet v2, group | 40 / 100 of 32x32, 20 | 180 / 182 | 135 / 109 | 75 / 79 |
| ShuffleNet v2, batch | 40 / 100 of 32x32, 20 | 206 / 185 | 127 / 98 | 89 / 80 |

Convolutions were not joined with their poolings then. This takes FedGRA's CNN to 0.75 of the time
that it had on an AMD EPYC of family 25, GPFL's to 0.83, LeNet-5 to 0.98. Nor was any of them
Winograd's, which takes a step of ResNet-18 with 20 images to 0.78. A backward pass of the
whole network written out by hand gained 3 % on FedGRA's CNN, and is left to autograd.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from fleetsim.learning.kernels.conv.im2col import (
    MAX_POSITIONS,
    MIN_WEIGHTS,
    ColumnConv2d,
    is_plain_convolution,
)
from fleetsim.learning.kernels.conv.tiles import TILE, num_tiles
from fleetsim.learning.kernels.cpu import gemm
from fleetsim.learning.kernels.cpu.workspace import Workspace
from fleetsim.learning.local.local_sgd import HasLoss

_Size = tuple[int, int]

MIN_WINDOW = 4
"""Positions to a window from which a pooling leaves few enough winners."""
MIN_RUN = 24
"""Numbers of a patch that lie side by side, input channels times the kernel's width, from which
loops over winners win against products of zeros. Seconds of `PooledConv2d` per second of the two
layers, forward and backward, pooled 2 x 2, when half of the winners have a slope and when all have,
on one thread of an AMD EPYC of family 25 with torch 2.13 (least of 15 interleaved runs):

| channels | map, batch | run | half | all |
|---|---|---:|---:|---:|
| 1 to 32, 3x3 (weights alone) | 28x28, 50 | 3 | 1.9 | |
| 3 to 32, 3x3 (weights alone) | 32x32, 50 | 9 | 2.1 | |
| 4 to 16, 3x3 | 16x16, 50 | 12 | 0.90 | 1.28 |
| 6 to 16, 3x3 | 16x16, 50 | 18 | 0.94 | 1.26 |
| 4 to 16, 5x5 | 16x16, 50 | 20 | 0.76 | 1.14 |
| 8 to 16, 3x3 | 16x16, 50 | 24 | 0.79 | 1.02 |
| 6 to 16, 5x5 | 14x14, 50 | 30 | 0.69 | 0.95 |
| 16 to 32, 3x3 | 16x16, 50 | 48 | 0.79 | 1.07 |
| 32 to 64, 3x3 | 13x13, 50 | 96 | 0.64 | 0.79 |
| 32 to 64, 5x5 | 14x14, 50 | 160 | 0.65 | 0.90 |
| 64 to 64, 3x3 | 32x32, 20 | 192 | 0.63 | 0.85 |
| 256 to 256, 3x3 | 8x8, 20 | 768 | 0.60 | 0.81 |

In FedGRA's CNN a third of the winners have one after ten clients' training, half at first.
"""
MIN_CHANNELS = 64
MOST_FILLED = 1.35
"""Where Winograd's algorithm wins: from so many channels on both sides, with fewer weights than
`MIN_WEIGHTS`, and up to so many pixels in whole tiles per pixel of the output. Seconds of
`WinogradConv2d` per second of the faster of the other two forms, forward and backward, on one
thread of an AMD EPYC of family 25 with torch 2.13, for batches of 20 and 50 (least of 12 runs):

| channels | output map | filled | weights | ratio |
|---|---|---:|---:|---|
| 32 to 32 | 16x16 | 1 | 9 k | 1.08, 1.17 |
| 64 to 64 | 14x14 | 1.31 | 37 k | 0.83, 0.85 |
| 64 to 64 | 32x32 | 1 | 37 k | 0.59, 0.61 |
| 128 to 128 | 16x16 | 1 | 147 k | 0.53, 0.50 |
| 128 to 256 | 8x8 | 1 | 295 k | 0.73, 0.57 |
| 256 to 256 | 8x8 | 1 | 590 k | 0.69, 0.57 |
| 256 to 512 | 4x4 | 1 | 1.2 M | 1.45, 0.91 |
| 512 to 512 | 4x4 | 1 | 2.4 M | 2.55, 1.34 |
"""
PART = 50
"""Images of one pass through the network where no gradient is wanted: their maps fit the caches."""

_RISING = (nn.ReLU, nn.Sigmoid)
"""Activations that never fall, so that they may change places with a maximum."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A network in the form that is fastest to train."""

    module: nn.Module
    """Takes and gives what the network takes and gives, with the same flat vector."""
    uses_onednn: bool
    """Whether it is to be used within `gemm.onednn`."""


def form_of(module: nn.Module, input_shape: tuple[int, ...], batch_size: int) -> Form:
    """The form of an image network for training one client after the other.

    Args:
        module: network on the CPU; it is copied and not changed.
        input_shape: (channels, height, width) of one image.
        batch_size: images of a training step.

    Raises:
        ValueError: a sample is no image.
        TypeError: the network has a loss of its own.
    """
    if isinstance(module, HasLoss):
        raise TypeError(f"{type(module).__name__} has a loss of its own, which its copy would lose")
    if len(input_shape) != 3:
        raise ValueError(f"a sample of the shape {input_shape} is no image")
    body: nn.Module = copy.deepcopy(module).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    sizes = _sizes(body, input_shape)
    _pool_first(body)
    _take_columns(body, sizes)
    _take_pooled(body)
    tiled = _take_winograd(body, sizes)
    return Form(_Images(body), _onednn_is_exact(body, sizes, tiled, batch_size))


class _Images(nn.Module):
    """Hands images to a network channels-last, and in parts where batches have no meaning."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: Tensor) -> Tensor:
        """[n, C, H, W] to logits [n, classes]."""
        # Of images of one channel this is no copy; the kernels' layout makes the first maps NHWC.
        nhwc = images.contiguous(memory_format=torch.channels_last)
        if self.training:
            logits: Tensor = self.body(nhwc)
            return logits
        return torch.cat([self.body(part) for part in torch.split(nhwc, PART)])


def _pool_first(module: nn.Module) -> None:
    """Let rising activations and the max-pooling behind them change places, in all layer lists."""
    for layers, ordered in list(_lists(module)):
        for i, ((_, first), (_, second)) in enumerate(pairwise(list(ordered))):
            if type(first) in _RISING and type(second) is nn.MaxPool2d:
                ordered[i], ordered[i + 1] = ordered[i + 1], ordered[i]
        for name, _ in ordered:
            delattr(layers, name)
        for name, layer in ordered:
            layers.add_module(name, layer)


def _take_pooled(module: nn.Module) -> None:
    """Replace the convolutions whose pooling leaves few winners, and the pooling, by one layer."""
    for layers, ordered in list(_lists(module)):
        for (name, conv), (name_of_pool, pool) in pairwise(ordered):
            if type(conv) is nn.Conv2d and type(pool) is nn.MaxPool2d and _pays(conv, pool):
                # Numba, in which its loops are written, takes 0.4 s and 50 MiB to import.
                from fleetsim.learning.kernels.conv.pooled_convolution import PooledConv2d  # noqa: PLC0415

                setattr(layers, name, PooledConv2d(conv, pool))
                delattr(layers, name_of_pool)


def _pays(conv: nn.Conv2d, pool: nn.MaxPool2d) -> bool:
    """Whether gradients that visit the winners alone are faster, and `PooledConv2d` knows such."""
    stride = pool.stride
    down, right = (stride, stride) if isinstance(stride, int) else stride
    run = conv.in_channels * conv.kernel_size[1]
    is_known = is_plain_convolution(conv) and not pool.return_indices
    return is_known and down * right >= MIN_WINDOW and run >= MIN_RUN


def _lists(module: nn.Module) -> Iterator[tuple[nn.Sequential, list[tuple[str, nn.Module]]]]:
    """Layer lists within a network, and their layers; but those in which one occurs twice."""
    for child in module.modules():
        if type(child) is nn.Sequential:
            ordered = list(child.named_children())
            if len(ordered) == len(child):  # a layer that occurs twice is named once
                yield child, ordered


def _sizes(module: nn.Module, input_shape: tuple[int, ...]) -> dict[str, _Size]:
    """Size of the output map of every convolution, by its name; largest if it is used often.

    Found by sending one image through the network.
    """
    found: dict[str, _Size] = {}

    def watch(name: str, conv: nn.Conv2d) -> torch.utils.hooks.RemovableHandle:
        def note(_layer: nn.Module, _inputs: object, maps: Tensor) -> None:
            rows, columns = maps.shape[2:]
            found[name] = max(found.get(name, (0, 0)), (rows, columns), key=math.prod)

        return conv.register_forward_hook(note)

    handles = [watch(name, conv) for name, conv in _convolutions(module)]
    module.eval()
    with torch.no_grad():
        module(torch.zeros(1, *input_shape, dtype=next(module.parameters()).dtype))
    for handle in handles:
        handle.remove()
    return found


def _convolutions(module: nn.Module) -> Iterator[tuple[str, nn.Conv2d]]:
    return ((name, layer) for name, layer in module.named_modules() if type(layer) is nn.Conv2d)


def _take_columns(module: nn.Module, sizes: dict[str, _Size]) -> None:
    """Replace the convolutions that are faster as matrix products."""
    for name, conv in list(_convolutions(module)):
        is_better = conv.weight.numel() >= MIN_WEIGHTS and math.prod(sizes[name]) <= MAX_POSITIONS
        if is_better and is_plain_convolution(conv):
            _replace(module, name, ColumnConv2d(conv))


def _take_winograd(module: nn.Module, sizes: dict[str, _Size]) -> list[gemm.Shape]:
    """Replace the convolutions that are faster by Winograd's algorithm.

    Returns:
        For each, input channels, output channels and tiles of one image.
    """
    space, found = Workspace(), []
    for name, conv in list(_convolutions(module)):
        if _suits_winograd(conv, sizes[name]):
            # As of `pooled_convolution`.
            from fleetsim.learning.kernels.conv.winograd import WinogradConv2d  # noqa: PLC0415

            _replace(module, name, WinogradConv2d(conv, space))
            found.append((conv.in_channels, conv.out_channels, _tiles(sizes[name])))
    return found


def _suits_winograd(conv: nn.Conv2d, size: _Size) -> bool:
    """Whether the algorithm is for a convolution with an output of this size, and faster."""
    is_known = is_plain_convolution(conv) and (conv.kernel_size, conv.stride) == ((3, 3), (1, 1))
    return (
        is_known
        and min(conv.in_channels, conv.out_channels) >= MIN_CHANNELS
        and conv.weight.numel() < MIN_WEIGHTS
        and _tiles(size) * TILE**2 <= MOST_FILLED * math.prod(size)
    )


def _tiles(size: _Size) -> int:
    """Tiles that a map takes."""
    return math.prod(num_tiles(side) for side in size)


def _replace(module: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(module.get_submodule(parent), own, layer)


def _onednn_is_exact(
    module: nn.Module, sizes: dict[str, _Size], tiled: Sequence[gemm.Shape], batch_size: int
) -> bool:
    """Whether oneDNN multiplies in float32 what a step multiplies; False if that is nothing."""
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
