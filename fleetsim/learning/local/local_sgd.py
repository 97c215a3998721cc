"""Local training, gradient and evaluation of a model on one client's samples.

Every function is pure in its arguments: the network's weights are overwritten with `base` first.

Client k starts from the model w_0 that the server sent and minimises

    F_k(w) + mu/2 |w - w_0|^2,    F_k(w) = (1/n_k) sum_i loss_i(w),

with the loss that `sample_losses` returns; docs/models/learning.md has the sources. One step on a
batch B, with learning rate h:

    g = (1/|B|) sum_B grad loss_i(w) + mu (w - w_0);    w <- w - h d(g, w).

g is scaled down to the largest norm that the settings allow. The direction d is that of the
optimizer, see `optimizers`.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim.contracts import IntArray, JobResult, Loss, Parameters
from fleetsim.counts import Batching
from fleetsim.learning.local.augmentation import SampleBatch, StepStream, augmented
from fleetsim.learning.local.optimizers import Descent
from fleetsim.learning.local.sample_losses import hits, losses_of
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.dropout import dropping_out, use_whole_network
from fleetsim.learning.models.flat_vector import flatten, join, load_flat

CHUNK = 500
"""Samples of one pass where only sums matter: limits memory, and fits the caches."""
POSITIONS = 4000
"""Positions of one pass over sequences: each has a logit for every word of the vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Passes of one task over a client's samples."""

    epochs: int
    """Number of passes, >= 1; replaces `settings.epochs`."""
    stream: np.random.Generator
    """Random stream: the seed of dropout, if the network has any, then the `orders`."""
    most_steps: int | None = None
    """Number of steps, >= 1, after which training stops; None: all epochs."""
    tells_epoch_losses: bool = False
    """True if the result holds the mean loss of every epoch."""
    step_stream: StepStream | None = None
    """Random streams of the steps' augmentation; None: samples stay as they are."""


def train(
    module: nn.Module,
    base: Parameters,
    inputs: Tensor,
    labels: Tensor,
    settings: StepSettings,
    passes: Passes,
    *,
    scenario_loss: Loss | None = None,
) -> JobResult:
    """Train from `base` [P] over all samples [n, ...], shuffled in every epoch.

    Losses are those of the last, perhaps incomplete epoch, each taken just before the step of its
    batch. A diverged result is returned unchanged.

    The module holds the result after the call. Labels are int64 [n], or [n, t] of sequences. A
    `scenario_loss` replaces the network's or the cross-entropy.
    """
    load_flat(module, base)
    module.train()
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    descent = Descent(parameters, settings, num_steps=settings.scheduled_steps(len(labels)))
    loss_of = losses_of(module, scenario_loss, label_smoothing=settings.label_smoothing)
    tells, num_begun = passes.tells_epoch_losses, 0
    seen: deque[list[Tensor]] = deque(maxlen=None if tells else 1)
    with dropping_out(module, passes.stream):
        for epoch, batch in batches(inputs, labels, settings, passes):
            if epoch == num_begun:
                seen.append([])
                num_begun += 1
            batch_losses = batch.losses(module(batch.inputs), loss_of)
            descent.step(torch.autograd.grad(batch_losses.mean(), parameters))
            seen[-1].append(batch_losses.detach())
    by_epoch = list(map(torch.cat, seen))
    return _result(by_epoch[-1], flatten(module))._replace(
        num_samples=len(labels), epoch_losses=tuple(map(_mean, by_epoch)) if tells else None
    )


def batches(
    inputs: Tensor, labels: Tensor, settings: StepSettings, passes: Passes
) -> Iterator[tuple[int, SampleBatch]]:
    """Yield the epoch, from 0, and the augmented batch of each step, after drawing the orders."""
    num_samples, batching = len(labels), settings.batching
    used, sizes = batching.num_used(num_samples), batching.sizes(num_samples)
    drawn = torch.from_numpy(orders(passes.stream, passes.epochs, num_samples)).to(labels.device)
    all_steps = ((at, rows) for at, order in enumerate(drawn) for rows in order[:used].split(sizes))
    steps = islice(all_steps, num_steps(num_samples, passes.epochs, batching, passes.most_steps))
    for number, (epoch, rows) in enumerate(steps, 1):
        batch = SampleBatch(inputs.index_select(0, rows), labels.index_select(0, rows))
        if passes.step_stream is not None:
            stream = passes.step_stream(number)
            batch = augmented(batch.inputs, batch.labels, settings.augmentation, stream)
        yield epoch, batch


def orders(stream: np.random.Generator, epochs: int, num_samples: int) -> IntArray:
    """Return the order of a client's samples in each epoch [epochs, n]."""
    return orders_of(stream.bit_generator.random_raw(epochs * num_samples), epochs)


def orders_of(words: NDArray[np.uint64], epochs: int) -> IntArray:
    """Return the permutations [..., epochs, n] for random words [..., epochs * n].

    Each sample draws a word of 64 bits per epoch, and samples are sorted by their words.
    """
    order: IntArray = words.reshape(*words.shape[:-1], epochs, -1).argsort(axis=-1)
    return order


def num_steps(num_samples: int, epochs: int, batching: Batching, most: int | None = None) -> int:
    """Return the SGD steps of a client's training, which may stop after `most` steps.

    >>> num_steps(101, 2, Batching(50)), num_steps(101, 2, Batching(50), most=4)
    (6, 4)
    """
    all_steps = epochs * batching.num_batches(num_samples)
    return all_steps if most is None else min(all_steps, most)


def gradient(
    module: nn.Module,
    base: Parameters,
    inputs: Tensor,
    labels: Tensor,
    *,
    label_smoothing: float = 0.0,
    scenario_loss: Loss | None = None,
) -> JobResult:
    """Return the mean gradient of the loss over all samples at `base`, in the flat layout.

    Weight decay and proximal term are not part of it, and it is not clipped; buffers have gradient
    0. Arguments are those of `train`.
    """
    load_flat(module, base)
    module.train()
    use_whole_network(module)
    named = {name: value for name, value in module.named_parameters() if value.requires_grad}
    sums = {name: torch.zeros_like(value) for name, value in named.items()}
    loss_of = losses_of(module, scenario_loss, label_smoothing=label_smoothing)
    seen = []
    for some_inputs, some_labels in _chunks(inputs, labels):
        some_losses = loss_of(module(some_inputs), some_labels)
        parts = torch.autograd.grad(some_losses.sum(), list(named.values()))
        for total, part in zip(sums.values(), parts, strict=True):
            total.add_(part)
        seen.append(some_losses.detach())
    means = {name: total / len(labels) for name, total in sums.items()}
    return _result(torch.cat(seen), join(module, means))


def evaluate(
    module: nn.Module,
    base: Parameters,
    inputs: Tensor,
    labels: Tensor,
    *,
    scenario_loss: Loss | None = None,
) -> JobResult:
    """Return accuracy and losses of `base` on samples; arguments are those of `train`."""
    all_losses, all_hits = losses_and_hits(module, base, inputs, labels, scenario_loss)
    result = _result(all_losses, None)
    return result._replace(accuracy=float(all_hits.mean()))


def losses_and_hits(
    module: nn.Module,
    base: Parameters,
    inputs: Tensor,
    labels: Tensor,
    scenario_loss: Loss | None = None,
) -> tuple[Tensor, Tensor]:
    """Return losses and hits of each sample [n] at `base`, with running statistics."""
    load_flat(module, base)
    module.eval()
    loss_of = losses_of(module, scenario_loss)
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
