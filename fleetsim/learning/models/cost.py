"""Cost of a model for a device: FLOP by operation class, parameters, bytes on the wire.

Classes, layers and what is not counted are described in docs/models/learning.md. Torch's counter
gives the same FLOP (tests compare both), but imports torch's compiler, which would double the time
of a start.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from fleetsim.contracts import BackwardCost, ModelCost
from fleetsim.learning.models.flat_vector import frozen, travelling

_FREE = (nn.Embedding, nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)
"""Layers with weights of their own that multiply no matrices."""


@runtime_checkable
class SpendsFlop(Protocol):
    """A layer that multiplies matrices in its own `forward`, outside its sub-layers."""

    def own_flop(self, inputs: Tensor) -> int:
        """Return the FLOP of those products for these inputs."""


def model_cost(module: nn.Module, input_shape: tuple[int, ...]) -> ModelCost:
    """Return the cost of a network for samples of the given shape; the module does not change.

    Samples are tokens int64 if it has an embedding, else float32.

    A layer whose FLOP are not known is a ValueError.
    """
    return cost_of(module, *_forward_pass(module, input_shape))


def cost_of(
    module: nn.Module,
    flop: Mapping[str, float],
    layer_counts: Mapping[str, int],
    backward: BackwardCost | None = None,
) -> ModelCost:
    """Return the cost of a network whose FLOP and layers by operation class are known."""
    return ModelCost(
        forward_flop=flop,
        num_parameters=sum(each.numel() for each in module.parameters() if each.requires_grad),
        payload_byte=sum(entry.nbytes for entry in travelling(module).values()),
        num_layers=sum(layer_counts.values()),
        layer_counts=layer_counts,
        frozen_byte=sum(weight.nbytes for weight in frozen(module).values()),
        backward=backward,
    )


def _forward_pass(
    module: nn.Module, input_shape: tuple[int, ...]
) -> tuple[dict[str, float], dict[str, int]]:
    """Return FLOP of a sample's forward pass, and layers with FLOP, by class, none of them 0."""
    takes_tokens = any(isinstance(layer, nn.Embedding) for layer in module.modules())
    sample = torch.zeros(1, *input_shape, dtype=torch.int64 if takes_tokens else torch.float32)
    flop: Counter[str] = Counter()
    layers: Counter[str] = Counter()

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], outputs: Any) -> None:
        spent, kind = layer_flop(layer, inputs[0], outputs), operation_class(layer)
        flop[kind] += spent
        if spent > 0:
            layers[kind] += num_launched(layer)

    hooks = [layer.register_forward_hook(count) for layer in module.modules()]
    was_training = module.training
    try:
        with torch.no_grad():
            module.eval()(sample.to(next(module.parameters()).device))
    finally:
        module.train(was_training)
        for hook in hooks:
            hook.remove()
    return {kind: float(count) for kind, count in flop.items() if count > 0}, dict(layers)


def num_launched(layer: nn.Module) -> int:
    """Return the number of layers that a device launches one at a time for this module."""
    if isinstance(layer, nn.RNNBase):
        return layer.num_layers * (2 if layer.bidirectional else 1)
    return 1


def layer_flop(layer: nn.Module, inputs: Tensor, outputs: Any) -> int:
    """Return the FLOP of a layer itself, without its sub-layers."""
    match layer:
        case SpendsFlop():
            return layer.own_flop(inputs)
        case nn.Linear():
            return 2 * layer.in_features * int(outputs.numel())
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            terms = layer.in_channels // layer.groups * math.prod(layer.kernel_size)
            return 2 * terms * int(outputs.numel())
        case nn.RNNBase():
            # In every step all gates of every layer and direction multiply by their input and by
            # the hidden state: all weights but the biases.
            weights = sum(
                value.numel() for name, value in layer.named_parameters() if "weight" in name
            )
            num_steps = inputs.numel() // inputs.shape[-1]
            return 2 * weights * num_steps
        case _ if isinstance(layer, _FREE) or not layer._parameters:
            return 0
        case _:
            raise ValueError(
                f"the FLOP of {type(layer).__name__} are not known; give it own_flop(inputs)"
            )


def operation_class(layer: nn.Module) -> str:
    """Return the class of the arithmetic of a layer itself, without its sub-layers."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return "depthwise" if layer.groups == layer.in_channels > 1 else "conv"
    if isinstance(layer, nn.RNNBase):
        return "rnn"
    return "gemm"
