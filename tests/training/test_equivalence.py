import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.user_networks import MobileNetV3Small, TemporalConvNet, VisionTransformer
from fleetsim.contracts import SampleForm
from fleetsim.kernels.base import Kernel
from fleetsim.learning.models.flat_vector import layout
from fleetsim.training.equivalence import BOUND, proof_of
from fleetsim.training.trial_clients import SIZES, Trial, trial_settings, vector_of
from tests.learning.given_networks import IMAGES, TEXTS, VECTORS
from tests.learning.side_by_side import SmallGpt, chain, frozen_net

SMALL_IMAGES = SampleForm((3, 16, 16), 4)
LARGER_IMAGES = SampleForm((3, 24, 24), 4)


def ready(module: nn.Module) -> nn.Module:
    """The network without counts of batches, which are not part of the flat vector."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.num_batches_tracked = None
    return module


def normed() -> nn.Module:
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return ready(nn.Sequential(*layers, nn.Linear(36, 3)))


def frozen_parts() -> nn.Module:
    """Frozen and trained layers of each form that channels-last has: pooled, tiled, plain."""
    frozen_tiles = nn.Conv2d(64, 64, 3, padding=1).requires_grad_(False)
    frozen_norm = nn.BatchNorm2d(64).requires_grad_(False)
    frozen_pooled = nn.Conv2d(64, 8, 3).requires_grad_(False), nn.MaxPool2d(2)
    first = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()
    pooled = nn.Conv2d(64, 64, 3, padding=1), nn.MaxPool2d(2)
    layers = *first, frozen_tiles, frozen_norm, nn.ReLU(), *pooled, *frozen_pooled
    return ready(nn.Sequential(*layers, nn.Flatten(), nn.Linear(200, 4)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "make", "samples"),
    [
        ("stacked", lambda: chain((6, 5, 3)), VECTORS),
        ("vectorised", lambda: chain((6, 5, 3)), VECTORS),
        ("vectorised", frozen_net, SampleForm((1, 4, 4), 4)),
        ("vectorised", frozen_parts, LARGER_IMAGES),
        ("channels-last", frozen_parts, LARGER_IMAGES),
        ("vectorised", SmallGpt, TEXTS),
        ("vectorised", normed, IMAGES),
        ("channels-last", normed, IMAGES),
        ("vectorised", lambda: VisionTransformer(SMALL_IMAGES, width=12, depth=1), SMALL_IMAGES),
        ("vectorised", lambda: TemporalConvNet(IMAGES, width=4, depth=2), IMAGES),
        ("channels-last", lambda: ready(MobileNetV3Small(LARGER_IMAGES)), LARGER_IMAGES),
    ],
)
def test_equal_trainers_are_proved(trainer, make, samples):
    proof = proof_of(trainer, make(), samples)

    assert proof.fault is None
    assert proof.difference is not None
    assert proof.difference < BOUND / 1000


class MixesSamples(nn.Module):
    """Subtracts the mean over the batch, which padding of a stacked batch changes."""

    def __init__(self, *, in_training: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.in_training = in_training

    def forward(self, inputs: Tensor) -> Tensor:
        is_mixed = self.training == self.in_training
        logits: Tensor = self.linear(inputs - inputs.mean(0) if is_mixed else inputs)
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


GELU = nn.Sequential(nn.Linear(6, 3), nn.GELU())
DROPOUT = nn.Sequential(nn.Linear(6, 3), nn.Dropout())
UNPROVED = [
    ("vectorised", MixesSamples(), VECTORS, "it differs from serial by"),
    ("vectorised", MixesSamples(in_training=False), VECTORS, "it differs from serial by"),
    ("channels-last", ReadsLayers(), IMAGES, "it differs from serial"),
    ("vectorised", Float32(), VECTORS, "serial training in float64 fails: RuntimeError"),
    ("stacked", Float32(), VECTORS, "serial training in float64 fails"),
    ("stacked", GELU, VECTORS, "only chains of linear layers with ReLU"),
    ("vectorised", DROPOUT, VECTORS, "layer 1 (Dropout) draws random numbers"),
]


@pytest.mark.parametrize(("trainer", "module", "samples", "message"), UNPROVED)
def test_unequal_trainers_are_not_proved(trainer, module, samples, message):
    fault = proof_of(trainer, module, samples).fault

    assert fault is not None
    assert message in fault
    assert "\n" not in fault


def test_a_proof_depends_on_the_network_alone_and_does_not_change_it() -> None:
    module = chain((6, 5, 3))
    before = [value.clone() for value in module.parameters()]
    first = proof_of("vectorised", module, VECTORS)
    torch.rand(3)
    state = torch.get_rng_state()

    assert proof_of("vectorised", module, VECTORS) == first
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, before, module.parameters()))
    assert {value.dtype for value in module.parameters()} == {torch.float32}


def test_the_trial_moves_every_weight_of_clients_that_differ_in_size_base_and_length() -> None:
    trial = Trial.of(SmallGpt(), TEXTS, torch.float64)
    results = trial.train(trial.kernel(Kernel, trial_settings(0.02)))

    moved = [vector_of(result) - job.base for job, result in zip(trial.jobs, results, strict=True)]
    assert all((change != 0.0).mean() > 0.99 for change in moved)
    assert [result.num_samples for result in results] == list(SIZES)
    assert not np.array_equal(trial.jobs[0].base, trial.jobs[1].base)
    tied = {slot.name: slice(slot.start, slot.stop) for slot in layout(trial.module)}
    for job in trial.jobs:
        assert np.array_equal(job.base[tied["head.weight"]], job.base[tied["embedding.weight"]])
