"""One step of SGD for a part of the weights of many models, up the slope of the likelihood.

The update is that of `local.train`: the slope s of the log-likelihood, or of minus another loss,
is minus the gradient. Without momentum it goes straight into the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fleetsim.learning.local.settings import LocalSettings


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The weights or the biases of one layer, of the first k models [k, ...]."""

    value: Tensor
    anchor: Tensor | None
    """Where the model started, if it is pulled there."""
    velocity: Tensor | None
    """If there is momentum."""


def climb(part: Part, slopes: Tensor, inputs: Tensor | None, settings: LocalSettings) -> None:
    """Update one part in place.

    Args:
        part: what is updated.
        slopes: those of the part itself; if there are `inputs`, the left factor of their batched
            product.
        inputs: right factor of the slopes; None: `slopes` are the slopes.
        settings: optimizer and proximal term.
    """
    sgd = settings.optimizer
    rate = sgd.learning_rate
    pull: Tensor | None = None
    if part.anchor is not None:
        pull = (part.value - part.anchor).mul_(settings.proximal_mu)
    if sgd.weight_decay:
        decay = part.value * sgd.weight_decay
        pull = decay if pull is None else pull.add_(decay)
    if part.velocity is None:
        target, factor = part.value, rate
    else:
        target, factor = part.velocity.mul_(sgd.momentum), -1.0
    if pull is not None:
        target.add_(pull, alpha=-factor)
    if inputs is None:
        target.add_(slopes, alpha=factor)
    else:
        target.baddbmm_(slopes, inputs, alpha=factor)
    if part.velocity is not None:
        part.value.sub_(part.velocity, alpha=rate)
