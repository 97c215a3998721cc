"""Networks of users: each broken in one way, and some that are not."""

from __future__ import annotations

import os
import random  # noqa: TID251
import threading

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from fleetsim.contracts import SampleForm

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
        found = super().forward(images)
        return found if self.calls % 2 else found.numpy()  # type: ignore[return-value]


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


class Fails(Net):
    def __init__(self) -> None:
        super().__init__()
        raise LookupError("no weights")


class NeedsMore(Net):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width


class WrongShape(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images)[:, :9]


class ReturnsPair(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images), images  # type: ignore[return-value]


class TestsWithNoise(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images + torch.randn(1))


class TestsWithNumpy(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images * float(np.random.rand()))  # noqa: NPY002


class TestsWithRandom(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images * random.random())


class ChangesInput(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.sub_(0.5))


class AsksSystem(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images * (1.0 + int.from_bytes(os.urandom(4)) * 1e-9))


class TrainsBySystem(Net):
    def forward(self, images: Tensor) -> Tensor:
        factor = 1.0 + int.from_bytes(os.urandom(4)) * 1e-9 if self.training else 1.0
        return super().forward(images * factor)


class Remembers(Net):
    num_seen = 0

    def forward(self, images: Tensor) -> Tensor:
        self.num_seen += self.training
        return super().forward(images * (1.0 + 0.01 * self.num_seen))


class Fourier(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(torch.fft.fft2(images).real)


class Unused(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(3, 3)


class Detached(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).detach()


class NotFinite(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).log()


class Frozen(Net):
    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)


class Doubles(Net):
    def __init__(self) -> None:
        super().__init__()
        self.double()


class CountsBatches(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(10, momentum=None)


class Uncopied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Declares(Fourier):
    flop_per_sample = 3.0


BROKEN = {
    OfNothing: "its move to the CPU fails: NotImplementedError",
    TensorOnce: "two forward passes on the same samples in evaluation mode differ",
    Fails: "Fails() fails: LookupError: no weights",
    NeedsMore: "NeedsMore() fails: TypeError",
    WrongShape: "returns the shape (2, 9) for 2 samples",
    ReturnsPair: "returns tuple; it must return a tensor of logits",
    TestsWithNoise: "draws random numbers (torch) in evaluation mode",
    TestsWithNumpy: "draws random numbers (numpy) in evaluation mode",
    TestsWithRandom: "draws random numbers (random) in evaluation mode",
    ChangesInput: "changes its input",
    AsksSystem: "two forward passes on the same samples in evaluation mode differ",
    TrainsBySystem: "two trainings from the same weights on the same samples differ",
    Remembers: "keeps state outside of its weights",
    Fourier: "computes aten::_fft",
    Unused: "the loss does not depend on spare.weight, spare.bias",
    Detached: "do not depend on its weights by differentiable operations",
    NotFinite: "numbers that are not finite",
    Frozen: "no parameter that is trained",
    Doubles: "linear.weight is float64",
    CountsBatches: "averages over a count of batches",
    Uncopied: "copy.deepcopy of it fails",
    Declares: "flop_per_sample is 3.0; it must be a mapping",
}
GOOD = [Net, Dropped, Series, Attention]
