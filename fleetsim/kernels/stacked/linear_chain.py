"""Stack of small networks of one shape: chains of linear layers with ReLU between them.

A stack holds the weights of K clients' models as [K, out, in] per layer. One SGD step for the first
k of them takes a few batched matrix products. The backward pass is written out, with the gradients
s of the log-likelihood, or of minus another loss: with
z_l = a_{l-1} W_l^T + b_l, a_l = relu(z_l), the s_L of `score_gradients`, and c the weight of each
sample in its batch's mean,

    s_{l-1} = (s_l W_l) * [a_{l-1} > 0],    gradient of W_l = s_l^T a_{l-1},
    gradient of b_l = sum of s_l over the batch.

Small networks spend their time on starting operations, not on arithmetic. So results are written
into existing memory, and its views are made once. The class scores are [classes, k * batch]: over
the first axis softmax and sums are vectorised.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim.contracts import Parameters
from fleetsim.kernels.cpu.gemm import Widths
from fleetsim.kernels.device_samples import on_device
from fleetsim.kernels.stacked.score_gradients import ScoreBatch, writer_of
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.model_kind import Hinge
from fleetsim.learning.models.small import LinearSvm

relu_backward = torch.ops.aten.threshold_backward.grad_input


def widths_of(module: nn.Module) -> Widths | None:
    """Return the widths of a trained chain `[Flatten] (Linear ReLU)* Linear` with biases."""
    if not isinstance(module, nn.Sequential) or type(module) not in (nn.Sequential, LinearSvm):
        return None
    layers = list(module)
    if layers and type(layers[0]) is nn.Flatten and layers[0].start_dim == 1:
        layers = layers[1:]
    linear = [layer for layer in layers[::2] if type(layer) is nn.Linear]
    is_chain = (
        len(layers) == 2 * len(linear) - 1
        and all(type(layer) is nn.ReLU for layer in layers[1::2])
        and all(layer.bias is not None for layer in linear)
        and all(parameter.requires_grad for parameter in module.parameters())
    )
    return (linear[0].in_features, *(layer.out_features for layer in linear)) if is_chain else None


def num_parameters(widths: Widths) -> int:
    """Return the number of weights and biases of one chain."""
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(widths))


@dataclass(frozen=True, slots=True, eq=False)
class _StackedWeights:
    """Weights or biases of one layer, of the first k models [k, ...]."""

    value: Tensor
    anchor: Tensor | None
    """Initial values, for the proximal term; None without it."""
    velocity: Tensor | None
    """Velocity; None without momentum."""


def _take_step(
    stacked: _StackedWeights, gradients: Tensor, inputs: Tensor | None, settings: StepSettings
) -> None:
    """Update weights in place, as `local_sgd.train` does, by gradients of the log-likelihood.

    With `inputs`, `gradients` are the left factor of their batched product.
    """
    sgd = settings.plain_sgd()
    rate = sgd.learning_rate
    pull: Tensor | None = None
    if stacked.anchor is not None:
        pull = (stacked.value - stacked.anchor).mul_(settings.proximal_mu)
    if sgd.weight_decay:
        decay = stacked.value * sgd.weight_decay
        pull = decay if pull is None else pull.add_(decay)
    if stacked.velocity is None:
        target, factor = stacked.value, rate
    else:
        target, factor = stacked.velocity.mul_(sgd.momentum), -1.0
    if pull is not None:
        target.add_(pull, alpha=-factor)
    if inputs is None:
        target.add_(gradients, alpha=factor)
    else:
        target.baddbmm_(gradients, inputs, alpha=factor)
    if stacked.velocity is not None:
        stacked.value.sub_(stacked.velocity, alpha=rate)


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """One layer of the first k models."""

    weights: _StackedWeights
    """[k, out, in]"""
    weights_t: Tensor
    """[k, in, out]"""
    biases: _StackedWeights
    """[k, out]"""
    bias_row: Tensor
    """[k, 1, out]"""
    inputs: Tensor
    """[k, batch, in]"""
    inputs_t: Tensor
    """[k, in, batch]"""
    gradients: Tensor
    """Gradients of the log-likelihood by the outputs [k, batch, out]."""
    gradients_t: Tensor
    """[k, out, batch]"""


@dataclass(frozen=True, slots=True, eq=False)
class _Prefix:
    """The first k models: views of the stack's memory, made once for every k."""

    num: int
    layers: tuple[_Layer, ...]
    products: Tensor
    """Outputs of the last layer without its bias [k, classes, batch]."""
    products_by_class: Tensor
    """The same [classes, k, batch]."""
    bias_by_class: Tensor
    """[classes, k, 1]"""
    logits_by_class: Tensor
    """[classes, k, batch]"""
    logits: Tensor
    """The same [classes, k * batch], as are the following."""
    scratch: tuple[Tensor, Tensor]
    gradients: Tensor
    """Gradients of the log-likelihood by the logits."""
    gradients_by_line: Tensor
    """The same [classes * k, batch]."""
    gradient_sums: Tensor
    """Their sums over the batch [classes * k]."""
    gradient_sums_by_model: Tensor
    """The same [k, classes]."""


