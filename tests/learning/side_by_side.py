"""Clients of one network with samples of their own, trained by one kernel or another."""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from fleetsim import rng
from fleetsim.contracts import Job, JobResult, SampleForm, Work, WorkKind
from fleetsim.counts import LastBatch
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.model_kind import Hinge
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.small import LinearSvm
from fleetsim.training.worker_pool import Pool

Array = NDArray[Any]
NUM_CLASSES = 4
LAST_BATCHES: list[LastBatch] = ["keep", "drop", "merge"]
ON_CUDA = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no cuda device"),
]
"""Marks of tests that need a CUDA device."""


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


def drawn(net: nn.Sequential) -> nn.Sequential:
    """The network with weights that depend on their shapes alone."""
    for index, parameter in enumerate(net.parameters()):
        values = rng.stream(5, "test/weights", index).normal(size=parameter.shape)
        parameter.data.copy_(torch.from_numpy(0.4 * values))
    return net


def batch_norm_net() -> nn.Module:
    """A convolution with BatchNorm."""
    norm = nn.BatchNorm2d(3)
    norm.num_batches_tracked = None
    layers = nn.Conv2d(1, 3, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(12, NUM_CLASSES)
    return drawn(nn.Sequential(*layers))


def frozen_net() -> nn.Module:
    """Its first layer is not trained."""
    layers = nn.Flatten(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, NUM_CLASSES)
    net = drawn(nn.Sequential(*layers))
    net[1].requires_grad_(False)
    return net


def chain(widths: Sequence[int], hinge: Hinge | None = None) -> nn.Sequential:
    """Linear layers with ReLU between them; with a hinge loss or the cross-entropy."""
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    net = drawn(nn.Sequential(*layers[:-1]))
    return net if hinge is None else LinearSvm(OrderedDict(net.named_children()), hinge)


TEXT = (7,)
IMAGE = (1, 4, 4)
SMALL: dict[str, Callable[[], nn.Module]] = {
    "logistic": lambda: built(models.LogisticSettings(), IMAGE),
    "2nn": lambda: built(models.TwoNNSettings(hidden=(7, 5)), IMAGE),
    "batch norm": batch_norm_net,
    "frozen": frozen_net,
    "gpt": SmallGpt,
}
PUBLISHED: list[tuple[models.ModelSettings, tuple[int, ...]]] = [
    (models.LogisticSettings(), (60,)),
    (models.TwoNNSettings(), (1, 28, 28)),
    (models.FedGraCnnSettings(), (1, 8, 8)),
    (models.GpflCnnSettings(), (3, 18, 18)),
    *(
        (models.SvmSettings(hinge=hinge), (1, 4, 4))
        for hinge in ("crammer-singer", "weston-watkins", "one-vs-rest")
    ),
    (models.LeNet5Settings(), (1, 12, 12)),
    *((models.ResNet18Settings(norm=norm), (3, 9, 9)) for norm in ("group", "batch")),
    *((models.Vgg16Settings(norm=norm), (3, 32, 32)) for norm in ("group", "batch")),
    *((models.ShuffleNetV2Settings(norm=norm), (3, 9, 9)) for norm in ("group", "batch")),
    (models.Gpt2Settings(layers=2, heads=2, width=8), TEXT),
]


def built(model: models.ModelSettings, shape: tuple[int, ...], seed: int = 3) -> nn.Module:
    is_text = shape == TEXT
    form = SampleForm(shape, NUM_CLASSES, NUM_CLASSES if is_text else None, is_sequence=is_text)
    return build_model(model, form, seed=seed)


@cache
def published(index: int) -> tuple[nn.Module, tuple[int, ...]]:
    model, shape = PUBLISHED[index]
    return built(model, shape), shape


@dataclass(frozen=True)
class Client:
    size: int
    epochs: int = 1
    base: int = 0
    """Index of the model that it starts from."""
    most_steps: int | None = None
    """It is stopped after so many."""
    tells: bool = False
    """True if it reports the loss of each epoch."""


def local(
    batch_size: int = 5,
    learning_rate: float = 0.1,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    mu: float = 0.0,
    last_batch: LastBatch = "keep",
) -> LocalSettings:
    sgd = SgdSettings(learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)
    plain = LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd, proximal_mu=mu)
    return plain.model_copy(update={"last_batch": last_batch})


EVERY_TERM = local(3, 0.05, momentum=0.9, weight_decay=0.05, mu=0.5)
"""Momentum, weight decay and the proximal term."""

