"""Kernel that trains many clients at once: `local_sgd.train` by `torch.func.vmap`.

The weights of K clients are stacked, and one call computes the batches of all: linear layers become
batched products, convolutions grouped ones. Buffers that training changes, such as the running
statistics of a BatchNorm, are stacked too. Equality with `local_sgd.train` is that of
`kernels.stacked.stacked_sgd`. On CUDA the host waits once per stack, for its losses and weights.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fleetsim.contracts import FloatArray, Job, JobResult, Loss
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.batches import (
    BatchSchedule,
    Length,
    StackJob,
    largest_batch,
    longest_first,
    schedule,
)
from fleetsim.kernels.device_samples import stack_samples
from fleetsim.kernels.vmap.model_stack import ModelStack
from fleetsim.learning.local.optimizer_settings import ConstantRateSettings
from fleetsim.learning.local.step_memory import kept_byte, num_weight_copies
from fleetsim.learning.local.step_settings import Precision, StepSettings

STACK_BYTE = {"cpu": 8_000_000, "cuda": 8_000_000_000}
"""Bytes of weights and activations of one stack by type of device. On the CPU they fit the caches;
on CUDA they are half of a 16 GB card, the rest is for the kernels' own needs."""

_BATCH_NORMS = nn.modules.batchnorm._BatchNorm
_DROPOUTS = nn.modules.dropout._DropoutNd


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory for training a network."""

    weights_byte: int
    """Trained weights of one client."""
    sample_byte: int
    """Bytes that the forward pass of one sample keeps for the backward pass."""


def fault(module: nn.Module) -> str | None:
    """Return why a network cannot be trained for many clients at once; None if it can."""
    for name, layer in module.named_modules():
        which = f"the layer {name} ({type(layer).__name__})"
        if isinstance(layer, nn.RNNBase):
            return f"{which} is recurrent, and torch has no stacked form of it"
        if isinstance(layer, _DROPOUTS) and layer.p > 0:
            return f"{which} draws random numbers, for all clients from one stream"
        if isinstance(layer, _BATCH_NORMS) and layer.track_running_stats and layer.momentum is None:
            return f"{which} averages over a count of batches, which is not part of the weights"
    if not any(parameter.requires_grad for parameter in module.parameters()):
        return "it has no weights to train"
    return None


def footprint(module: nn.Module, inputs: Tensor) -> Footprint:
    """Return the memory for training, measured by the forward pass of the first of some samples.

    The running statistics of the network's buffers may change.
    """
    # Two copies: BatchNorm refuses a batch of a single value.
    samples = inputs[:1].repeat_interleave(2, dim=0)
    module.train()

    def forward() -> Tensor:
        result: object = module(samples)
        if not isinstance(result, Tensor):
            raise TypeError(
                f"the network returns {type(result).__name__} while it trains, which is computed"
                " for one client at a time"
            )
        return result

    sample_byte = kept_byte(module, forward) // len(samples)
    weights_byte = sum(value.nbytes for value in module.parameters() if value.requires_grad)
    return Footprint(weights_byte, sample_byte)


def stacks(
    size: Footprint, lengths: Sequence[Length], settings: StepSettings, stack_byte: int
) -> list[list[int]]:
    """Return stacks of trainings, by index, of about equal numbers, the longest trainings first.

    A stack has at least one client, and else at most `stack_byte`.
    """
    batch = largest_batch(lengths, settings.batching)
    client_byte = num_weight_copies(settings) * size.weights_byte + batch * size.sample_byte
    num_stacks = -(-len(lengths) // max(1, stack_byte // client_byte))
    order = longest_first(lengths, settings.batching)
    return [part.tolist() for part in np.array_split(np.array(order), num_stacks)]


def train_stack(
    module: nn.Module,
    jobs: Sequence[StackJob],
    inputs: Tensor,
    labels: Tensor,
    settings: StepSettings,
    *,
    precision: Precision,
    scenario_loss: Loss | None = None,
) -> list[JobResult]:
    """Train the jobs of one stack from their bases, in the order of `stacks`.

    The network, without a `fault`, is on the device and in the number type of the training; its
    weights are not changed, but the running statistics of its buffers may be.
    """
    device = inputs.device
    plan = schedule(jobs, settings.batching, is_padded=not _mixes_samples(module))
    rows = torch.from_numpy(plan.rows).to(device)
    client = torch.from_numpy(plan.client).to(device)
    stack = ModelStack(
        module,
        [job.base for job in jobs],
        settings,
        precision=precision,
        scenario_loss=scenario_loss,
    )
    weights = torch.from_numpy(plan.weights).to(device, stack.dtype)
    rates = _rates(plan, jobs, settings)
    line_rates = torch.from_numpy(rates).to(device, stack.dtype)
    all_losses = torch.zeros_like(weights)
    for block in plan.blocks:
        lines = slice(block.start, block.stop), slice(block.num_columns)
        shape = block.stop - block.start, block.num_columns
        models = slice(shape[0]) if block.is_prefix else client[lines[0]]
        chosen, of_block = rows[lines].flatten(), rates[lines[0]]
        all_losses[lines] = stack.step(
            models,
            inputs.index_select(0, chosen).view(*shape, *inputs.shape[1:]),
            labels.index_select(0, chosen).view(*shape, *labels.shape[1:]),
            weights[lines],
            number=block.step,
            rate=float(of_block[0]) if (of_block == of_block[0]).all() else line_rates[lines[0]],
        )
    exact = all_losses.cpu().numpy().astype(np.float64)
    return plan.results(jobs, exact, stack.vectors())


def _rates(plan: BatchSchedule, jobs: Sequence[StackJob], settings: StepSettings) -> FloatArray:
    """Return the learning rate of each line of a schedule [lines]."""
    optimizer = settings.optimizer
    if isinstance(optimizer.within_task, ConstantRateSettings):
        return np.full(len(plan.client), optimizer.learning_rate)
    factor_at = lru_cache(optimizer.within_task.factor_at)
    lengths = [settings.scheduled_steps(len(job.rows)) for job in jobs]
    factors = [
        factor_at(block.step, lengths[client])
        for block in plan.blocks
        for client in plan.client[block.start : block.stop].tolist()
    ]
    return optimizer.learning_rate * np.array(factors)


def _mixes_samples(module: nn.Module) -> bool:
    """Return whether results or buffers of a sample depend on the other samples of its batch."""
    return any(isinstance(layer, _BATCH_NORMS) for layer in module.modules()) or any(
        buffer.is_floating_point() for buffer in module.buffers()
    )


class VectorisedKernel(Kernel):
    """Kernel that trains clients in stacks, by `torch.func.vmap`, on samples as they are.

    Gradients and evaluations are computed one at a time, in float32.
    """

    computes_together = True

    def __init__(self, *args: Any, precision: Precision = "float32", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        message = fault(self.module)
        if message is not None:
            raise ValueError(f"clients of this network cannot be trained at once: {message}")
        if not self._local_settings.augmentation.is_none:
            raise ValueError("samples of clients that train at once are not augmented")
        self._precision = precision
        first = torch.zeros(1, dtype=torch.int64, device=self._device)
        self._footprint = footprint(self.module, self._all_samples.take(first))
        self._stack_byte = STACK_BYTE[self._device.type]

    def _stacks(self, jobs: Sequence[Job]) -> list[list[int]]:
        return stacks(self._footprint, self._lengths(jobs), self._local_settings, self._stack_byte)

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        stack, inputs, labels = stack_samples(
            self._stack_jobs(jobs), self._all_samples, self._labels
        )
        with warnings.catch_warnings():
            # Torch computes some operations for one client at a time, which changes no result.
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            return train_stack(
                self.module,
                stack,
                inputs,
                labels,
                self._settings_of(jobs[0]),
                precision=self._precision,
                scenario_loss=self._scenario_loss,
            )
