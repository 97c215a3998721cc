"""Memory of an SGD step of local training, measured on the real model.

The peak is at the start of the backward pass. docs/models/memory.md defines the three numbers;
`fleetsim.fleet.devices.memory` applies them to different engines. Engines that compute convolutions
as matrix products also store the patches under the kernel: an input of [C, H, W] under k x k
weights becomes [C k k, H' W']. Frozen weights have no gradient and no state of the optimizer.
"""

import copy
import math
from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from fleetsim.contracts import StepMemory
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.local.sample_losses import HasLoss
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.flat_vector import frozen

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def step_memory(
    module: nn.Module,
    input_shape: tuple[int, ...],
    local: StepSettings,
    *,
    num_more_copies: int = 0,
    takes_tokens: bool | None = None,
    label_shape: tuple[int, ...] = (),
) -> StepMemory:
    """Return the memory of a step of local training; the module, on the CPU, is not changed.

    `num_more_copies` are copies of the weights that an algorithm holds beside them.
    Shapes are of one sample and its label, (t,) for a label at every position. Samples are int64
    tokens or float32; None: tokens if the network has an embedding.
    """
    module = copy.deepcopy(module).train()
    if takes_tokens is None:
        takes_tokens = any(isinstance(layer, nn.Embedding) for layer in module.modules())
    # Two samples: BatchNorm refuses a batch of a single value.
    samples = torch.zeros(2, *input_shape, dtype=torch.int64 if takes_tokens else torch.float32)
    unfolded_byte = 0
    scenario_loss = local.loss.build()

    def unfold(layer: nn.Module, _: tuple[Tensor, ...], outputs: Tensor) -> None:
        """Count the patches under a kernel of several pixels, kept for its gradient alone."""
        nonlocal unfolded_byte
        assert isinstance(layer, _CONVOLUTIONS)
        pixels = math.prod(layer.kernel_size)
        if pixels > 1 and layer.groups == 1 and layer.weight.requires_grad:
            num_places = outputs.numel() // layer.out_channels
            unfolded_byte += layer.in_channels * pixels * num_places * outputs.element_size()

    def loss() -> Tensor:
        # Dropout of a user's network draws masks, which no later draw may notice.
        with addressed(0, "trial"):
            outputs = module(samples)
        if scenario_loss is not None:
            each: Tensor = scenario_loss.losses(
                outputs, torch.zeros(2, *label_shape, dtype=torch.int64)
            )
            return each.mean()
        logits = outputs.flatten(0, -2)
        labels = torch.zeros(len(logits), dtype=torch.int64)
        if isinstance(module, HasLoss):
            return module.losses(logits, labels).mean()
        return cross_entropy(logits, labels)

    for layer in module.modules():
        if isinstance(layer, _CONVOLUTIONS):
            layer.register_forward_hook(unfold)
    sample_byte = kept_byte(module, loss) // len(samples)
    trained_byte = sum(weight.nbytes for weight in module.parameters() if weight.requires_grad)
    frozen_byte = sum(weight.nbytes for weight in frozen(module).values())
    others_byte = sum(buffer.nbytes for buffer in module.buffers())
    num_copies = num_weight_copies(local, num_more=num_more_copies)
    return StepMemory(
        state_byte=num_copies * trained_byte + frozen_byte + others_byte,
        sample_byte=sample_byte,
        unfolded_byte=unfolded_byte // len(samples),
    )


def num_weight_copies(local: StepSettings, *, num_more: int = 0) -> int:
    """Return the arrays of the trained weights' size that a step holds.

    They are the weights, their gradients, the optimizer's moments, the model that the server sent
    for the proximal term, and `num_more` of an algorithm.
    """
    return 2 + local.optimizer.num_moments + bool(local.proximal_mu) + num_more


def kept_byte(module: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Return the bytes that a forward pass keeps for its backward pass, with its result.

    Memory that several tensors share counts once, the module's own weights do not count. Attention
    keeps its scores: not every engine on a device has the fused kernels of torch.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        sdpa_kernel(SDPBackend.MATH),
    ):
        # Held until all are counted: freed memory could be reused and counted twice.
        result = forward()
    for tensor in chain(module.parameters(), module.buffers()):
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    kept[result.untyped_storage().data_ptr()] = result.untyped_storage().nbytes()
    return sum(kept.values())