clients_of_all_sizes = st.lists(
    st.builds(
        Client,
        size=st.integers(1, 23),
        epochs=st.integers(1, 3),
        base=st.integers(0, 2),
        most_steps=st.none() | st.integers(1, 30),
        tells=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)
local_settings = st.builds(
    local,
    batch_size=st.integers(1, 30),
    momentum=st.sampled_from([0.0, 0.9]),
    weight_decay=st.sampled_from([0.0, 0.05]),
    mu=st.sampled_from([0.0, 0.5]),
    last_batch=st.sampled_from(LAST_BATCHES),
)


class Fleet:
    """Clients of one network with samples of their own: the same to every kernel."""

    def __init__(
        self,
        module: nn.Module,
        clients: Sequence[Client],
        *,
        shape: tuple[int, ...] | None = None,
        dtype: torch.dtype = torch.float64,
        num_classes: int = NUM_CLASSES,
    ) -> None:
        if shape is None:
            shape = TEXT if isinstance(module, SmallGpt) else IMAGE
        self.module = module.to("cpu", dtype)
        self.clients = clients
        num = sum(client.size for client in clients)
        draw = rng.stream(5, "test/samples")
        inputs: Array
        if shape == TEXT:
            inputs, labels = (draw.integers(num_classes, size=(num, *shape)) for _ in range(2))
        else:
            inputs = torch.from_numpy(draw.normal(size=(num, *shape))).to(dtype).numpy()
            labels = draw.integers(num_classes, size=num)
        inputs.flags.writeable = False
        ends = np.cumsum([client.size for client in clients])
        shares = np.split(rng.stream(5, "test/rows").permutation(num), ends[:-1])
        self.data = TrainerData(inputs, labels, shares, inputs, labels)
        self.first = flatten(self.module)
        self._bases: dict[int, Array] = {}

    def base(self, version: int) -> Array:
        """The network's own weights, a little changed; running statistics as they are."""
        if version in self._bases:
            return self._bases[version]
        changed = self.first.copy()
        for slot in layout(self.module):
            if slot.is_trained:
                draw = rng.stream(5, "test/base", version, slot.start)
                part = slice(slot.start, slot.stop)
                changed[part] += 0.1 * draw.normal(size=slot.stop - slot.start)
        if isinstance(self.module, SmallGpt):  # one weight, two entries
            tied = {slot.name: changed[slot.start : slot.stop] for slot in layout(self.module)}
            tied["head.weight"][:] = tied["embedding.weight"]
        changed.flags.writeable = False
        self._bases[version] = changed
        return changed

    def jobs(self) -> list[Job]:
        jobs = []
        for index, client in enumerate(self.clients):
            work = Work(WorkKind.TRAIN, epochs=client.epochs, tells_epoch_losses=client.tells)
            base, most = self.base(client.base), client.most_steps
            jobs.append(Job(index, work, base, (1,), most_steps=most))
        return jobs

    def kernel(self, kind: type[Kernel], chosen: LocalSettings, **options: Any) -> Kernel:
        return kind(self.module, self.data, local_settings=chosen, seed=5, **options)

    def train(self, kind: type[Kernel], chosen: LocalSettings, **options: Any) -> list[JobResult]:
        return Pool(self.kernel(kind, chosen, **options), 1).compute(self.jobs())

    def errors(self, results: list[JobResult], expected: list[JobResult]) -> list[float]:
        """Distance to the expected vectors, relative to the update; 0 if there is none to both."""
        bases = (self.base(client.base) for client in self.clients)
        return [distance(*each) for each in zip(results, expected, bases, strict=True)]


def distance(result: JobResult, expected: JobResult, base: Array) -> float:
    gap = np.linalg.norm(vector_of(result) - vector_of(expected))
    return float(gap / np.linalg.norm(vector_of(expected) - base)) if gap else 0.0


def vector_of(result: JobResult) -> Array:
    assert result.vector is not None
    return result.vector


def same(one: JobResult, other: JobResult) -> bool:
    """Return whether two results are equal to the last bit."""
    vectors = [None if r.vector is None else r.vector.tobytes() for r in (one, other)]
    return vectors[0] == vectors[1] and one._replace(vector=None) == other._replace(vector=None)


def all_same(some: Sequence[JobResult], others: Sequence[JobResult]) -> bool:
    return all(itertools.starmap(same, zip(some, others, strict=True)))


def assert_equal(fleet: Fleet, results: list[JobResult], expected: list[JobResult]) -> None:
    assert max(fleet.errors(results, expected)) <= 1e-12
    for client, result, reference in zip(fleet.clients, results, expected, strict=True):
        assert vector_of(result).dtype == np.float64
        assert result.num_samples == reference.num_samples == client.size
        assert result.loss == pytest.approx(reference.loss, rel=1e-12)
        assert result.loss_rms == pytest.approx(reference.loss_rms, rel=1e-12)
        assert result.accuracy is None
        assert (result.epoch_losses is not None) == client.tells
        if result.epoch_losses is not None:
            assert result.epoch_losses == pytest.approx(reference.epoch_losses, rel=1e-12)
            assert result.epoch_losses[-1] == result.loss
