"""Clients of one network with samples of their own, trained one at a time or at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from fleetsim import rng
from fleetsim.contracts import JobResult
from fleetsim.learning.kernels.batches import StackJob
from fleetsim.learning.kernels.vmap.vmap_sgd import train_together
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.settings import LocalSettings, Precision, SgdSettings
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    FedGraCnnSettings,
    GpflCnnSettings,
    Gpt2Settings,
    LeNet5Settings,
    LogisticSettings,
    ModelSettings,
    ResNet18Settings,
    ShuffleNetV2Settings,
    SvmSettings,
    TwoNNSettings,
    Vgg16Settings,
)
from tests.learning.stack_jobs import stack_job

Array = NDArray[Any]
NUM_CLASSES = 4


class SmallGpt(nn.Module):
    """Embedding, torch's attention, GELU; the output layer shares the embedding's weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_CLASSES, 8)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.Linear(8, 24)
        self.head = nn.Linear(8, NUM_CLASSES, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.ones(1))

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.embedding(tokens) * self.scale
        parts = self.attention(self.norm(hidden)).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        logits: Tensor = self.head(hidden + gelu(mixed.transpose(1, 2).flatten(2)))
        return logits


def batch_norm_net() -> nn.Module:
    """A convolution with BatchNorm."""
    norm = nn.BatchNorm2d(3)
    norm.num_batches_tracked = None
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(12, NUM_CLASSES)
    )


