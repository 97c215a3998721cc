import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.models.flat_vector import flatten, layout
from tests.learning.given_networks import IMAGES, TEXTS, VECTORS, given


def built(make: Callable[[SampleForm], Any], samples: SampleForm = VECTORS, seed: int = 3):
    return given(make).initial_network(samples, seed=seed)


class Net(nn.Module):
    """A network whose forward pass is changed by a subclass."""

    def __init__(self, samples: SampleForm) -> None:
        super().__init__()
        self.linear = nn.Linear(math.prod(samples.input_shape), samples.num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(inputs.flatten(1))
        return logits


def test_weights_follow_from_the_seed_alone_and_global_generators_stay() -> None:
    first = flatten(built(Net))
    torch.rand(5)
    before = torch.get_rng_state()
    again, other = flatten(built(Net)), flatten(built(Net, seed=4))

    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(first, again)
    assert not np.isclose(first, other).any()


def test_lazy_layers_take_their_sizes_from_the_samples() -> None:
    module = built(lambda _: nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), IMAGES)

    assert module[1].weight.shape == (3, 64)


def test_a_batch_norm_loses_its_count_of_batches_and_keeps_its_statistics() -> None:
    module = built(lambda _: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)))

    names = [slot.name for slot in layout(module)]
    assert names[2:] == ["1.weight", "1.bias", "1.running_mean", "1.running_var"]


class Double(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.double()


class Fails(Net):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.view(-1, 5))


BROKEN: list[tuple[Callable[[SampleForm], Any], str]] = [
    (lambda _: "net", "gives str, not an object of torch.nn.Module"),
    (lambda _: Net, "gives the class Net, not an object"),
    (Fails, r"on a batch of the shape \(2, 6\) fails: RuntimeError.*test_building"),
    (lambda form: nn.Sequential(Net(form), Double()), "returns float64"),
]


@pytest.mark.parametrize(("make", "message"), BROKEN)
def test_a_broken_network_is_refused_in_one_line(
    make: Callable[[SampleForm], Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message) as fault:
        built(make)

    (line,) = fault.value.faults
    assert line.startswith("model mine:Net: ")


def test_a_sequence_needs_logits_at_every_position() -> None:
    with pytest.raises(ScenarioError, match=r"\[samples, positions, classes\]: \(2, 5, 4\)"):
        built(lambda form: nn.Sequential(nn.Embedding(4, 4), nn.Flatten(), nn.Linear(20, 4)), TEXTS)
