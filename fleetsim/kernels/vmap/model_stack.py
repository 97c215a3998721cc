"""Stacked weights of many models of one network, and one step for all of them.

Weights and buffers of K models are stacked, [K, ...] each, and `torch.func.vmap` runs the network
over the stacks. The update is that of `local_sgd.train`.

Precision "mixed" computes the forward and backward pass in bfloat16 where torch's autocast regards
it as safe: products and convolutions, not losses and normalisation. Weights stay in float32 and are
updated there. bfloat16 has float32's range, so no gradient is scaled.

Steps are deterministic: they use no sums with atomics (index_add, scatter_add), whose order varies
on CUDA; attention is computed by its definition, since the fused kernels have no rule for stacked
weights on the CPU and are not deterministic on CUDA; `kernels.base` selects cuDNN's kernels.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.linalg import vector_norm
from torch.nn.attention import SDPBackend, sdpa_kernel

from fleetsim.contracts import Loss, Parameters
from fleetsim.kernels.device_samples import on_device
from fleetsim.learning.local.optimizers import clip_factor, direction, initial_moments, norm_of
from fleetsim.learning.local.sample_losses import losses_of
from fleetsim.learning.local.step_settings import Precision, StepSettings
from fleetsim.learning.models.flat_vector import layout


class ModelStack:
    """Stack of K models of one network in training, each from its own base, in one `dtype`."""

    def __init__(
        self,
        module: nn.Module,
        bases: Sequence[Parameters],
        settings: StepSettings,
        *,
        precision: Precision,
        scenario_loss: Loss | None,
    ) -> None:
        """Copy the bases, flat vectors [P], one per model.

        In a `scenario_loss` no sample depends on another; None: the network's own.
        """
        module.train()
        some_weight = next(module.parameters())
        self.dtype = some_weight.dtype
        self._device = some_weight.device
        self._is_mixed = precision == "mixed"
        self._losses = losses_of(module, scenario_loss, label_smoothing=settings.label_smoothing)
        self._has_scenario_loss = scenario_loss is not None
        self._forward = vmap(
            lambda values, inputs: functional_call(module, values, (inputs,)), in_dims=(0, 0)
        )
        # A weight that two layers share has two entries in the flat vector, but one name here.
        named = chain(module.named_parameters(), module.named_buffers())
        first_name = {id(value): name for name, value in named}
        entries = module.state_dict(keep_vars=True)
        self._slots = [(first_name[id(entries[slot.name])], slot) for slot in layout(module)]
        flat, owner = on_device(bases, device=self._device, dtype=self.dtype)
        self._values = {
            name: flat[:, slot.start : slot.stop]
            .index_select(0, owner)
            .view(len(bases), *slot.shape)
            for name, slot in self._slots
        }
        self._trained = [
            name for name, parameter in module.named_parameters() if parameter.requires_grad
        ]
        self._optimizer = settings.optimizer
        self._max_norm = settings.max_gradient_norm
        self._mu = settings.proximal_mu
        self._anchors: dict[str, Tensor] = {}
        if self._mu:
            self._anchors = {name: self._values[name].clone() for name in self._trained}
        self._moments = {
            name: initial_moments(self._optimizer, self._values[name]) for name in self._trained
        }

    def step(
        self,
        models: slice | Tensor,
        inputs: Tensor,
        labels: Tensor,
        weights: Tensor,
        *,
        number: int,
        rate: float | Tensor,
    ) -> Tensor:
        """Take one step for some models; return the losses before it [k, batch].

        The models are a prefix or indices [k], each once, with one batch [k, batch, ...] each and
        labels [k, batch] int64, or [k, batch, t]. `weights` [k, batch] are those of the samples in
        the mean over their batch: 1/b, or 0 for padding. The step has this `number` in the models'
        tasks, 1 for the first, and one learning rate for all models or one for each [k].
        """
        values = {name: value[models] for name, value in self._values.items()}
        trained = [values[name].requires_grad_() for name in self._trained]
        with (
            torch.autocast(
                self._device.type, torch.bfloat16, enabled=self._is_mixed, cache_enabled=False
            ),
            sdpa_kernel(SDPBackend.MATH),
        ):
            logits = self._forward(values, inputs)
            if self._has_scenario_loss:
                logits = logits.to(self.dtype)  # losses are not for half the digits
            step_losses = self._losses(logits.flatten(0, 1), labels.flatten(0, 1)).view(
                weights.shape
            )
        gradients = torch.autograd.grad((step_losses * weights).sum(), trained)
        with torch.no_grad():
            named = dict(zip(self._trained, gradients, strict=True))
            self._descend(models, values, named, number, rate)
            if isinstance(models, Tensor):
                for name, value in values.items():
                    self._values[name].index_copy_(0, models, value)
        return step_losses.detach()

    def vectors(self) -> NDArray[np.float32]:
        """Return the flat vectors of all models [K, P], in the number type of the stack."""
        # Weights of the shape () are [K] here, which has no axis to flatten.
        parts = [self._values[name].unsqueeze(-1).flatten(1) for name, _ in self._slots]
        return torch.cat(parts, dim=1).cpu().numpy()

    def _descend(
        self,
        models: slice | Tensor,
        values: dict[str, Tensor],
        gradients: dict[str, Tensor],
        number: int,
        rate: float | Tensor,
    ) -> None:
        shrunk: Tensor | None = None
        if self._max_norm is not None:
            gradients = {
                name: self._pulled(name, models, values[name], gradient)
                for name, gradient in gradients.items()
            }
            norms = (vector_norm(each.flatten(1), dim=1) for each in gradients.values())
            shrunk = clip_factor(norm_of(norms), self._max_norm)
        for name, gradient in gradients.items():
            parameter = values[name]
            if shrunk is None:
                pulled = self._pulled(name, models, parameter, gradient)
            else:
                pulled = gradient * _beside(shrunk, gradient)
            moments = tuple(moment[models] for moment in self._moments[name])
            along = direction(self._optimizer, pulled, parameter, moments, number)
            if isinstance(models, Tensor):
                for moment, changed in zip(self._moments[name], moments, strict=True):
                    moment.index_copy_(0, models, changed)
            if isinstance(rate, Tensor):
                parameter.sub_(along * _beside(rate, along))
            else:
                parameter.sub_(along, alpha=rate)

    def _pulled(
        self, name: str, models: slice | Tensor, parameter: Tensor, gradient: Tensor
    ) -> Tensor:
        if not self._mu:
            return gradient
        return gradient.add(parameter - self._anchors[name][models], alpha=self._mu)


def _beside(per_model: Tensor, stacked: Tensor) -> Tensor:
    """Return a number per model [k] in a shape that multiplies a stack [k, ...]."""
    return per_model.view(-1, *(1 for _ in stacked.shape[1:]))
