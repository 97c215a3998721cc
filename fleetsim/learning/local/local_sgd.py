"""Local SGD, gradient and evaluation of a model on one client's samples.

Every function is pure in its arguments: the network's weights are overwritten with `base` first.

Client k starts from the model w_0 that the server sent and minimises

    F_k(w) + mu/2 |w - w_0|^2,    F_k(w) = (1/n_k) sum_i loss_i(w),

with the cross-entropy as loss unless the network has its own loss; docs/models/learning.md has the
sources. One step on a batch B, with weight decay l, momentum m, velocity v (0 at the start of every
task) and learning rate h, as in `torch.optim.SGD`:

    g = (1/|B|) sum_B grad loss_i(w) + mu (w - w_0) + l w;    v <- m v + g;    w <- w - h v.

The update is written out, because the constructor of a torch optimizer imports torch's compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fleetsim.contracts import IntArray, JobResult, Parameters
from fleetsim.counts import num_batches
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.dropout import dropping_out
from fleetsim.learning.models.flat_vector import flatten, join, load_flat


@runtime_checkable
class HasLoss(Protocol):
    """Network with another training loss than the cross-entropy."""

    def losses(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample [n] from scores [n, classes] and labels [n]."""


CHUNK = 500
"""Samples of one pass where only sums matter: limits memory, and fits the caches."""
POSITIONS = 4000
"""Positions of one pass over sequences: each has a logit for every word of the vocabulary."""


def train(
    module: nn.Module,
    base: Parameters,
    inputs: Tensor,
    labels: Tensor,
    settings: LocalSettings,
    *,
    epochs: int,
    stream: np.random.Generator,
    most_steps: int | None = None,
    tells_epoch_losses: bool = False,
) -> JobResult:
    """Train from `base` over all samples, shuffled in every epoch.

    Losses are those of the last, perhaps incomplete epoch, each taken just before the step of its
    batch. A diverged result is returned unchanged.

    Args:
        module: the network; holds the result after the call.
        base: initial weights [P].
        inputs: samples [n, ...], n >= 1.
        labels: labels [n] int64, or [n, t] of sequences; see `losses`.
        settings: batch size, optimizer and proximal term.
        epochs: passes over the samples, >= 1; replaces `settings.epochs`.
        stream: random stream: the seed of dropout, if the network has any, then the `orders`.
        most_steps: number of steps, >= 1, after which training stops; None: all epochs.
        tells_epoch_losses: if true, the result holds the mean loss of every epoch.

    Returns:
        New weights, mean and root mean square of the losses, n, and mean losses by epoch if wanted.
    """
    load_flat(module, base)
    module.train()
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    # Copies only if the settings need them: those of a large model take memory and time.
    anchors = [p.detach().clone() for p in parameters] if settings.proximal_mu else parameters
    has_velocity = settings.optimizer.momentum > 0
    velocities = [torch.zeros_like(p) for p in parameters] if has_velocity else parameters
    loss_of = losses_of(module)
    seen: list[Tensor] = []
    by_epoch: list[Tensor] = []
    num_left = num_steps(len(labels), epochs, settings.batch_size, most_steps)
    with dropping_out(module, stream):
        for order in torch.from_numpy(orders(stream, epochs, len(labels))).to(labels.device):
            if num_left == 0:
                break
            seen = []
            for batch in torch.split(order, settings.batch_size)[:num_left]:
                taken, named = inputs.index_select(0, batch), labels.index_select(0, batch)
                batch_losses = loss_of(module(taken), named)
                gradients = torch.autograd.grad(batch_losses.mean(), parameters)
                _step(parameters, gradients, anchors, velocities, settings)
                seen.append(batch_losses.detach())
            num_left -= len(seen)
            if tells_epoch_losses:
                by_epoch.append(torch.cat(seen))
    return _result(torch.cat(seen), flatten(module))._replace(
        num_samples=len(labels),
        epoch_losses=tuple(map(_mean, by_epoch)) if tells_epoch_losses else None,
    )


def orders(stream: np.random.Generator, epochs: int, num_samples: int) -> IntArray:
    """Return the order of a client's samples in each epoch [epochs, n]."""
    return orders_of(stream.bit_generator.random_raw(epochs * num_samples), epochs)


def orders_of(words: NDArray[np.uint64], epochs: int) -> IntArray:
    """Return the permutations [..., epochs, n] for random words [..., epochs * n].

    Each sample draws a word of 64 bits per epoch, and samples are sorted by their words. Equal
    words are very unlikely.
    """
    order: IntArray = words.reshape(*words.shape[:-1], epochs, -1).argsort(axis=-1)
    return order


