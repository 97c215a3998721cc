"""Large products of one client's samples, for a layer in its dual form.

With the samples as rows of X [n, features] they are X W^T + b, X X^T + 1 (the 1 is of the bias'
feature), and A^T X. Samples that are floats are multiplied as floats. Images that are kept as bytes
are multiplied as whole numbers on processors that are fast at it. With p the bytes, s = p - 128
of eight bits with a sign, and x = a p + c = a s + g, where a and g belong to a channel,

    x w = s (a w) + g w,    x x' = a^2 s s' + a g (sum s + sum s') + g^2 for every feature.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from fleetsim.kernels.cpu import whole_products
from fleetsim.kernels.cpu.gemm import onednn, prefers_onednn_for_long
from fleetsim.kernels.cpu.numerical_platform import forms
from fleetsim.kernels.cpu.whole_products import Digits, combined, digits_of, scaled
from fleetsim.kernels.cpu.workspace import Workspace
from fleetsim.kernels.device_samples import DeviceSamples

PANEL = 100
"""Rows of X X^T that are computed at once, up to the diagonal; the rest is mirrored."""
_MIN_WHOLE = 150
"""Least number of a client's samples for products in whole numbers. Measured for 784 and 3,072
features, 50 and 200 units on one core of an AMD EPYC (Zen 4): the products of stacks of five
clients take 0.57 to 0.87 times as long with 200 to 900 samples, 0.80 to 0.93 with 150, 0.91 to 1.00
with 100 to 120, 1.3 to 1.4 with 60."""
_SIGN = 128


class Layer(NamedTuple):
    """Initial weights of a layer, prepared for `outputs`."""

    weights: Tensor
    """[units, features]"""
    biases: Tensor
    """[units]"""
    digits: Digits | None = None


class NumberProducts:
    """Products of floats, of one client at a time."""

    def __init__(self, samples: DeviceSamples, num: int, units: int, space: Workspace) -> None:
        self._samples, self._space = samples, space
        features = samples.num_features
        long = (num, features, units), (units, num, features)
        is_float32 = samples.like.dtype == torch.float32
        self._uses_onednn = is_float32 and prefers_onednn_for_long(long)
        self._taken: Tensor

    def layer(self, weights: Tensor, biases: Tensor) -> Layer:
        """Prepare weights [units, features] and biases [units] for `outputs`."""
        return Layer(weights, biases)

    def take(self, rows: Tensor) -> None:
        """Set X to the samples of these rows [n] int64."""
        self._taken = self._samples.take(rows, self._space).flatten(1)

    def outputs(self, layer: Layer, out: Tensor) -> None:
        """Compute X W^T + b [n, units]."""
        with onednn(is_allowed=self._uses_onednn):
            torch.addmm(layer.biases, self._taken, layer.weights.t(), out=out)

    def gram(self, out: Tensor) -> None:
        """Compute X X^T + 1 [n, n]."""
        samples, num = self._taken, len(self._taken)
        for start in range(0, num, PANEL):
            stop = min(start + PANEL, num)
            panel = out[start:stop, :stop]
            torch.mm(samples[start:stop], samples[:stop].t(), out=panel).add_(1)
            out[:start, start:stop] = panel[:, :start].t()

    def combination(self, moves: Tensor, out: Tensor) -> None:
        """Compute A^T X [units, features] from A^T [units, n]."""
        with onednn(is_allowed=self._uses_onednn):
            torch.mm(moves, self._taken, out=out)


class ByteProducts:
    """Products of images' bytes in whole numbers."""

    def __init__(self, samples: DeviceSamples, like: Tensor) -> None:
        """Build it for images that are kept as bytes; results have the number type of `like`."""
        self._samples = samples
        self._num_channels = len(samples.scale)
        scale, offset = samples.scale, samples.shift + _SIGN * samples.scale
        # By channel for X X^T, by feature for the other products.
        self._scale, self._offset = scale.tolist(), offset.tolist()
        per_channel = samples.num_features // self._num_channels
        self._scales, self._offsets = (
            each.repeat_interleave(per_channel).to(like) for each in (scale, offset)
        )
        self._taken: Tensor

    def layer(self, weights: Tensor, biases: Tensor) -> Layer:
        """See `NumberProducts`."""
        constant = torch.addmv(biases, weights, self._offsets)
        return Layer(weights, constant, digits_of(weights * self._scales))

    def take(self, rows: Tensor) -> None:
        """See `NumberProducts`."""
        # Subtracts 128 by flipping the highest bit.
        taken = self._samples.bytes_of(rows).flatten(1)
        self._taken = taken.bitwise_xor_(_SIGN).view(torch.int8)

    def outputs(self, layer: Layer, out: Tensor) -> None:
        """See `NumberProducts`."""
        assert layer.digits is not None  # it was prepared here
        digits, quantum = layer.digits
        combined(whole_products.multiply(self._taken, digits.t()), out, dim=1)
        out.mul_(quantum.view(1, -1)).add_(layer.biases)

    def gram(self, out: Tensor) -> None:
        """See `NumberProducts`."""
        channels = self._taken.chunk(self._num_channels, dim=1)
        constant = 1.0
        cross = torch.zeros(len(self._taken), dtype=torch.float64)
        for index, (scale, offset) in enumerate(zip(self._scale, self._offset, strict=True)):
            part = channels[index].contiguous()
            product = whole_products.multiply(part, part.t())
            if index:
                out.add_(product, alpha=scale**2)
            else:
                scaled(product, scale**2, out)
            cross.add_(part.sum(dim=1, dtype=torch.int64), alpha=scale * offset)
            constant += part.shape[1] * offset**2
        half = cross.add_(constant / 2).to(out)
        out.add_(half).add_(half.unsqueeze(1))

    def combination(self, moves: Tensor, out: Tensor) -> None:
        """See `NumberProducts`."""
        digits, quantum = digits_of(moves.contiguous())
        combined(whole_products.multiply(digits, self._taken), out, dim=0)
        out.mul_(quantum * self._scales)
        out.addr_(moves.sum(dim=1), self._offsets)


ClientProducts = NumberProducts | ByteProducts


def products_of(samples: DeviceSamples, num: int, units: int, space: Workspace) -> ClientProducts:
    """Return the products in the fastest form for these sizes and this platform.

    `num` is the number of samples of the largest client; `space` is memory for a client's samples.
    """
    if (
        samples.numbers is None
        and samples.like.is_cpu
        and num >= _MIN_WHOLE
        and max(num, samples.num_features) <= whole_products.MAX_TERMS
        and forms().bytes_as_whole_numbers
    ):
        return ByteProducts(samples, samples.like)
    return NumberProducts(samples, num, units, space)
