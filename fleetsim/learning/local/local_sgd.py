"""Local training, gradient and evaluation of a model on one client's samples.

Every function is pure in its arguments: the network's weights are overwritten with `base` first.

Client k starts from the model w_0 that the server sent and minimises

    F_k(w) + mu/2 |w - w_0|^2,    F_k(w) = (1/n_k) sum_i loss_i(w),

with the loss that `sample_losses` returns; docs/models/learning.md has the sources. One step on a
batch B, with learning rate h:

    g = (1/|B|) sum_B grad loss_i(w) + mu (w - w_0);    w <- w - h d(g, w).

g is scaled down to the largest norm that the settings allow. The direction d is that of the
optimizer, see `optimizers`.

Samples of a step may be augmented by flip, crop, noise and mixup. Draws have the address of the
task and the number of the step, so a training that is cut short is the beginning of the whole one.
Mixup is that of Zhang et al., "mixup: beyond empirical risk minimization", ICLR 2018: one share per
batch, from Beta(a, a); the loss is mixed with the same share, which for the cross-entropy equals
mixed labels.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim.contracts import IntArray, JobResult, Loss, Parameters
from fleetsim.counts import Batching
from fleetsim.host.memory import give_back_freed
from fleetsim.learning.local.optimizers import Descent
from fleetsim.learning.local.sample_losses import LossFunction, hits, losses_of
from fleetsim.learning.local.step_settings import AugmentationSettings, StepSettings
from fleetsim.learning.models.dropout import dropping_out, use_whole_network
from fleetsim.learning.models.flat_vector import flatten, join, load_flat

StepStream = Callable[[int], np.random.Generator]
"""Random stream of a step of a task by its number, 1 for the first."""


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Samples of a step, as the network sees them."""

    inputs: Tensor
    labels: Tensor
    mixed_labels: Tensor | None = None
    """Labels of the samples that were mixed in [n]; None without mixup."""
    share: float = 1.0
    """Share of `labels` in the loss; the rest is that of `mixed_labels`."""

    def losses(self, scores: Tensor, loss_of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return the loss of each sample [n] from the network's scores."""
        unmixed = loss_of(scores, self.labels)
        if self.mixed_labels is None:
            return unmixed
        return self.share * unmixed + (1.0 - self.share) * loss_of(scores, self.mixed_labels)


def augmented(
    inputs: Tensor, labels: Tensor, settings: AugmentationSettings, stream: np.random.Generator
) -> SampleBatch:
    """Return the changed samples of a step [n, ...], new tensors, from the step's own stream."""
    num = len(inputs)
    if settings.flip_chance:
        is_flipped = torch.from_numpy(stream.random(num) < settings.flip_chance)
        chosen = is_flipped.to(inputs.device).view(-1, 1, 1, 1)
        inputs = torch.where(chosen, inputs.flip(-1), inputs)
    if settings.crop_padding:
        inputs = _cropped(inputs, settings.crop_padding, stream)
    if settings.noise_sd:
        noise = torch.from_numpy(stream.standard_normal(tuple(inputs.shape)))
        inputs = inputs + settings.noise_sd * noise.to(inputs)
    if not settings.mixup_alpha:
        return SampleBatch(inputs, labels)
    share = float(stream.beta(settings.mixup_alpha, settings.mixup_alpha))
    other = torch.from_numpy(stream.permutation(num)).to(inputs.device)
    mixed = share * inputs + (1.0 - share) * inputs.index_select(0, other)
    return SampleBatch(mixed, labels, labels.index_select(0, other), share)


def _cropped(images: Tensor, padding: int, stream: np.random.Generator) -> Tensor:
    """Return parts of the images' own size, cut at random from padded images [n, C, H, W]."""
    num, _, height, width = images.shape
    down, right = stream.integers(2 * padding + 1, size=(2, num)).tolist()
    parts = torch.zeros_like(images)
    for image, part, top, left in zip(images, parts, down, right, strict=True):
        # Number [i, j] of a part is [i + y, j + x] of the image, or 0 outside of it. The padded
        # images themselves would take memory as the square of the padding.
        y = min(max(top - padding, -height), height)
        x = min(max(left - padding, -width), width)
        inner = image[:, max(y, 0) : height + min(y, 0), max(x, 0) : width + min(x, 0)]
        part[:, max(-y, 0) :, max(-x, 0) :][:, : inner.shape[1], : inner.shape[2]] = inner
    return parts


CHUNK = 500
"""Samples of one pass where only sums matter: limits memory, and fits the caches."""
POSITIONS = 4000
"""Positions of one pass over sequences: each has a logit for every word of the vocabulary."""


_LARGE_BYTE = 1 << 25
"""Bytes of a vector from which on glibc takes it from the system, not from freed memory."""


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
    in_backward: bool = False
    """True if weights are updated within the backward pass, see `Descent.step_in_backward`."""
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
    descent = Descent(trained(module), settings, num_steps=settings.scheduled_steps(len(labels)))
    loss_of = losses_of(module, scenario_loss, label_smoothing=settings.label_smoothing)
    tells, steps = passes.tells_epoch_losses, batches(inputs, labels, settings, passes)
    with dropping_out(module, passes.stream):
        by_epoch = take(
            steps, module, descent, loss_of, keeps_all=tells, in_backward=passes.in_backward
        )
    if base.nbytes >= _LARGE_BYTE:
        give_back_freed()  # the memory of the steps, which the result does not use
    return _result(by_epoch[-1], flatten(module))._replace(
        num_samples=len(labels), epoch_losses=tuple(map(_mean, by_epoch)) if tells else None
    )


def trained(module: nn.Module) -> list[nn.Parameter]:
    """Return the trained parameters of a network, each once, in their order."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def take(
    steps: Iterable[tuple[int, SampleBatch]],
    module: nn.Module,
    descent: Descent,
    loss_of: LossFunction,
    *,
    added: Sequence[Tensor] | None = None,
    keeps_all: bool = True,
    in_backward: bool = False,
) -> list[Tensor]:
    """Take steps on a network, in place; return the losses of the samples of each epoch.

    The steps are those of `batches`. `added` is added to every gradient, by parameter. The losses
    are those of the last epoch alone unless it `keeps_all`. `in_backward` is that of `Passes`.

    Raises:
        ValueError: something is added to gradients of which one at a time is known.
    """
    if in_backward and added is not None:
        raise ValueError("nothing can be added to gradients within the backward pass")
    seen: deque[list[Tensor]] = deque(maxlen=None if keeps_all else 1)
    num_begun, weights = 0, trained(module)
    for epoch, batch in steps:
        if epoch == num_begun:
            seen.append([])
            num_begun += 1
        losses = batch.losses(module(batch.inputs), loss_of)
        seen[-1].append(losses.detach())
        if in_backward:
            descent.step_in_backward(losses.mean())
            continue
        gradients: Sequence[Tensor] = torch.autograd.grad(losses.mean(), weights)
        if added is not None:
            gradients = [one + addend for one, addend in zip(gradients, added, strict=True)]
        descent.step(gradients)
        del gradients  # else they are held until the next backward pass ends
    return list(map(torch.cat, seen))


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
