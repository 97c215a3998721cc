"""Losses that a test gives, as a user would, and their settings."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from torch import Tensor
from torch.nn.functional import one_hot

from fleetsim.contracts import Loss
from fleetsim.user.parts.checked_loss import CheckedLoss
from fleetsim.user.parts.models import LossPluginSettings


class GivenLoss(LossPluginSettings):
    """Settings of a loss that is a function."""

    call: ClassVar[Any]

    kind: Literal["given"] = "given"

    def build(self) -> Loss:
        return CheckedLoss(type(self).call, "loss mine:given")


def given_loss(function: Callable[[Any, Tensor], Any]) -> GivenLoss:
    """Return settings of a loss."""

    class Settings(GivenLoss):
        call = staticmethod(function)

    return Settings()


def squared(outputs: Tensor, labels: Tensor) -> Tensor:
    """Squared distance of the scores from 1 for the right class and 0 for the others."""
    each = (outputs - one_hot(labels, outputs.shape[-1])).square().sum(-1)
    return each if labels.dim() == 1 else each.mean(dim=1)


def against_others(outputs: Tensor, labels: Tensor) -> Tensor:
    """Loss of a sample that depends on the other samples of its batch."""
    return squared(outputs - outputs.mean(dim=0), labels)
