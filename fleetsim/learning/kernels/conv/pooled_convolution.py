"""Convolutions with a max-pooling behind them, whose gradients visit the winners alone.

Of a pooling window one position passes on and takes all of the slope. Behind a pooling of 2 x 2,
three quarters of the convolution's positions have slope 0, and behind a ReLU many of the winners as
well: those that lost to 0. With y = max over a window of (W * x + b), s a slope of y, p its
winner's place and x_p the patch of the padded input there,

    dW = sum over winners of s x_p,    dx = sum over winners of s W at p,    db = sum of s.

Dense products, which is what torch computes, spend most of their work on zeros. The sums are the
same but for rounding; only where an input or a weight is not finite do they differ, since dense
products make NaN of 0 times infinity.

They are loops in Python, which numba compiles to the processor's instructions: torch has no
operation for them. What is added in which order follows from the places alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d_with_indices, pad

from fleetsim.learning.kernels.cpu.compiled import compiled

_Array = NDArray[Any]


class PooledConv2d(nn.Module):
    """Computes what an `nn.Conv2d` and an `nn.MaxPool2d` behind it compute; shares its weights."""

    def __init__(self, conv: nn.Conv2d, pool: nn.MaxPool2d) -> None:
        """Take over the two, and compile the loops, so that forks of this process have them.

        Args:
            conv: on the CPU; a plain one, see `columns.is_plain_convolution`.
            pool: its output is wanted alone, not the places.
        """
        super().__init__()
        self.weight = conv.weight
        self.bias = conv.bias
        self._conv = (conv.stride, conv.padding)
        self._pool = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
        _compile(conv.weight.dtype)

    def forward(self, maps: Tensor) -> Tensor:
        """[n, C, H, W] to [n, C', H', W'], in channels-last layout."""
        found: Tensor = _PooledConvolution.apply(  # type: ignore[no-untyped-call]
            maps, self.weight, self.bias, self._conv, self._pool
        )
        return found


class _PooledConvolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        conv: tuple[tuple[int, int], tuple[int, int]],
        pool: tuple[Any, ...],
    ) -> Tensor:
        stride, padding = conv
        convolved = conv2d(maps, weight, bias, stride, padding)
        found, winners = max_pool2d_with_indices(convolved, *pool)
        ctx.save_for_backward(maps, weight, winners)
        ctx.stride, ctx.padding, ctx.convolved_shape = stride, padding, convolved.shape[2:]
        return found

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        maps, weight, winners = ctx.saved_tensors
        needs_maps, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        above, left = ctx.padding
        num_samples, num_in, height, width = maps.shape
        rows, columns = height + 2 * above, width + 2 * left
        pitch = columns * num_in
        slopes, places = _by_pixel(gradient), _by_pixel(winners)
        starts = _starts(ctx.convolved_shape, ctx.stride, columns, num_in).numpy()
        flat_weight = _rows_of(weight)
        for_maps = for_weight = None
        if needs_weight:
            padded = pad(maps.permute(0, 2, 3, 1), (0, 0, left, left, above, above))
            sums = torch.zeros_like(flat_weight)
            flat = padded.contiguous().view(num_samples, -1).numpy()
            _add_weight_slopes(flat, slopes, places, starts, pitch, sums.numpy())
            for_weight = sums.view(len(weight), *weight.shape[2:], num_in).permute(0, 3, 1, 2)
        if needs_maps:
            spread = maps.new_zeros(num_samples, rows, columns, num_in)
            target = spread.view(num_samples, -1).numpy()
            _add_map_slopes(flat_weight.numpy(), slopes, places, starts, pitch, target)
            kept = spread[:, above : above + height, left : left + width]
            for_maps = kept.permute(0, 3, 1, 2)
        for_bias = gradient.sum(dim=(0, 2, 3)) if needs_bias else None
        return for_maps, for_weight, for_bias, None, None


def _compile(dtype: torch.dtype) -> None:
    """Compile the loops for arrays of this type, if they are not."""
    one = torch.zeros(1, 1, 1, dtype=dtype).numpy()
    first = np.zeros(1, np.int64)
    place = first.reshape(1, 1, 1)
    _add_weight_slopes(one[0], one, place, first, 1, one)
    _add_map_slopes(one, one, place, first, 1, one[0])


