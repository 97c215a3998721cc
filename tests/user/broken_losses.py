"""Losses that break their contract, and some that keep it."""

from __future__ import annotations

import random  # noqa: TID251
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

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


class Averages(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs, labels).mean()


class KeepsTheColumn(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs, labels)[:, None]


class Squeezes(Squared):
    """Right for all batches but those of one sample."""

    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs, labels).squeeze()


class ReturnsNumbers(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs, labels).tolist()


class CountsErrors(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return outputs.argmax(dim=1).ne(labels)


class Detaches(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs.detach(), labels)


class Rounds(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs.round(), labels)


class IsNotFinite(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return outputs.log().sum(dim=1)


class HasInfiniteGradients(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs, labels) + (outputs - outputs.detach()).abs().sqrt().sum(1)


class ChangesOutputs(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        outputs -= one_hot(labels, outputs.shape[-1])
        return outputs.square().sum(dim=1)


class ChangesLabels(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        found = super().losses(outputs, labels)
        labels.zero_()
        return found


class Draws(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs * torch.rand(1), labels)


class DrawsFromPython(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        return super().losses(outputs, labels) * (1.0 + random.random())


class MovesAnAverage(Squared):
    """Divides by a mean of all losses so far."""

    def __init__(self) -> None:
        self.mean = torch.zeros(())

    def losses(self, outputs: Any, labels: Any) -> Any:
        found = super().losses(outputs, labels)
        self.mean = 0.9 * self.mean + found.detach().mean()
        return found / self.mean


class Learns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.zeros(10))

    def losses(self, outputs: Any, labels: Any) -> Any:
        return (outputs - self.centers).square().sum(dim=1)


class Fails(Squared):
    def losses(self, outputs: Any, labels: Any) -> Any:
        raise KeyError("weights")


class TakesOutputsAlone(Squared):
    def losses(self, outputs: Any) -> Any:  # type: ignore[override]
        return outputs.square().sum(dim=1)


class IsNone:
    """Has neither `losses` nor can be called."""


BROKEN = {
    Averages: "losses returned one number for 5 samples; it must return the loss of each sample",
    KeepsTheColumn: "losses returned the shape (5, 1) for 5 samples",
    Squeezes: "losses returned one number for 1 samples",
    ReturnsNumbers: "losses returned list, not a tensor",
    CountsErrors: "losses returned bool, not a float tensor",
    Detaches: "losses do not depend on the outputs by differentiable operations",
    Rounds: "losses do not depend on the outputs by differentiable operations",
    IsNotFinite: "losses returned numbers that are not finite",
    HasInfiniteGradients: "losses have gradients that are not finite",
    ChangesOutputs: "losses changes its outputs; work on a copy",
    ChangesLabels: "losses changes its labels; work on a copy",
    Draws: "losses draws from or seeds the global generator of torch",
    DrawsFromPython: "losses draws from or seeds the global generator of random",
    MovesAnAverage: "losses gives two results for the same outputs and labels",
    Learns: "has weights that no client would train",
    Fails: "losses, with outputs [5, 10] and labels [5], fails: KeyError: 'weights'",
    TakesOutputsAlone: "cannot be called as losses(outputs, labels)",
    IsNone: "is no loss, it lacks losses; docs/plugins.md has an example",
}
GOOD = [Squared, OfSequences, OfTwoClasses]