def num_steps(num_samples: int, epochs: int, batch_size: int, most: int | None = None) -> int:
    """Return the SGD steps of a client's training, which may stop after `most` steps.

    >>> num_steps(101, 2, 50), num_steps(101, 2, 50, most=4)
    (6, 4)
    """
    all_steps = epochs * num_batches(num_samples, batch_size)
    return all_steps if most is None else min(all_steps, most)


def _step(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    anchors: Sequence[Tensor],
    velocities: Sequence[Tensor],
    settings: LocalSettings,
) -> None:
    """Update parameters and velocities in place by one SGD step.

    Anchors are read only with a proximal term, velocities only with momentum.
    """
    sgd = settings.optimizer
    with torch.no_grad():
        for parameter, gradient, anchor, velocity in zip(
            parameters, gradients, anchors, velocities, strict=True
        ):
            direction = gradient
            if settings.proximal_mu:
                direction = direction.add(parameter - anchor, alpha=settings.proximal_mu)
            if sgd.weight_decay:
                direction = direction.add(parameter, alpha=sgd.weight_decay)
            if sgd.momentum:
                direction = velocity.mul_(sgd.momentum).add_(direction)
            parameter.sub_(direction, alpha=sgd.learning_rate)


def gradient(module: nn.Module, base: Parameters, inputs: Tensor, labels: Tensor) -> JobResult:
    """Return the mean gradient of the loss over all samples at `base`, in the flat layout.

    Weight decay and proximal term are not part of it; buffers have gradient 0. The result has the
    losses, too. Arguments are those of `train`.
    """
    load_flat(module, base)
    module.train()
    named = {name: value for name, value in module.named_parameters() if value.requires_grad}
    sums = {name: torch.zeros_like(value) for name, value in named.items()}
    loss_of = losses_of(module)
    seen = []
    for some_inputs, some_labels in _chunks(inputs, labels):
        some_losses = loss_of(module(some_inputs), some_labels)
        parts = torch.autograd.grad(some_losses.sum(), list(named.values()))
        for total, part in zip(sums.values(), parts, strict=True):
            total.add_(part)
        seen.append(some_losses.detach())
    means = {name: total / len(labels) for name, total in sums.items()}
    return _result(torch.cat(seen), join(module, means))


def evaluate(module: nn.Module, base: Parameters, inputs: Tensor, labels: Tensor) -> JobResult:
    """Return accuracy and losses of `base` on samples; arguments are those of `train`."""
    all_losses, all_hits = losses_and_hits(module, base, inputs, labels)
    result = _result(all_losses, None)
    return result._replace(accuracy=float(all_hits.mean()))


def losses_of(module: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss function of a network: its own, or `losses`."""
    return module.losses if isinstance(module, HasLoss) else losses


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each sample's cross-entropy in nats [n]; for sequences, the mean over positions.

    Args:
        logits: scores [n, classes], or [n, t, classes] of sequences.
        labels: labels [n] int64, or [n, t].
    """
    if labels.dim() == 1:
        return cross_entropy(logits, labels, reduction="none")
    return (
        cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        .view_as(labels)
        .mean(dim=1)
    )


def hits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the share of each sample's positions that are classified correctly [n] float64.

    Arguments are those of `losses`.
    """
    correct = (logits.argmax(dim=-1) == labels).double()
    return correct if labels.dim() == 1 else correct.mean(dim=1)


def losses_and_hits(
    module: nn.Module, base: Parameters, inputs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Return losses and hits of each sample [n] at `base`, with running statistics.

    Arguments are those of `evaluate`. Samples are computed `CHUNK` at a time.
    """
    load_flat(module, base)
    module.eval()
    loss_of = losses_of(module)
    some_losses, some_hits = [], []
    with torch.no_grad():
        for part_inputs, part_labels in _chunks(inputs, labels):
            logits = module(part_inputs)
            some_losses.append(loss_of(logits, part_labels))
            some_hits.append(hits(logits, part_labels))
    return torch.cat(some_losses), torch.cat(some_hits)


def _chunks(inputs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = CHUNK if labels.dim() == 1 else max(1, POSITIONS // labels.shape[1])
    # Split twice: a caller that passes a multiple of CHUNK gets the same passes.
    for chunk in zip(torch.split(inputs, CHUNK), torch.split(labels, CHUNK), strict=True):
        yield from zip(*(torch.split(part, size) for part in chunk), strict=True)


def _mean(losses: Tensor) -> float:
    return float(losses.double().mean())


def _result(losses: Tensor, vector: Parameters | None) -> JobResult:
    exact = losses.double()
    return JobResult(
        num_samples=len(exact),
        loss=_mean(exact),
        loss_rms=math.sqrt(exact.square().mean()),
        vector=vector,
    )
