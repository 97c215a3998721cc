"""SGD step of one layer's weights or biases, for many models at once.

The update is that of `local_sgd.train`. Gradients here are those of the log-likelihood, or of minus
another loss, so a step adds them. Without momentum they are added directly to the weights.
"""

from dataclasses import dataclass

from torch import Tensor

from fleetsim.learning.local.step_settings import StepSettings


@dataclass(frozen=True, slots=True, eq=False)
class StackedWeights:
    """Weights or biases of one layer, of the first k models [k, ...]."""

    value: Tensor
    anchor: Tensor | None
    """Initial values, for the proximal term; None without it."""
    velocity: Tensor | None
    """Velocity; None without momentum."""


def take_step(
    stacked: StackedWeights, gradients: Tensor, inputs: Tensor | None, settings: StepSettings
) -> None:
    """Update weights in place.

    Args:
        stacked: weights to update.
        gradients: gradients of the log-likelihood; with `inputs`, the left factor of their batched
            product.
        inputs: right factor of the gradients; None: `gradients` are complete.
        settings: optimizer and proximal term.
    """
    sgd = settings.plain_sgd()
    rate = sgd.learning_rate
    pull: Tensor | None = None
    if stacked.anchor is not None:
        pull = (stacked.value - stacked.anchor).mul_(settings.proximal_mu)
    if sgd.weight_decay:
        decay = stacked.value * sgd.weight_decay
        pull = decay if pull is None else pull.add_(decay)
    if stacked.velocity is None:
        target, factor = stacked.value, rate
    else:
        target, factor = stacked.velocity.mul_(sgd.momentum), -1.0
    if pull is not None:
        target.add_(pull, alpha=-factor)
    if inputs is None:
        target.add_(gradients, alpha=factor)
    else:
        target.baddbmm_(gradients, inputs, alpha=factor)
    if stacked.velocity is not None:
        stacked.value.sub_(stacked.velocity, alpha=rate)
