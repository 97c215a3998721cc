"""Stack of models of one linear layer, for small batches.

It equals `linear_chain` for chains of a single layer. Its layout needs a third fewer operations per
step, and its products are faster. The bias is the weight of one more feature, which is 1
everywhere:

    z = [x, 1] V,    V = [W, b]^T [features + 1, classes],    gradient of V = [x, 1]^T s.

MKL multiplies batches of fewer than 16 samples at half its rate, unless the other side has 16
classes. So the classes are padded to a multiple of 16. Weights and gradients of the added classes
stay 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fleetsim.contracts import Parameters
from fleetsim.learning.kernels.cpu.gemm import Widths
from fleetsim.learning.kernels.initial_models import on_device
from fleetsim.learning.kernels.stacked.score_gradients import Scratch, writer_of
from fleetsim.learning.kernels.stacked.sgd_step import StackedWeights, take_step
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.settings import Hinge

_LINE = 16
"""Multiple to which the classes are padded."""
_BATCHES = range(4, _LINE)
_MAX_FEATURES = 128
_MAX_PADDING = 1.6
"""Largest ratio of padded to real classes that is still faster."""


def single_layer_is_faster(num_features: int, num_classes: int, batch: int) -> bool:
    """Return whether a step of `SingleLayerStack` is faster than one of `ChainStack`.

    The rule depends on sizes alone. It comes from times of both products on one core of an AMD EPYC
    (AVX-512, torch 2.13, MKL 2024.2): 0.5 to 0.9 of those of `ChainStack` within it, mostly more
    outside.

    >>> single_layer_is_faster(60, 10, 10), single_layer_is_faster(784, 10, 50)
    (True, False)
    >>> single_layer_is_faster(60, 2, 10)
    False
    """
    return (
        batch in _BATCHES
        and num_features <= _MAX_FEATURES
        and _padded(num_classes) <= _MAX_PADDING * num_classes
    )


def _padded(num_classes: int) -> int:
    return -(-num_classes // _LINE) * _LINE


@dataclass(frozen=True, slots=True, eq=False)
class _Prefix:
    """The first k models, and views of the stack's memory for their steps."""

    num: int
    stacked: StackedWeights
    """V of each model [k, features + 1, padded classes]."""
    features: Tensor
    """Memory for the batches [k * batch, features]."""
    inputs: Tensor
    """The same with a feature that is 1 [k, batch, features + 1]."""
    inputs_t: Tensor
    """[k, features + 1, batch]"""
    products: Tensor
    """[k, batch, padded classes]"""
    products_by_class: Tensor
    """Those of the real classes [classes, k, batch]."""
    logits_by_class: Tensor
    """Copy of these [classes, k, batch]."""
    logits: Tensor
    """The same [classes, k * batch], as are the following."""
    scratch: Scratch
    gradients: Tensor
    """Gradients of the log-likelihood by the logits."""
    gradients_by_model: Tensor
    """The same [k, batch, padded classes], 0 for padding."""


class SingleLayerStack:
    """Stack of K models of one layer in training, each from its own base."""

    def __init__(
        self,
        widths: Widths,
        bases: Sequence[Parameters],
        samples: Tensor,
        settings: LocalSettings,
        *,
        batch: int,
        hinge: Hinge | None = None,
    ) -> None:
        """Build it; arguments as for `linear_chain.ChainStack`, widths (features, classes)."""
        self._num_features, self._num_classes = num_features, num_classes = widths
        self._write_gradients = writer_of(hinge)
        self._samples = samples
        self._batch = batch
        self._settings = settings
        flat, owner = on_device(bases, device=samples.device, dtype=samples.dtype)
        models = samples.new_zeros(len(flat), num_features + 1, _padded(num_classes))
        weights = flat[:, :-num_classes].view(-1, num_classes, num_features)
        models[:, :num_features, :num_classes] = weights.transpose(1, 2)
        models[:, num_features, :num_classes] = flat[:, -num_classes:]
        self._models = models.index_select(0, owner)
        self._anchors = self._models.clone() if settings.proximal_mu else None
        has_momentum = bool(settings.optimizer.momentum)
        self._velocities = torch.zeros_like(self._models) if has_momentum else None
        self._prefix = self._first(len(bases))

    def step(
        self, rows: Tensor, labels: Tensor, weights: Tensor, likelihoods: Tensor | None = None
    ) -> None:
        """Take one SGD step for the first k models; see `linear_chain.ChainStack.step`."""
        if rows.numel() != self._prefix.num * self._batch:
            self._prefix = self._first(rows.numel() // self._batch)
        now = self._prefix
        torch.index_select(self._samples, 0, rows, out=now.features)
        torch.bmm(now.inputs, now.stacked.value, out=now.products)
        now.logits_by_class.copy_(now.products_by_class)
        self._write_gradients(now.logits, labels, weights, likelihoods, now.scratch, now.gradients)
        take_step(now.stacked, now.inputs_t, now.gradients_by_model, self._settings)

    def vectors(self) -> NDArray[np.float32]:
        """Return the flat vectors of all models [K, P], in the number type of the stack."""
        real = self._models[:, :, : self._num_classes]
        weights, biases = real[:, : self._num_features].transpose(1, 2), real[:, -1]
        return torch.cat([weights.flatten(1), biases], dim=1).cpu().numpy()

    def _first(self, num: int) -> _Prefix:
        """Return views of the first `num` models."""
        num_lines, num_classes = num * self._batch, self._num_classes
        new, models = self._samples, self._models[:num]
        anchors, velocities = self._anchors, self._velocities
        inputs = new.new_ones(num_lines, models.shape[1])
        by_model = inputs.view(num, self._batch, -1)
        products = new.new_empty(num, self._batch, models.shape[2])
        logits, logs, targets = new.new_empty(3, num_classes, num_lines)
        gradients = new.new_zeros(models.shape[2], num_lines)
        return _Prefix(
            num=num,
            stacked=StackedWeights(
                models,
                None if anchors is None else anchors[:num],
                None if velocities is None else velocities[:num],
            ),
            features=inputs[:, :-1],
            inputs=by_model,
            inputs_t=by_model.transpose(1, 2),
            products=products,
            products_by_class=products[:, :, :num_classes].permute(2, 0, 1),
            logits_by_class=logits.view(num_classes, num, self._batch),
            logits=logits,
            scratch=Scratch(logs, targets),
            gradients=gradients[:num_classes],
            gradients_by_model=gradients.view(-1, num, self._batch).permute(1, 2, 0),
        )
