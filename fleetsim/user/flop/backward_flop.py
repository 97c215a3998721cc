"""FLOP of the gradients that autograd computes for a layer with a rule.

A product y = W x has a gradient by its input where the input depends on a trained weight, and one
by its weights where these are trained. Each takes as many FLOP as the product. Gradients of biases
are sums, which are free.
"""

from typing import NamedTuple

from torch import Tensor, nn

from fleetsim.learning.models.cost import SpendsFlop


class Gradients(NamedTuple):
    """Gradients of one layer for one sample."""

    flop: int
    num_launches: int
    """Products that a device launches for them."""


def gradients_of(layer: nn.Module, inputs: Tensor, flop: int) -> Gradients:
    """Return the gradients of a layer with a rule, without those of its sub-layers.

    A layer with an `own_flop` counts like a linear one if it has weights of its own. Without them
    it multiplies what it is given, so that both factors have a gradient. Its input requires a
    gradient if it depends on a trained weight; `flop` are those of its forward pass.
    """
    if isinstance(layer, nn.RNNBase):
        return _recurrent(layer, inputs)
    needs_inputs = inputs.requires_grad
    if isinstance(layer, SpendsFlop):
        own = layer._parameters
        num = needs_inputs + any(_is_trained(value) for value in own.values())
        num = num if own else 2 * needs_inputs
    else:
        # With a parametrisation the weight is computed from several parameters.
        num = needs_inputs + any(
            _is_trained(value)
            for name, value in layer.named_parameters()
            if "bias" not in name.split(".")
        )
    return Gradients(num * flop, num)


def _recurrent(layer: nn.RNNBase, inputs: Tensor) -> Gradients:
    """Return the gradients of a recurrent layer.

    A direction multiplies its hidden state by weights in every step. That has a gradient if the
    state depends on a trained weight: one of the direction, or one before it. The state before the
    first step is 0 and has none.
    """
    num_steps = inputs.numel() // inputs.shape[-1]
    num_texts = inputs.shape[0 if layer.batch_first else 1] if inputs.dim() == 3 else 1
    terms, num_launches, reaches = 0, 0, inputs.requires_grad
    for index in range(layer.num_layers):
        through = False
        for direction in ("", "_reverse") if layer.bidirectional else ("",):
            end = f"_l{index}{direction}"
            own = {name: value for name, value in layer.named_parameters() if name.endswith(end)}
            is_reached = reaches or any(map(_is_trained, own.values()))
            through |= is_reached
            for name, value in own.items():
                if name.startswith("bias"):
                    continue
                reached_steps = num_steps * (reaches if "_ih_" in name else is_reached)
                if "_hh_" in name and is_reached:
                    reached_steps -= num_texts
                terms += value.numel() * (num_steps * _is_trained(value) + reached_steps)
            trained = any(_is_trained(v) for name, v in own.items() if name.startswith("weight"))
            num_launches += is_reached + trained
        reaches = through
    return Gradients(2 * terms, num_launches)


def _is_trained(value: Tensor | None) -> bool:
    return value is not None and value.requires_grad
