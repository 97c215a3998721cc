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


def test_weights_follow_from_the_seed_alone() -> None:
    first = flatten(built(Net))
    torch.rand(5)
    again, other = flatten(built(Net)), flatten(built(Net, seed=4))

    assert np.array_equal(first, again)
    assert not np.isclose(first, other).any()


def test_making_a_network_leaves_the_global_generators_as_they_were() -> None:
    before = torch.get_rng_state()
    built(Net)

    assert torch.equal(torch.get_rng_state(), before)


def test_lazy_layers_take_their_sizes_from_the_samples() -> None:
    module = built(lambda _: nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), IMAGES)

    assert module[1].weight.shape == (3, 64)


def test_a_batch_norm_loses_its_count_of_batches_and_keeps_its_statistics() -> None:
    module = built(lambda _: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)))

    assert [slot.name for slot in layout(module)][2:] == [
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
    ]


def test_a_network_of_tokens_gets_tokens() -> None:
    module = built(lambda form: nn.Embedding(form.vocabulary_size or 0, form.num_classes), TEXTS)

    assert isinstance(module, nn.Embedding)


class Fails(Net):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.view(-1, 5))


class Doubles(Net):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).double()


BROKEN: list[tuple[Callable[[SampleForm], Any], str]] = [
    (lambda _: "net", "gives str, not an object of torch.nn.Module"),
    (lambda _: Net, "gives the class Net, not an object"),
    (
        Fails,
        r"its forward pass on a batch of the shape \(2, 6\) fails: RuntimeError.*test_building",
    ),
    (Doubles, "returns float64"),
]


@pytest.mark.parametrize(("make", "says"), BROKEN)
def test_a_broken_network_is_refused_in_one_line(
    make: Callable[[SampleForm], Any], says: str
) -> None:
    with pytest.raises(ScenarioError, match=says) as fault:
        built(make)

    (line,) = fault.value.faults
    assert line.startswith("model mine:Net: ")


def test_a_sequence_needs_logits_at_every_position() -> None:
    with pytest.raises(ScenarioError, match=r"\[samples, positions, classes\]: \(2, 5, 4\)"):
        built(lambda form: nn.Sequential(nn.Embedding(4, 4), nn.Flatten(), nn.Linear(20, 4)), TEXTS)
