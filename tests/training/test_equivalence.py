from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.user_networks import MobileNetV3Small, TemporalConvNet, VisionTransformer
from fleetsim.contracts import SampleForm
from fleetsim.kernels.base import Kernel
from fleetsim.learning.models.flat_vector import layout
from fleetsim.training.equivalence import BOUND, proof_of
from fleetsim.training.settings import TrainerKind
from fleetsim.training.trial_clients import SIZES, Trial, trial_settings, vector_of
from tests.learning.given_networks import IMAGES, TEXTS, VECTORS

SMALL_IMAGES = SampleForm((3, 16, 16), 4)
LARGER_IMAGES = SampleForm((3, 24, 24), 4)


class Attends(nn.Module):
    """Embedding with tied weights, attention, and logits at every position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 4, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.embedding(tokens)
        mixed = self.attention(hidden, hidden, hidden, need_weights=False)[0]
        logits: Tensor = self.head(self.norm(hidden + mixed))
        return logits


def chain() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def normed() -> nn.Module:
    norm = nn.BatchNorm2d(4)
    norm.num_batches_tracked = None
    layers = nn.Conv2d(1, 4, 3), norm, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    return nn.Sequential(*layers)


def mobile_net() -> nn.Module:
    module = MobileNetV3Small(LARGER_IMAGES)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.num_batches_tracked = None
    return module


def frozen_chain() -> nn.Module:
    """A frozen linear layer, a trained and a frozen one, a trained one."""
    return nn.Sequential(
        *(nn.Linear(6, 5).requires_grad_(False), nn.Tanh(), nn.Linear(5, 4), nn.ReLU()),
        *(nn.Linear(4, 4).requires_grad_(False), nn.Tanh(), nn.Linear(4, 3)),
    )


def frozen_parts() -> nn.Module:
    """Frozen and trained layers of each form that channels-last has: pooled, tiled, plain."""
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1).requires_grad_(False),
        nn.BatchNorm2d(64).requires_grad_(False),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 8, 3).requires_grad_(False),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(LARGER_IMAGES.num_classes),
    )
    with torch.no_grad():
        net(torch.zeros(2, *LARGER_IMAGES.input_shape))
    for layer in net:
        if isinstance(layer, nn.BatchNorm2d):
            layer.num_batches_tracked = None
    return net


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "make", "samples"),
    [
        ("stacked", chain, VECTORS),
        ("vectorised", chain, VECTORS),
        ("vectorised", frozen_chain, VECTORS),
        ("vectorised", frozen_parts, LARGER_IMAGES),
        ("channels-last", frozen_parts, LARGER_IMAGES),
        ("vectorised", Attends, TEXTS),
        ("vectorised", normed, IMAGES),
        ("channels-last", normed, IMAGES),
        ("vectorised", lambda: VisionTransformer(SMALL_IMAGES, width=12, depth=1), SMALL_IMAGES),
        ("vectorised", lambda: TemporalConvNet(IMAGES, width=4, depth=2), IMAGES),
        ("channels-last", mobile_net, LARGER_IMAGES),
    ],
)
def test_equal_trainers_are_proved(
    trainer: TrainerKind, make: Callable[[], nn.Module], samples: SampleForm
) -> None:
    proof = proof_of(trainer, make(), samples)

    assert proof.fault is None
    assert proof.difference is not None
    assert proof.difference < BOUND / 1000


class MixesSamples(nn.Module):
    """Subtracts the mean over the batch, which padding of a stacked batch changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(inputs - inputs.mean(0) if self.training else inputs)
        return logits


class MixesTested(MixesSamples):
    """The same in evaluation alone."""

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(inputs if self.training else inputs - inputs.mean(0))
        return logits


class ReadsLayers(nn.Module):
    """Uses its layers by their places, which another order of them changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)
        )

    def forward(self, images: Tensor) -> Tensor:
        first = self.layers[1](self.layers[0](images))
        pooled = self.layers[2](first - first.mean((1, 2, 3), keepdim=True))
        logits: Tensor = self.layers[4](self.layers[3](pooled))
        return logits


class Float32(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(inputs.float())
        return logits


@pytest.mark.parametrize(
    ("trainer", "make", "samples", "says"),
    [
        ("vectorised", MixesSamples, VECTORS, "it differs from serial by"),
        ("vectorised", MixesTested, VECTORS, "it differs from serial by"),
        ("channels-last", ReadsLayers, IMAGES, "it differs from serial by"),
        ("vectorised", Float32, VECTORS, "serial training in float64 fails: RuntimeError"),
        ("stacked", Float32, VECTORS, "serial training in float64 fails"),
        (
            "stacked",
            lambda: nn.Sequential(nn.Linear(6, 3), nn.GELU()),
            VECTORS,
            "only chains of linear layers with ReLU",
        ),
        (
            "vectorised",
            lambda: nn.Sequential(nn.Linear(6, 3), nn.Dropout()),
            VECTORS,
            r"layer 1 \(Dropout\) draws random numbers",
        ),
    ],
)
def test_unequal_trainers_are_not_proved(
    trainer: TrainerKind, make: Callable[[], nn.Module], samples: SampleForm, says: str
) -> None:
    proof = proof_of(trainer, make(), samples)

    assert proof.fault is not None
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(proof.fault)
    assert "\n" not in proof.fault


def test_a_proof_depends_on_the_network_alone_and_does_not_change_it() -> None:
    module = chain()
    before = [value.clone() for value in module.parameters()]
    first = proof_of("vectorised", module, VECTORS)
    torch.rand(3)
    state = torch.get_rng_state()

    assert proof_of("vectorised", module, VECTORS) == first
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, before, module.parameters()))
    assert {value.dtype for value in module.parameters()} == {torch.float32}


def test_the_trial_moves_every_weight_of_clients_that_differ_in_size_base_and_length() -> None:
    trial = Trial.of(Attends(), TEXTS, torch.float64)
    results = trial.train(trial.kernel(Kernel, trial_settings(0.02)))

    moved = [vector_of(result) - job.base for job, result in zip(trial.jobs, results, strict=True)]
    assert all((change != 0.0).mean() > 0.99 for change in moved)
    assert [result.num_samples for result in results] == list(SIZES)
    assert not np.array_equal(trial.jobs[0].base, trial.jobs[1].base)
    tied = {slot.name: slice(slot.start, slot.stop) for slot in layout(trial.module)}
    for job in trial.jobs:
        assert np.array_equal(job.base[tied["head.weight"]], job.base[tied["embedding.weight"]])