def frozen_net() -> nn.Module:
    """Its first layer is not trained."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, NUM_CLASSES))
    net[1].requires_grad_(False)
    return net


TEXT = (6,)
IMAGE = (1, 4, 4)
SMALL: dict[str, Any] = {
    "logistic": lambda: built(LogisticSettings(), IMAGE),
    "2nn": lambda: built(TwoNNSettings(hidden=(7, 5)), IMAGE),
    "batch norm": batch_norm_net,
    "frozen": frozen_net,
    "gpt": SmallGpt,
}
PUBLISHED: list[tuple[ModelSettings, tuple[int, ...]]] = [
    (LogisticSettings(), (60,)),
    (TwoNNSettings(), (1, 28, 28)),
    (FedGraCnnSettings(), (1, 8, 8)),
    (GpflCnnSettings(), (3, 18, 18)),
    *(
        (SvmSettings(hinge=hinge), (1, 4, 4))
        for hinge in ("crammer-singer", "weston-watkins", "one-vs-rest")
    ),
    (LeNet5Settings(), (1, 12, 12)),
    *((ResNet18Settings(norm=norm), (3, 9, 9)) for norm in ("group", "batch")),
    *((Vgg16Settings(norm=norm), (3, 32, 32)) for norm in ("group", "batch")),
    *((ShuffleNetV2Settings(norm=norm), (3, 9, 9)) for norm in ("group", "batch")),
    (Gpt2Settings(layers=2, heads=2, width=8), TEXT),
]


def built(model: ModelSettings, shape: tuple[int, ...]) -> nn.Module:
    return build_model(
        model,
        input_shape=shape,
        num_classes=NUM_CLASSES,
        vocabulary_size=NUM_CLASSES if shape == TEXT else None,
        is_sequence=shape == TEXT,
        seed=3,
    )


@cache
def published(index: int) -> tuple[nn.Module, tuple[int, ...]]:
    model, shape = PUBLISHED[index]
    return built(model, shape), shape


@dataclass(frozen=True)
class Client:
    size: int
    epochs: int = 1
    base: int = 0
    """Which of the models it starts from."""
    most_steps: int | None = None
    """It is stopped after so many."""
    tells: bool = False
    """True if it reports the loss of each epoch."""


EVERY_TERM = LocalSettings(
    epochs=1,
    batch_size=3,
    optimizer=SgdSettings(learning_rate=0.05, momentum=0.9, weight_decay=0.05),
    proximal_mu=0.5,
)
"""Momentum, weight decay and the proximal term."""


def plain(batch_size: int = 5, learning_rate: float = 0.1) -> LocalSettings:
    sgd = SgdSettings(learning_rate=learning_rate)
    return LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd)


class Fleet:
    """Clients of one network with samples of their own: the same to every trainer."""

    def __init__(
        self,
        module: nn.Module,
        clients: Sequence[Client],
        *,
        shape: tuple[int, ...] | None = None,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> None:
        if shape is None:
            shape = TEXT if isinstance(module, SmallGpt) else IMAGE
        self.module = module.to(device, dtype)
        self.clients = clients
        num = sum(client.size for client in clients)
        draw = rng.stream(5, "test/samples")
        if shape == TEXT:
            self.inputs = torch.from_numpy(draw.integers(NUM_CLASSES, size=(num, *shape)))
            self.labels = torch.from_numpy(draw.integers(NUM_CLASSES, size=(num, *shape)))
        else:
            self.inputs = torch.from_numpy(draw.normal(size=(num, *shape))).to(dtype)
            self.labels = torch.from_numpy(draw.integers(NUM_CLASSES, size=num))
        self.inputs, self.labels = self.inputs.to(device), self.labels.to(device)
        ends = np.cumsum([client.size for client in clients])
        self.shares = np.split(rng.stream(5, "test/rows").permutation(num), ends[:-1])
        self.first = flatten(self.module)

    def base(self, version: int) -> Array:
        """The network's own weights, a little changed; running statistics as they are."""
        changed = self.first.copy()
        for slot in layout(self.module):
            if slot.is_trained:
                draw = rng.stream(5, "test/base", version, slot.start)
                part = slice(slot.start, slot.stop)
                changed[part] += 0.1 * draw.normal(size=slot.stop - slot.start)
        if isinstance(self.module, SmallGpt):  # one weight, two entries
            tied = {slot.name: changed[slot.start : slot.stop] for slot in layout(self.module)}
            tied["head.weight"][:] = tied["embedding.weight"]
        return changed

    def jobs(self) -> list[StackJob]:
        return [
            stack_job(
                self.base(client.base),
                rows,
                client.epochs,
                _stream(index),
                client.most_steps,
                tells_epoch_losses=client.tells,
            )
            for index, (client, rows) in enumerate(zip(self.clients, self.shares, strict=True))
        ]

    def one_by_one(self, chosen: LocalSettings) -> list[JobResult]:
        return [
            local_sgd.train(
                self.module,
                job.base,
                self.inputs[job.rows],
                self.labels[job.rows],
                chosen,
                epochs=job.epochs,
                stream=_stream(index),
                most_steps=job.most_steps,
                tells_epoch_losses=job.tells_epoch_losses,
            )
            for index, job in enumerate(self.jobs())
        ]

    def together(self, chosen: LocalSettings, precision: Precision = "float32") -> list[JobResult]:
        return train_together(
            self.module, self.jobs(), self.inputs, self.labels, chosen, precision=precision
        )

    def errors(self, found: list[JobResult], expected: list[JobResult]) -> list[float]:
        """Distance to the expected vectors, relative to the update."""
        return [
            float(
                np.linalg.norm(vector_of(result) - vector_of(reference))
                / np.linalg.norm(vector_of(reference) - self.base(client.base))
            )
            for client, result, reference in zip(self.clients, found, expected, strict=True)
        ]


def _stream(client: int) -> np.random.Generator:
    return rng.stream(5, "test", client)


def vector_of(result: JobResult) -> Array:
    assert result.vector is not None
    return result.vector


def assert_equal(fleet: Fleet, found: list[JobResult], expected: list[JobResult]) -> None:
    assert max(fleet.errors(found, expected)) <= 1e-12
    for client, result, reference in zip(fleet.clients, found, expected, strict=True):
        assert vector_of(result).dtype == np.float64
        assert result.num_samples == reference.num_samples == client.size
        assert result.loss == pytest.approx(reference.loss, rel=1e-12)
        assert result.loss_rms == pytest.approx(reference.loss_rms, rel=1e-12)
        assert result.accuracy is None
        assert (result.epoch_losses is not None) == client.tells
        if result.epoch_losses is not None:
            assert result.epoch_losses == pytest.approx(reference.epoch_losses, rel=1e-12)
            assert result.epoch_losses[-1] == result.loss
