"""Convolutions with many weights on small maps, as one matrix product.

The patches under the kernel become the rows of a matrix ("im2col": Chellapilla et al., "High
performance convolutional neural networks for document processing", 2006), in memory in proportion
to the kernel's area. On small maps most of the cost is reading the weights, and oneDNN's
convolution (inferred) converts weights and gradients to its own layout and back in every step.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

MIN_WEIGHTS = 2**20
MAX_POSITIONS = 16
"""Least number of weights, and largest number of output positions, for columns. For batches
of 10 to 50 on one thread of an AMD EPYC of family 26 with torch 2.13, `ColumnConv2d` takes of the
channels-last convolution's time, forward and backward: 0.40 to 0.55 with 2.4 M weights on 2 x 2
positions; 0.68 to 1.03 with 1.2 M and 2.4 M on 4 x 4, 0.86 to 0.96 with 0.6 M; 1.13 to 2.31 on 8 x
8 and 16 x 16. The columns, which the backward pass gathers again, were kept for it then."""


class ColumnConv2d(nn.Module):
    """Layer equal to an `nn.Conv2d`, whose weights it shares; fastest on channels-last maps."""

    def __init__(self, conv: nn.Conv2d) -> None:
        """Replace a convolution for which `is_plain_convolution` is true."""
        super().__init__()
        self.weight = conv.weight
        self.bias = conv.bias
        self._stride = conv.stride
        self._padding = conv.padding

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, C, H, W] to [n, C', H', W'] in channels-last layout."""
        result: Tensor = _Columns.apply(  # type: ignore[no-untyped-call]
            maps, self.weight, self.bias, self._stride, self._padding
        )
        return result


def is_plain_convolution(conv: nn.Conv2d) -> bool:
    """Return whether a convolution has one group, no dilation, and zeros as padding."""
    return (
        conv.groups == 1
        and conv.dilation == (1, 1)
        and conv.padding_mode == "zeros"
        and not isinstance(conv.padding, str)
    )


class _Columns(torch.autograd.Function):
    """P = patches(x), y = P W^T + b; dW = dy^T P, db = sum dy, dP = dy W, dx = patches^T(dP)."""

    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: tuple[int, int],
        padding: tuple[int, int],
    ) -> Tensor:
        rows = _patches(maps, weight, stride, padding)
        # The matrix is gathered again: of 3 x 3 kernels it takes nine times the memory of the maps
        ctx.save_for_backward(maps, weight)
        ctx.stride, ctx.padding = stride, padding
        result = linear(rows.flatten(3).flatten(0, 2), _flat(weight), bias)
        return result.view(*rows.shape[:3], -1).permute(0, 3, 1, 2)

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        maps, weight = ctx.saved_tensors
        needs_maps, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        num_out, num_in, height, width = weight.shape
        num_samples, _, rows, columns = gradient.shape
        flat = gradient.permute(0, 2, 3, 1).reshape(-1, num_out)
        for_maps = for_weight = None
        if needs_weight:
            matrix = _patches(maps, weight, ctx.stride, ctx.padding).flatten(3).flatten(0, 2)
            product = flat.t() @ matrix
            for_weight = product.view(num_out, height, width, num_in).permute(0, 3, 1, 2)
        if needs_maps:
            patches = (flat @ _flat(weight)).view(num_samples, rows, columns, height, width, num_in)
            for_maps = _summed(patches, ctx.stride, ctx.padding, maps.shape[2:])
        return for_maps, for_weight, flat.sum(dim=0) if needs_bias else None, None, None


def _patches(
    maps: Tensor, weight: Tensor, stride: tuple[int, int], padding: tuple[int, int]
) -> Tensor:
    """Return the pixels under the kernel at each position [n, rows, columns, h, w, C], a view."""
    (down, right), (above, left), (height, width) = stride, padding, weight.shape[2:]
    padded = pad(maps.permute(0, 2, 3, 1), (0, 0, left, left, above, above))
    return padded.unfold(1, height, down).unfold(2, width, right).permute(0, 1, 2, 4, 5, 3)


def _flat(weight: Tensor) -> Tensor:
    """Reshape [C', C, height, width] to [C', height * width * C]; a view if it is channels-last."""
    return weight.permute(0, 2, 3, 1).flatten(1)


def _summed(
    patches: Tensor, stride: tuple[int, int], padding: tuple[int, int], size: tuple[int, int]
) -> Tensor:
    """Return maps of a size with every pixel's sum over its patches [n, rows, columns, h, w, C]."""
    (down, right), (above, left) = stride, padding
    num_samples, rows, columns, height, width, num_in = patches.shape
    padded = patches.new_zeros(num_samples, size[0] + 2 * above, size[1] + 2 * left, num_in)
    for i in range(height):
        for j in range(width):
            pixels = padded[:, i : i + down * rows : down, j : j + right * columns : right]
            pixels[:, :rows, :columns] += patches[:, :, :, i, j]
    kept = padded[:, above : above + size[0], left : left + size[1]]
    return kept.permute(0, 3, 1, 2)
