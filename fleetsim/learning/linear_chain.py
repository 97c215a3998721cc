"""Many copies of one small network side by side: chains of linear layers with ReLU between them.

A stack holds the weights of K clients' models as [K, out, in] per layer and takes one step of SGD
for the first k of them in a handful of batched matrix products. The backward pass is written out:
with z_l = a_{l-1} W_l^T + b_l, a_l = relu(z_l), p the softmax of the last z, y the one-hot labels
and c the weight of each sample in its batch's mean,

    d_L = c (p - y),    d_{l-1} = (d_l W_l) * [a_{l-1} > 0],    grad W_l = d_l^T a_{l-1},
    grad b_l = sum of d_l over the batch.

The step is that of `local.train`; without momentum the gradient goes straight into the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import log_softmax

from fleetsim.contracts import Parameters
from fleetsim.learning.settings import LocalSettings

Widths = tuple[int, ...]
"""Numbers of units from the inputs to the classes, such as (784, 200, 200, 10)."""


def widths_of(module: nn.Module) -> Widths | None:
    """Widths of a chain `[Flatten] (Linear ReLU)* Linear` with biases, all trained; else None.

    >>> widths_of(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    (4, 3, 2)
    >>> widths_of(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))) is None
    True
    """
    if type(module) is not nn.Sequential:
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
    """Weights and biases of one chain.

    >>> num_parameters((784, 200, 200, 10))
    199210
    """
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(widths))


class ChainStack:
    """K models of one shape in training, each from its own base."""

    def __init__(
        self,
        widths: Widths,
        bases: Sequence[Parameters],
        settings: LocalSettings,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Build it.

        Args:
            widths: shape of every model.
            bases: flat vectors [P] to start from, one per model; copied.
            settings: optimizer and proximal term of all models.
            dtype: arithmetic.
            device: where it takes place.
        """
        flat = torch.from_numpy(np.stack(bases)).to(device, dtype)
        self._parameters: list[Tensor] = []
        start = 0
        for fan_in, fan_out in pairwise(widths):
            for shape in ((fan_out, fan_in), (fan_out,)):
                stop = start + int(np.prod(shape))
                part = flat[:, start:stop].view(len(bases), *shape)
                # Own memory: products with strided weights run at half the rate.
                self._parameters.append(part.clone(memory_format=torch.contiguous_format))
                start = stop
        self._sgd = settings.optimizer
        self._mu = settings.proximal_mu
        self._anchors: list[Tensor] = []
        self._velocities: list[Tensor] = []
        if self._mu:
            self._anchors = [parameter.clone() for parameter in self._parameters]
        if self._sgd.momentum:
            self._velocities = [torch.zeros_like(parameter) for parameter in self._parameters]

    def step(self, inputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """One step of SGD for the first k models.

        Args:
            inputs: one batch per model [k, batch, features].
            labels: classes [k, batch] int64.
            weights: of each sample in the mean over its batch [k, batch]: 1/b, or 0 for padding.

        Returns:
            Log-likelihood of each sample before the step [k, batch], minus its loss.
        """
        num = len(inputs)
        matrices = [matrix[:num] for matrix in self._parameters[::2]]
        biases = [bias[:num].unsqueeze(1) for bias in self._parameters[1::2]]
        below: list[Tensor] = []
        outputs = inputs
        for matrix, bias in zip(matrices, biases, strict=True):
            below.append(outputs.relu_() if below else outputs)
            outputs = torch.baddbmm(bias, below[-1], matrix.transpose(1, 2))
        likelihoods, delta = _cross_entropy(outputs, labels, weights)
        deltas = [delta]
        for matrix, hidden in zip(matrices[:0:-1], below[:0:-1], strict=True):
            delta = torch.ops.aten.threshold_backward(torch.bmm(delta, matrix), hidden, 0)
            deltas.append(delta)
        for layer, (delta, layer_inputs) in enumerate(zip(deltas[::-1], below, strict=True)):
            self._descend(2 * layer, delta, layer_inputs)
            self._descend(2 * layer + 1, delta, None)
        return likelihoods

    def vectors(self) -> NDArray[np.float32]:
        """Flat vectors of all models [K, P], in the arithmetic's own type."""
        return torch.cat([part.flatten(1) for part in self._parameters], dim=1).cpu().numpy()

    def _descend(self, index: int, delta: Tensor, layer_inputs: Tensor | None) -> None:
        """Update one parameter in place, for as many models as `delta` has.

        Args:
            index: which parameter.
            delta: derivative of the loss by the layer's outputs [k, batch, out].
            layer_inputs: [k, batch, in] if the parameter is a matrix, None if it is a bias.
        """
        num = len(delta)
        sgd = self._sgd
        parameter = self._parameters[index][:num]
        pull: Tensor | None = None
        if self._mu:
            pull = (parameter - self._anchors[index][:num]).mul_(self._mu)
        if sgd.weight_decay:
            decay = parameter * sgd.weight_decay
            pull = decay if pull is None else pull.add_(decay)
        if sgd.momentum:
            target, factor = self._velocities[index][:num].mul_(sgd.momentum), 1.0
        else:
            target, factor = parameter, -sgd.learning_rate
        if pull is not None:
            target.add_(pull, alpha=factor)
        if layer_inputs is None:
            target.add_(delta.sum(dim=1), alpha=factor)
        else:
            target.baddbmm_(delta.transpose(1, 2), layer_inputs, alpha=factor)
        if sgd.momentum:
            parameter.sub_(target, alpha=sgd.learning_rate)


def _cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Log-likelihoods [k, batch], and the loss's derivative by the logits [k, batch, classes]."""
    # Over the first axis: torch's softmax over a short last one takes ten times as long.
    logs = log_softmax(logits.flatten(0, 1).t(), dim=0)
    index = labels.reshape(1, -1)
    likelihoods = logs.gather(0, index)
    delta = logs.exp_()
    delta.scatter_add_(0, index, torch.full_like(likelihoods, -1.0))
    delta.mul_(weights.reshape(1, -1))
    return likelihoods.view_as(labels), delta.t().contiguous().view_as(logits)
