"""Networks of users: each broken in one way, and some that are not."""

import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from fleetsim.contracts import SampleForm
from tests.user.variants import fails, variants

KIND = "model"


class Net(nn.Module):
    """One linear layer on grey images."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(784, 10)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.linear(images.flatten(1))
        return logits


class OfNothing(Net):
    def __init__(self) -> None:
        torch.set_default_device("meta")
        super().__init__()


class TensorOnce(Net):
    """The second result has another type."""

    calls = 0

    def forward(self, images: Tensor) -> Tensor:
        type(self).calls += 1
        logits = super().forward(images)
        return logits if self.calls % 2 else logits.numpy()  # type: ignore[return-value]


class Dropped(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(dropout(images, 0.3, training=self.training))


class Series(nn.Module):
    """For samples that are none of the usual ones."""

    sample_form = SampleForm((3, 50), 4)

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, series: Tensor) -> Tensor:
        logits: Tensor = self.head(self.rnn(series.mT)[0][:, -1])
        return logits


class Attention(nn.Module):
    """For texts with a label at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(80, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 80)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.block(self.embedding(tokens)))
        return logits


class Remembers(Net):
    num_seen = 0

    def forward(self, images: Tensor) -> Tensor:
        self.num_seen += self.training
        return super().forward(images * (1.0 + 0.01 * self.num_seen))


class CountsSteps(Net):
    """Its buffer is no part of the flat vector."""

    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, images: Tensor) -> Tensor:
        self.steps += self.training
        return super().forward(images) * (1.0 + 0.1 * self.steps)


class HasFrozen(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(784, 784).requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(self.body(images.flatten(1)))


def built(change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a constructor after which something of the network is changed."""

    def build(self: Net) -> None:
        Net.__init__(self)
        change(self)

    return {"__init__": build}


def maps(change: Callable[[Net, Tensor], Tensor], **attributes: Any) -> dict[str, Any]:
    """Return a forward pass on images that are changed."""
    return {"forward": lambda self, images: Net.forward(self, change(self, images))} | attributes


def changes(what: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a forward pass after which something of the network is changed in training."""

    def forward(self: HasFrozen, images: Tensor) -> Tensor:
        logits = HasFrozen.forward(self, images)
        with torch.no_grad():
            what(self)
        return logits

    return {"forward": forward}


def scores(change: Callable[[Tensor], Any]) -> dict[str, Any]:
    """Return a forward pass whose logits are changed."""
    return {"forward": lambda self, images: change(Net.forward(self, images))}


def by_system() -> float:
    return 1.0 + int.from_bytes(os.urandom(4)) * 1e-9


FOURIER = maps(lambda _, images: torch.fft.fft2(images).real)
BROKEN = {
    OfNothing: "its move to the CPU fails: NotImplementedError",
    TensorOnce: "two forward passes on the same samples in evaluation mode differ",
    Remembers: "keeps state outside of its weights",
    CountsSteps: "training to the next (buffer steps); make it a float buffer",
} | variants(
    Net,
    {
        "Unused": ("the loss does not depend on spare.weight, spare.bias",
            built(lambda net: setattr(net, "spare", nn.Linear(3, 3)))),
        "Frozen": ("no parameter that is trained", built(lambda net: net.requires_grad_(False))),
        "Doubles": ("linear.weight is float64", built(lambda net: net.double())),
        "CountsBatches": ("averages over a count of batches",
            built(lambda net: setattr(net, "norm", nn.BatchNorm1d(10, momentum=None)))),
        "Uncopied": ("copy.deepcopy of it fails",
            built(lambda net: setattr(net, "lock", threading.Lock()))),
        "Fails": ("Fails() fails: LookupError: no weights",
            {"__init__": fails(LookupError("no weights"))}),
        "NeedsMore": ("cannot be called as NeedsMore(); give its parameters defaults",
            {"__init__": lambda self, width: None}),
        "WrongShape": ("returns the shape (2, 9) for 2 samples", scores(lambda out: out[:, :9])),
        "FailsInTraining": ("its training fails: RuntimeError",
            maps(lambda net, images: images[..., :5] if net.training else images)),
        "ReturnsPair": ("returns tuple; it must return a tensor of logits",
            scores(lambda logits: (logits, logits))),
        "TestsWithNoise": ("draws random numbers (torch) in evaluation mode",
            maps(lambda _, images: images + torch.randn(1))),
        "ChangesInput": ("changes its input", maps(lambda _, images: images.sub_(0.5))),
        "AsksSystem": ("two forward passes on the same samples in evaluation mode differ",
            maps(lambda _, images: images * by_system())),
        "TrainsBySystem": ("two trainings from the same weights on the same samples differ",
            maps(lambda net, images: images * by_system() if net.training else images)),
        "Fourier": ("computes aten::_fft", FOURIER),
        "Detached": ("do not depend on its weights by differentiable operations",
            scores(lambda logits: logits.detach())),
        "NotFinite": ("numbers that are not finite", scores(lambda logits: logits.log())),
        "Declares": ("flop_per_sample is 3.0; it must be a mapping", {**FOURIER,
            "flop_per_sample": 3.0}),
    },
) | variants(
    HasFrozen,
    {
        "Unfreezes": ("unfreezes body.weight (requires_grad) in training; which weights are",
            changes(lambda net: net.body.requires_grad_(net.training))),
        "Freezes": ("freezes linear.bias (requires_grad) in training; which weights are",
            changes(lambda net: net.linear.bias.requires_grad_(not net.training))),
        "MovesFrozen": ("changes body.weight in training, which has requires_grad=False; make it a",
            changes(lambda net: net.body.weight.mul_(0.9 if net.training else 1.0))),
        "MovesFrozenData": ("changes body.bias in training, which has requires_grad=False; make",
            changes(lambda net: net.body.bias.data.add_(0.1 if net.training else 0.0))),
    },
)  # fmt: skip
GOOD = [Net, Dropped, Series, Attention]
