"""Losses that break their contract, and some that keep it."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from tests.user.variants import fails, variants

KIND = "loss"


class Squared:
    """Squared distance of the scores from those of the right class."""

    def losses(self, outputs: Any, labels: Any) -> Any:
        return (outputs - one_hot(labels, outputs.shape[-1])).square().sum(dim=1)


class OfSequences:
    """Cross-entropy of every position, which takes no single labels."""

    def losses(self, outputs: Any, labels: Any) -> Any:
        flat = outputs.flatten(0, 1), labels.flatten(0, 1)
        return cross_entropy(*flat, reduction="none").view(len(labels), labels.shape[1]).mean(dim=1)


class OfTwoClasses:
    """Logistic loss of two classes alone."""

    def losses(self, outputs: Any, labels: Any) -> Any:
        if outputs.shape[-1] != 2:
            raise ValueError("two classes")
        margin = (outputs[:, 1] - outputs[:, 0]) * (2 * labels - 1)
        return nn.functional.softplus(-margin)


class ChangesOutputs(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        outputs -= one_hot(labels, outputs.shape[-1])
        return outputs.square().sum(dim=1)


class ChangesLabels(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        found = super().losses(outputs, labels)
        labels.zero_()
        return found


class MovesAnAverage(Squared):
    """Divides by a mean of all losses so far."""

    def __init__(self) -> None:
        self.mean = torch.zeros(())

    def losses(self, outputs: Any, labels: Any) -> Any:
        found = super().losses(outputs, labels)
        self.mean = 0.9 * self.mean + found.detach().mean()
        return found / self.mean


class IsNone:
    """Has neither `losses` nor can be called."""


squared = Squared().losses


def losses(function: Any) -> Any:
    return {"losses": lambda self, outputs, labels: function(outputs, labels)}


BROKEN = {
    ChangesOutputs: "losses changes its outputs; work on a copy",
    ChangesLabels: "losses changes its labels; work on a copy",
    MovesAnAverage: "losses gives two results for the same outputs and labels",
    IsNone: "is no loss, it lacks losses; `fleetsim docs plugins`",
} | variants(
    Squared,
    {
        "Averages": (
            "losses returned one number for 5 samples; it must return the loss of each sample",
            losses(lambda *given: squared(*given).mean()),
        ),
        # It is right for all batches but those of one sample.
        "Squeezes": ("losses returned one number for 1 samples",
            losses(lambda *given: squared(*given).squeeze())),
        "Detaches": ("losses do not depend on the outputs by differentiable operations",
            losses(lambda outputs, labels: squared(outputs.detach(), labels))),
        "Rounds": ("losses do not depend on the outputs by differentiable operations",
            losses(lambda outputs, labels: squared(outputs.round(), labels))),
        "IsNotFinite": ("losses returned numbers that are not finite",
            losses(lambda outputs, _: outputs.log().sum(dim=1))),
        "HasInfiniteGradients": ("losses have gradients that are not finite",
            losses(lambda outputs, _: (outputs - outputs.detach()).abs().sqrt().sum(1))),
        "Draws": ("losses draws from or seeds the global generator of torch",
            losses(lambda outputs, labels: squared(outputs * torch.rand(1), labels))),
        "Fails": ("losses, with outputs [5, 10] and labels [5], fails: KeyError: 'weights'",
            {"losses": fails(KeyError("weights"))}),
        "TakesOutputsAlone": ("cannot be called as losses(outputs, labels)",
            {"losses": lambda self, outputs: outputs.square().sum(dim=1)}),
    },
)  # fmt: skip
GOOD = [Squared, OfSequences, OfTwoClasses]
