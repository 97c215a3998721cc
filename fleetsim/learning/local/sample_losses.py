"""Losses of samples: the cross-entropy, a network's own, or the one that a scenario names."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from torch import Tensor
from torch.nn.functional import cross_entropy

from fleetsim.contracts import Loss

LossFunction = Callable[[Any, Tensor], Tensor]
"""Loss of each sample [n] from the network's outputs and the labels."""

_LEAST_MISSED = 1e-30


@runtime_checkable
class HasLoss(Protocol):
    """Network with another training loss than the cross-entropy."""

    def losses(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample [n] from scores [n, classes] and labels [n]."""


def losses_of(
    module: object, scenario_loss: Loss | None = None, *, label_smoothing: float = 0.0
) -> LossFunction:
    """Return the loss function of a training: the scenario's, the network's, or `losses`.

    Two losses are refused, and smoothing of labels of another than the cross-entropy.
    """
    if scenario_loss is not None and isinstance(module, HasLoss):
        raise ValueError("the network has a loss of its own beside that of the scenario")
    owner: object = module if scenario_loss is None else scenario_loss
    if not isinstance(owner, HasLoss):
        return partial(losses, label_smoothing=label_smoothing) if label_smoothing else losses
    if label_smoothing:
        raise ValueError("labels are smoothed for the cross-entropy alone")
    return owner.losses


def losses(logits: Tensor, labels: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Return each sample's cross-entropy in nats [n]; for sequences, the mean over positions.

    Logits are [n, classes], or [n, t, classes] of sequences, and labels int64 [n], or [n, t]. With
    label smoothing e the loss is (1 - e) times the cross-entropy with the label, plus e times the
    mean of those with each class (Szegedy et al., CVPR 2016).
    """
    if labels.dim() == 1:
        return cross_entropy(logits, labels, reduction="none", label_smoothing=label_smoothing)
    flat = logits.flatten(0, 1), labels.flatten()
    return (
        cross_entropy(*flat, reduction="none", label_smoothing=label_smoothing)
        .view_as(labels)
        .mean(dim=1)
    )


def hits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the share of each sample's positions that are classified correctly [n] float64.

    Arguments are those of `losses`.
    """
    correct = (logits.argmax(dim=-1) == labels).double()
    return correct if labels.dim() == 1 else correct.mean(dim=1)


class FocalLoss:
    """Focal loss of each sample; for sequences, the mean over positions.

    Lin, Goyal, Girshick, He, Dollar, "Focal loss for dense object detection", ICCV 2017, equation
    4. With p the probability that the network gives the right class, it is -(1 - p)^gamma log p: a
    cross-entropy, at gamma = 0, in which samples that are classified well count less. The paper's
    weights of classes, alpha, are 1 here.
    """

    def __init__(self, gamma: float) -> None:
        """Build it; `gamma` is the exponent, at least 0."""
        self._gamma = gamma

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the losses [n] from logits [n, classes] or [n, t, classes], and labels."""
        each = losses(outputs.flatten(0, -2), labels.flatten()).view_as(labels)
        # 1 - p without a difference of nearly equal numbers, where p is close to 1.
        missed = -(-each).expm1()
        # A power has no gradient at 0 for exponents below 1; the loss there is 0 to all digits.
        focal = missed.clamp_min(_LEAST_MISSED) ** self._gamma * each
        return focal if labels.dim() == 1 else focal.mean(dim=1)