def _by_pixel(maps: Tensor) -> _Array:
    """[n, C, H, W] as [n, H * W, C]; a view if it is channels-last."""
    found: _Array = maps.permute(0, 2, 3, 1).flatten(1, 2).contiguous().numpy()
    return found


def _rows_of(weight: Tensor) -> Tensor:
    """[C', C, height, width] as [C', height, width * C]; a view if it is channels-last."""
    return weight.detach().permute(0, 2, 3, 1).flatten(2).contiguous()


def _starts(
    convolved_shape: tuple[int, int], stride: tuple[int, int], columns: int, num_in: int
) -> Tensor:
    """Where in a padded sample, flat, the patch of every position of the convolution begins."""
    (height, width), (down, right) = convolved_shape, stride
    first = torch.arange(height)[:, None] * (down * columns) + torch.arange(width) * right
    return (first * num_in).flatten()


@compiled
def _take_active(
    slopes: _Array, places: _Array, channel: int, starts: _Array, begin: _Array, slope: _Array
) -> int:
    """Note where the patches of a channel's winners begin, and their slopes; those of 0 left out.

    Args:
        slopes: of one sample [pixels, C'].
        places: winners' positions in the convolution's output [pixels, C'].
        channel: which.
        starts: beginning of every position's patch [positions].
        begin: to be filled [>= pixels + 3].
        slope: to be filled, with zeros up to a multiple of four.

    Returns:
        How many there are.
    """
    count = 0
    for pixel in range(len(slopes)):
        begin[count] = starts[places[pixel, channel]]
        slope[count] = slopes[pixel, channel]
        count += slope[count] != 0.0
    for spare in range(count, count + 3):
        begin[spare] = 0
        slope[spare] = 0.0
    return count


@compiled
def _add_weight_slopes(
    padded: _Array, slopes: _Array, places: _Array, starts: _Array, pitch: int, target: _Array
) -> None:
    """Add the weights' gradient to `target`.

    Args:
        padded: samples with their padding, flat [n, rows * columns * C].
        slopes: by pooled pixel [n, pixels, C'].
        places: winners' positions in the convolution's output [n, pixels, C'].
        starts: beginning of every position's patch in a padded sample [positions].
        pitch: columns * C.
        target: [C', height, width * C].
    """
    num_samples, num_pixels, num_out = slopes.shape
    height, length = target.shape[1:]
    begin = np.empty(num_pixels + 3, np.int64)
    slope = np.empty(num_pixels + 3, slopes.dtype)
    for i in range(num_samples):
        sample = padded[i]
        for channel in range(num_out):
            count = _take_active(slopes[i], places[i], channel, starts, begin, slope)
            for row in range(height):
                sums = target[channel, row]
                below = row * pitch
                # Four at a time: the sums are read and written once for all of them.
                for one in range(0, count, 4):
                    at_0, at_1 = begin[one] + below, begin[one + 1] + below
                    at_2, at_3 = begin[one + 2] + below, begin[one + 3] + below
                    x_0, x_1 = sample[at_0 : at_0 + length], sample[at_1 : at_1 + length]
                    x_2, x_3 = sample[at_2 : at_2 + length], sample[at_3 : at_3 + length]
                    s_0, s_1, s_2, s_3 = slope[one], slope[one + 1], slope[one + 2], slope[one + 3]
                    for k in range(length):
                        sums[k] += s_0 * x_0[k] + s_1 * x_1[k] + s_2 * x_2[k] + s_3 * x_3[k]


@compiled
def _add_map_slopes(
    weight: _Array, slopes: _Array, places: _Array, starts: _Array, pitch: int, target: _Array
) -> None:
    """Add the input's gradient to `target` [n, rows * columns * C], with its padding.

    Other arguments are those of `_add_weight_slopes`; the weights are [C', height, width * C].
    """
    num_samples, num_pixels, num_out = slopes.shape
    height, length = weight.shape[1:]
    begin = np.empty(num_pixels + 3, np.int64)
    slope = np.empty(num_pixels + 3, slopes.dtype)
    for i in range(num_samples):
        sample = target[i]
        for channel in range(num_out):
            count = _take_active(slopes[i], places[i], channel, starts, begin, slope)
            for row in range(height):
                weights = weight[channel, row]
                for one in range(count):
                    at = begin[one] + row * pitch
                    sums, factor = sample[at : at + length], slope[one]
                    for k in range(length):
                        sums[k] += factor * weights[k]
