"""Convolutions followed by a max-pooling, whose gradients visit the winners alone.

The winner of a pooling window, its largest position, takes all of the gradient. With y = max over a
window of (W * x + b), s a gradient by y, p its winner's place and x_p the patch of the padded input
there,

    dW = sum over winners of s x_p,    dx = sum over winners of s W at p,    db = sum of s.

Dense products spend most of their work on zeros: with a pooling of 2 x 2, three quarters of the
gradients, and after a ReLU those of winners below 0. The sums are equal but for rounding, unless an
input or a weight is not finite: dense products give NaN for 0 times infinity. Torch has no
operation for them, so numba compiles loops, whose order of addition follows from the winners alone.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d_with_indices, pad

from fleetsim.kernels.cpu.compiled import compiled

_Array = NDArray[Any]


class PooledConv2d(nn.Module):
    """Layer equal to an `nn.Conv2d` with an `nn.MaxPool2d` after it; shares the weights."""

    def __init__(self, conv: nn.Conv2d, pool: nn.MaxPool2d) -> None:
        """Replace a plain convolution on the CPU and a pooling; compile before a fork."""
        super().__init__()
        self.weight = conv.weight
        self.bias = conv.bias
        self._conv = (conv.stride, conv.padding)
        self._pool = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
        _compile(conv.weight.dtype)

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, C, H, W] to [n, C', H', W'] in channels-last layout."""
        result: Tensor = _PooledConvolution.apply(  # type: ignore[no-untyped-call]
            maps, self.weight, self.bias, self._conv, self._pool
        )
        return result


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
        result, winners = max_pool2d_with_indices(convolved, *pool)
        ctx.save_for_backward(maps, weight, winners)
        ctx.stride, ctx.padding, ctx.convolved_shape = stride, padding, convolved.shape[2:]
        return result

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
        gradients, places = _by_pixel(gradient), _by_pixel(winners)
        starts = _starts(ctx.convolved_shape, ctx.stride, columns, num_in).numpy()
        flat_weight = _rows_of(weight)
        for_maps = for_weight = None
        if needs_weight:
            padded = pad(maps.permute(0, 2, 3, 1), (0, 0, left, left, above, above))
            sums = torch.zeros_like(flat_weight)
            flat = padded.contiguous().view(num_samples, -1).numpy()
            _add_weight_gradients(flat, gradients, places, starts, pitch, sums.numpy())
            for_weight = sums.view(len(weight), *weight.shape[2:], num_in).permute(0, 3, 1, 2)
        if needs_maps:
            spread = maps.new_zeros(num_samples, rows, columns, num_in)
            target = spread.view(num_samples, -1).numpy()
            _add_map_gradients(flat_weight.numpy(), gradients, places, starts, pitch, target)
            kept = spread[:, above : above + height, left : left + width]
            for_maps = kept.permute(0, 3, 1, 2)
        for_bias = gradient.sum(dim=(0, 2, 3)) if needs_bias else None
        return for_maps, for_weight, for_bias, None, None


def _compile(dtype: torch.dtype) -> None:
    one = torch.zeros(1, 1, 1, dtype=dtype).numpy()
    first = np.zeros(1, np.int64)
    place = first.reshape(1, 1, 1)
    _add_weight_gradients(one[0], one, place, first, 1, one)
    _add_map_gradients(one, one, place, first, 1, one[0])


def _by_pixel(maps: Tensor) -> _Array:
    """Reshape [n, C, H, W] to [n, H * W, C]; a view if it is channels-last."""
    result: _Array = maps.permute(0, 2, 3, 1).flatten(1, 2).contiguous().numpy()
    return result


def _rows_of(weight: Tensor) -> Tensor:
    """Reshape [C', C, height, width] to [C', height, width * C]; a view if it is channels-last."""
    return weight.detach().permute(0, 2, 3, 1).flatten(2).contiguous()


def _starts(
    convolved_shape: tuple[int, int], stride: tuple[int, int], columns: int, num_in: int
) -> Tensor:
    """Return the start of every position's patch in a flat padded sample [positions]."""
    (height, width), (down, right) = convolved_shape, stride
    first = torch.arange(height)[:, None] * (down * columns) + torch.arange(width) * right
    return (first * num_in).flatten()


@compiled
def _take_active(
    gradients: _Array, places: _Array, channel: int, starts: _Array, begin: _Array, active: _Array
) -> int:
    """Collect the patches' starts and the gradients of a channel's winners, but those of 0.

    They go into `begin` and `active` [>= pixels + 3], with zeros up to a multiple of four; the
    number of them is returned. Other arrays are those of one sample in `_add_weight_gradients`.
    """
    count = 0
    for pixel in range(len(gradients)):
        begin[count] = starts[places[pixel, channel]]
        active[count] = gradients[pixel, channel]
        count += active[count] != 0.0
    for spare in range(count, count + 3):
        begin[spare] = 0
        active[spare] = 0.0
    return count


@compiled
def _add_weight_gradients(
    padded: _Array, gradients: _Array, places: _Array, starts: _Array, pitch: int, target: _Array
) -> None:
    """Add the weights' gradient to `target`.

    Args:
        padded: samples with their padding, flat [n, rows * columns * C].
        gradients: gradients by pooled pixel [n, pixels, C'].
        places: winners' positions in the convolution's output [n, pixels, C'].
        starts: start of every position's patch in a padded sample [positions].
        pitch: numbers of one row, columns * C.
        target: weights' gradient [C', height, width * C].
    """
    num_samples, num_pixels, num_out = gradients.shape
    height, length = target.shape[1:]
    begin = np.empty(num_pixels + 3, np.int64)
    active = np.empty(num_pixels + 3, gradients.dtype)
    for i in range(num_samples):
        sample = padded[i]
        for channel in range(num_out):
            count = _take_active(gradients[i], places[i], channel, starts, begin, active)
            for row in range(height):
                sums = target[channel, row]
                below = row * pitch
                # Four at a time: the sums are read and written once for all of them.
                for one in range(0, count, 4):
                    at_0, at_1 = begin[one] + below, begin[one + 1] + below
                    at_2, at_3 = begin[one + 2] + below, begin[one + 3] + below
                    x_0, x_1 = sample[at_0 : at_0 + length], sample[at_1 : at_1 + length]
                    x_2, x_3 = sample[at_2 : at_2 + length], sample[at_3 : at_3 + length]
                    g_0, g_1 = active[one], active[one + 1]
                    g_2, g_3 = active[one + 2], active[one + 3]
                    for k in range(length):
                        sums[k] += g_0 * x_0[k] + g_1 * x_1[k] + g_2 * x_2[k] + g_3 * x_3[k]


@compiled
def _add_map_gradients(
    weight: _Array, gradients: _Array, places: _Array, starts: _Array, pitch: int, target: _Array
) -> None:
    """Add the input's gradient to `target` [n, rows * columns * C], with its padding.

    Other arguments are those of `_add_weight_gradients`; the weights are [C', height, width * C].
    """
    num_samples, num_pixels, num_out = gradients.shape
    height, length = weight.shape[1:]
    begin = np.empty(num_pixels + 3, np.int64)
    active = np.empty(num_pixels + 3, gradients.dtype)
    for i in range(num_samples):
        sample = target[i]
        for channel in range(num_out):
            count = _take_active(gradients[i], places[i], channel, starts, begin, active)
            for row in range(height):
                weights = weight[channel, row]
                for one in range(count):
                    at = begin[one] + row * pitch
                    sums, factor = sample[at : at + length], active[one]
                    for k in range(length):
                        sums[k] += factor * weights[k]