class ChainStack:
    """Stack of K models of one shape in training, each from its own base."""

    def __init__(
        self,
        widths: Widths,
        bases: Sequence[Parameters],
        samples: Tensor,
        settings: StepSettings,
        *,
        batch: int,
        hinge: Hinge | None,
    ) -> None:
        """Build it; number type and device are those of `samples` [n, features], of all clients.

        The bases [P], one per model, are copied; an array that several models share is read once.
        """
        self._widths = widths
        self._write_gradients = writer_of(hinge)
        self._samples = samples
        self._batch = batch
        self._settings = settings
        flat, owner = on_device(bases, device=samples.device, dtype=samples.dtype)
        self._values: list[Tensor] = []
        start = 0
        for fan_in, fan_out in pairwise(widths):
            for shape in ((fan_out, fan_in), (fan_out,)):
                stop = start + math.prod(shape)
                # A copy: products with strided weights run at half the rate.
                part = flat[:, start:stop].index_select(0, owner)
                self._values.append(part.view(len(bases), *shape))
                start = stop
        self._anchors = [value.clone() if settings.proximal_mu else None for value in self._values]
        self._velocities = [
            torch.zeros_like(value) if settings.plain_sgd().momentum else None
            for value in self._values
        ]
        num_lines = len(bases) * batch
        self._inputs = [samples.new_empty(num_lines * width) for width in widths[:-1]]
        self._gradients = [samples.new_empty(num_lines * width) for width in widths[1:]]
        self._scores = [samples.new_empty(num_lines * widths[-1]) for _ in range(4)]
        self._ones = samples.new_ones(batch)
        self._prefix = self._first(len(bases))

    def step(
        self, rows: Tensor, labels: Tensor, weights: Tensor, likelihoods: Tensor | None = None
    ) -> None:
        """Take one SGD step for the first k models.

        Rows and labels of their samples, batch by batch, are int64 [k * batch] and [1, k * batch].
        `weights` [1, k * batch] are those of the samples in the mean over their batch: 1/b, or 0
        for padding. `likelihoods` receives minus each sample's loss before the step [1, k * batch].
        """
        num = rows.numel() // self._batch
        torch.index_select(self._samples, 0, rows, out=self.inputs(num).flatten(0, 1))
        self.learn(labels, weights, likelihoods)

    def inputs(self, num: int) -> Tensor:
        """Return the memory [num, batch, features] for the batches of the next `learn`."""
        if num != self._prefix.num:
            self._prefix = self._first(num)
        return self._prefix.layers[0].inputs

    def learn(
        self,
        labels: Tensor,
        weights: Tensor,
        likelihoods: Tensor | None = None,
        input_gradients: Tensor | None = None,
    ) -> None:
        """Take one SGD step for the first k models on the batches in `inputs`; see `step`.

        Gradients of the log-likelihood by the inputs go into `input_gradients` [k, batch, in].
        """
        now = self._prefix
        for layer, above in pairwise(now.layers):
            torch.baddbmm(layer.bias_row, layer.inputs, layer.weights_t, out=above.inputs).relu_()
        last = now.layers[-1]
        torch.bmm(last.weights.value, last.inputs_t, out=now.products)
        torch.add(now.products_by_class, now.bias_by_class, out=now.logits_by_class)
        self._write_gradients(
            ScoreBatch(now.logits, labels, weights, likelihoods, now.scratch, now.gradients)
        )
        belows = [input_gradients, *(layer.gradients for layer in now.layers[:-1])]
        for layer, below in zip(reversed(now.layers), reversed(belows), strict=True):
            if below is not None:
                torch.bmm(layer.gradients, layer.weights.value, out=below)
            if layer is not now.layers[0]:
                relu_backward(below, layer.inputs, 0, grad_input=below)
            _take_step(layer.weights, layer.gradients_t, layer.inputs, self._settings)
            if layer is last:
                torch.mv(now.gradients_by_line, self._ones, out=now.gradient_sums)
                _take_step(layer.biases, now.gradient_sums_by_model, None, self._settings)
            else:
                _take_step(layer.biases, layer.gradients_t.sum(dim=2), None, self._settings)

    def vectors(self) -> NDArray[np.float32]:
        """Return the flat vectors of all models [K, P], in the number type of the stack."""
        return torch.cat([value.flatten(1) for value in self._values], dim=1).cpu().numpy()

    def _first(self, num: int) -> _Prefix:
        batch, num_classes = self._batch, self._widths[-1]
        products, logits, logs, targets = (view(s, num_classes, num * batch) for s in self._scores)
        inputs = [view(s, num, batch, w) for s, w in zip(self._inputs, self._widths, strict=False)]
        gradients = [
            view(s, num, batch, w)
            for s, w in zip(self._gradients[:-1], self._widths[1:-1], strict=True)
        ]
        last_gradients = view(self._gradients[-1], num_classes, num * batch)
        gradient_sums = self._samples.new_empty(num_classes * num)
        gradients.append(last_gradients.view(num_classes, num, batch).permute(1, 2, 0))
        parts = [
            _StackedWeights(
                value[:num], None if a is None else a[:num], None if v is None else v[:num]
            )
            for value, a, v in zip(self._values, self._anchors, self._velocities, strict=True)
        ]
        layers = tuple(
            _Layer(
                weights=weights,
                weights_t=weights.value.transpose(1, 2),
                biases=biases,
                bias_row=biases.value.unsqueeze(1),
                inputs=layer_inputs,
                inputs_t=layer_inputs.transpose(1, 2),
                gradients=layer_gradients,
                gradients_t=layer_gradients.transpose(1, 2),
            )
            for weights, biases, layer_inputs, layer_gradients in zip(
                parts[::2], parts[1::2], inputs, gradients, strict=True
            )
        )
        products = products.view(num, num_classes, batch)
        return _Prefix(
            num=num,
            layers=layers,
            products=products,
            products_by_class=products.transpose(0, 1),
            bias_by_class=layers[-1].biases.value.t().unsqueeze(2),
            logits_by_class=logits.view(num_classes, num, batch),
            logits=logits,
            scratch=(logs, targets),
            gradients=last_gradients,
            gradients_by_line=last_gradients.view(num_classes * num, batch),
            gradient_sums=gradient_sums,
            gradient_sums_by_model=gradient_sums.view(num_classes, num).t(),
        )


def view(flat: Tensor, *shape: int) -> Tensor:
    """Return the beginning of flat memory in a shape."""
    return flat[: math.prod(shape)].view(shape)
