"""Augmentation of the samples of a training step: flip, crop, noise and mixup.

Draws have the address of the task and the number of the step, so a training that is cut short is
the beginning of the whole one. Mixup is that of Zhang et al., "mixup: beyond empirical risk
minimization", ICLR 2018: one share per batch, from Beta(a, a); the loss is mixed with the same
share, which for the cross-entropy equals mixed labels.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fleetsim.learning.local.step_settings import AugmentationSettings

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
