"""What a model costs a device: FLOP by operation class, parameters, bytes on the wire.

FLOP are counted by torch on one sample's forward pass, 2 per multiply-add, and classed by the
layer that spends them, because processors reach different shares of their speed on different
kinds of layers. Networks below `TINY_FORWARD_FLOP` form a class of their own: their time goes into
the overhead of many small operations. On a Snapdragon 855 with MNN, LeNet-class networks train at
.68 of the rate of large convolutional ones (UbiquitousLearning/Benchmark-On-Device-Training
@752659f, own fit); where exactly "tiny" ends was not measured and is inferred.
"""

from __future__ import annotations

import copy
from collections import Counter

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fleetsim.contracts import ModelCost

TINY_FORWARD_FLOP = 5e6


def model_cost(module: nn.Module, input_shape: tuple[int, ...]) -> ModelCost:
    """Cost of a network for samples of the given shape; the module is left as it is.

    Args:
        module: the network; must take a float32 batch [1, *input_shape].
        input_shape: shape of one sample.
    """
    flop = _forward_flop(module, input_shape)
    total_flop = sum(flop.values())
    return ModelCost(
        forward_flop=flop if total_flop >= TINY_FORWARD_FLOP else {"tiny": total_flop},
        num_parameters=sum(parameter.numel() for parameter in module.parameters()),
        payload_byte=sum(
            entry.numel() * entry.element_size() for entry in module.state_dict().values()
        ),
    )


def _forward_flop(module: nn.Module, input_shape: tuple[int, ...]) -> dict[str, float]:
    """FLOP of one sample's forward pass by class; classes without any are left out."""
    # Only shapes matter, and only on the meta device does the counter see inside recurrent
    # layers, which the CPU runs as one fused operation.
    shapes = copy.deepcopy(module).to("meta").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        shapes(torch.empty(1, *input_shape, device="meta"))
    counts = counter.get_flop_counts()
    root = type(module).__name__
    within = {
        name: sum(counts.get(f"{root}.{name}" if name else root, {}).values())
        for name, _ in shapes.named_modules()
    }
    flop: Counter[str] = Counter()
    for name, layer in shapes.named_modules():
        prefix = f"{name}." if name else ""
        own = within[name] - sum(within[prefix + child] for child, _ in layer.named_children())
        flop[_operation_class(layer)] += own
    return {kind: float(count) for kind, count in flop.items() if count > 0}


def _operation_class(layer: nn.Module) -> str:
    """Class of the arithmetic that a layer does itself, outside its sub-layers."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return "depthwise" if layer.groups == layer.in_channels > 1 else "conv"
    if isinstance(layer, nn.RNNBase | nn.RNNCellBase):
        return "rnn"
    return "gemm"
