"""Focal loss: a cross-entropy in which samples that are classified well count less.

Lin, Goyal, Girshick, He, Dollar, "Focal loss for dense object detection", ICCV 2017, equation 4.
With p the probability that the network gives the right class,

    loss = -(1 - p)^gamma log p.

At gamma = 0 it is the cross-entropy. The paper's weights of classes, alpha, are 1 here.
"""

from torch import Tensor

from fleetsim.learning.local.sample_losses import losses

_LEAST = 1e-30


class FocalLoss:
    """Focal loss of each sample; for sequences, the mean over positions."""

    def __init__(self, gamma: float) -> None:
        """Build it; `gamma` is the exponent, at least 0."""
        self._gamma = gamma

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the losses [n] from logits [n, classes] or [n, t, classes], and labels."""
        each = losses(outputs.flatten(0, -2), labels.flatten()).view_as(labels)
        # 1 - p without a difference of nearly equal numbers, where p is close to 1.
        missed = -(-each).expm1()
        # A power has no gradient at 0 for exponents below 1; the loss there is 0 to all digits.
        focal = missed.clamp_min(_LEAST) ** self._gamma * each
        return focal if labels.dim() == 1 else focal.mean(dim=1)
