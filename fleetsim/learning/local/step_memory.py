"""What a step of local training holds in memory at once, read off the real model.

The peak of a step comes as its backward pass begins. By then a device holds

    state + B * sample        bytes for a batch of B samples:

* state: weights, buffers and gradients, the velocity of SGD with momentum, and the model that was
  sent where a proximal term pulls towards it;
* sample: what the forward pass of one sample, loss and all, keeps for the backward pass. It is
  what torch's autograd keeps of the real network, each piece of memory once.

Engines that lower convolutions to matrix products lay out the patches under the kernel as well: an
input of [C, H, W] under k x k weights becomes [C k k, H' W']. These bytes are counted apart.
`fleetsim.fleet.devices.memory` has what different engines make of the three figures.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fleetsim.contracts import StepMemory
from fleetsim.learning.local.local_sgd import HasLoss
from fleetsim.learning.local.settings import LocalSettings

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def step_memory(
    module: nn.Module, input_shape: tuple[int, ...], local: LocalSettings
) -> StepMemory:
    """Memory of a step of local training; the module is left as it is.

    Args:
        module: the network, on the CPU; takes a batch [n, *input_shape], of tokens int64 if it has
            an embedding, else of float32.
        input_shape: shape of one sample.
        local: the optimizer and the proximal term.
    """
    module = copy.deepcopy(module).train()
    takes_tokens = any(isinstance(layer, nn.Embedding) for layer in module.modules())
    # Two: BatchNorm refuses a batch of a single value.
    samples = torch.zeros(2, *input_shape, dtype=torch.int64 if takes_tokens else torch.float32)
    unfolded_byte = 0

    def unfold(layer: nn.Module, _: tuple[Tensor, ...], outputs: Tensor) -> None:
        nonlocal unfolded_byte
        unfolded_byte += _unfolded_byte(layer, outputs)

    def loss() -> Tensor:
        logits = module(samples).flatten(0, -2)
        labels = torch.zeros(len(logits), dtype=torch.int64)
        if isinstance(module, HasLoss):
            return module.losses(logits, labels).mean()
        return cross_entropy(logits, labels)

    for layer in module.modules():
        if isinstance(layer, _CONVOLUTIONS):
            layer.register_forward_hook(unfold)
    sample_byte = kept_byte(module, loss) // len(samples)
    weights_byte = sum(weight.nbytes for weight in module.parameters())
    others_byte = sum(buffer.nbytes for buffer in module.buffers())
    num_copies = 2 + bool(local.optimizer.momentum) + bool(local.proximal_mu)
    return StepMemory(
        state_byte=num_copies * weights_byte + others_byte,
        sample_byte=sample_byte,
        unfolded_byte=unfolded_byte // len(samples),
    )


def kept_byte(module: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Bytes that a forward pass keeps for its backward pass, and of its result.

    Memory that several tensors share counts once, that of the module's own weights not at all.

    Args:
        module: the network.
        forward: runs it and returns what the backward pass begins with.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # Held until all are counted: memory that is free already could be counted twice.
        result = forward()
    for tensor in chain(module.parameters(), module.buffers()):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    kept[result.untyped_storage().data_ptr()] = result.untyped_storage().nbytes()
    return sum(kept.values())


def _unfolded_byte(layer: nn.Module, outputs: Tensor) -> int:
    """Bytes of the patches under a convolution's kernel; none if it looks at single pixels."""
    assert isinstance(layer, _CONVOLUTIONS)
    pixels = math.prod(layer.kernel_size)
    if pixels == 1 or layer.groups > 1:
        return 0
    num_places = outputs.numel() // layer.out_channels
    return layer.in_channels * pixels * num_places * outputs.element_size()
