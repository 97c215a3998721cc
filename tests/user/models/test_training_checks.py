import math
import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from fleetsim.contracts import SampleForm
from fleetsim.counts import Batching
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.model_fault import ModelFaultError
from fleetsim.training.equivalence import proof_of
from fleetsim.training.settings import TrainerKind, TrainerSettings
from fleetsim.training.trainer_choice import TrainerQuestion
from fleetsim.training.trial_clients import Trial, trial_settings, vector_of
from fleetsim.user.models.building import check_forward
from fleetsim.user.models.trainer_choice import (
    check_single_samples,
    check_training,
    choose_user_trainer,
    draws_in_training,
)
from fleetsim.user.models.user_cost import counted_cost
from tests.learning.given_networks import IMAGES, TEXTS, VECTORS, given
from tests.training.test_scenario_loss import MixesSamples, ReadsLayers


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(inputs)
        return logits


class Drops(Net):
    """Leaves units out in training, by torch's global generator."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(dropout(inputs, 0.5, training=self.training))


class HasFrozen(Net):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 6).requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(self.body(inputs))


@pytest.mark.parametrize(
    "make",
    [
        Net,
        Drops,
        HasFrozen,
        lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)),
        lambda: nn.Sequential(nn.Linear(6, 3), nn.RReLU()),
    ],
)
def test_draws_and_statistics_are_no_fault(make: Callable[[], nn.Module]) -> None:
    module = make()
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.num_batches_tracked = None
    before = {name: value.clone() for name, value in module.state_dict().items()}

    check_training(module, VECTORS)

    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_what_draws_in_training_is_known() -> None:
    assert draws_in_training(Net(), VECTORS) is None
    assert draws_in_training(Drops(), VECTORS) == "torch"


def test_batches_of_one_sample_are_refused_where_a_client_has_them() -> None:
    module = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
    sizes = np.array([4, 9, 8])

    check_single_samples(module, VECTORS, num_samples=sizes, batching=Batching(5))
    check_single_samples(Net(), VECTORS, num_samples=sizes, batching=Batching(4))

    for last in ("drop", "merge"):
        check_single_samples(module, VECTORS, num_samples=sizes, batching=Batching(4, last))

    merge, more = "set task.local.last_batch: merge, or drop", "raise task.local.batch_size"
    two = "give every client two samples, as by task.partition.min_samples: 2"
    for batching, num, match in (
        (Batching(4), sizes, rf"which client 1 has with its 9 samples \({merge}\), fails"),
        (Batching(1), sizes, rf"which client 0 has .*\({more}; {merge}\)"),
        (Batching(4), np.array([8, 1, 5]), rf"client 1 has with its 1 sample \({merge}; {two}\)"),
        (Batching(4, "merge"), np.array([8, 1, 5]), rf"client 1 has .*\({two}\)"),
    ):
        with pytest.raises(ModelFaultError, match=match):
            check_single_samples(module, VECTORS, num_samples=num, batching=batching)


class Squeezing(Net):
    """Net without axes of one entry: in both modes, or in training alone."""

    def __init__(self, in_training_alone: bool) -> None:
        super().__init__()
        self.in_training_alone = in_training_alone

    def forward(self, x):
        logits = super().forward(x)
        return logits if self.in_training_alone and not self.training else logits.squeeze()


def test_a_network_that_squeezes_its_output_is_refused_for_a_batch_of_one() -> None:
    with pytest.raises(ModelFaultError, match=r"shape \(3,\) for 1 sample .*\(1, 3\); squeeze"):
        check_forward(Squeezing(in_training_alone=False), VECTORS)
    sizes = np.array([8, 9])
    module = Squeezing(in_training_alone=True)
    check_forward(module, VECTORS)
    check_single_samples(module, VECTORS, num_samples=sizes, batching=Batching(5))
    with pytest.raises(ModelFaultError, match=r"returns the shape \(3,\) for 1 sample"):
        check_single_samples(module, VECTORS, num_samples=sizes, batching=Batching(4))


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_a_weight_of_any_shape_is_trained(shape) -> None:
    """y = a W x with a = 1 has da = (dL/dy)(W x), which is not 0; an empty weight has no entry."""

    class Scaled(Net):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(shape))

        def forward(self, x):
            return super().forward(x) * self.scale.prod()

    module = Scaled()
    check_training(module, VECTORS)
    trial = Trial.of(module, VECTORS, torch.float64)
    (result, *_) = trial.train(trial.kernel(Kernel, trial_settings(0.1)))
    (scale,) = (slot for slot in layout(module) if slot.name == "scale")
    before, after = (
        vector[scale.start : scale.stop] for vector in (trial.jobs[0].base, vector_of(result))
    )

    assert before.shape == (module.scale.numel(),)
    assert (before != after).all()
    assert proof_of("vectorised", module, VECTORS).fault is None


def built(make: Callable[[SampleForm], Any], samples: SampleForm = VECTORS, seed: int = 3):
    return given(make).initial_network(samples, seed=seed)


class Linear(nn.Module):
    """A network whose forward pass is changed by a subclass."""

    def __init__(self, samples: SampleForm) -> None:
        super().__init__()
        self.linear = nn.Linear(math.prod(samples.input_shape), samples.num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(inputs.flatten(1))
        return logits


def test_weights_follow_from_the_seed_alone_and_global_generators_stay() -> None:
    first = flatten(built(Linear))
    torch.rand(5)
    before = torch.get_rng_state()
    again, other = flatten(built(Linear)), flatten(built(Linear, seed=4))

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


class Fails(Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.view(-1, 5))


BROKEN: list[tuple[Callable[[SampleForm], Any], str]] = [
    (lambda _: "net", "gives str, not an object of torch.nn.Module"),
    (lambda _: Linear, "gives the class Linear, not an object"),
    (Fails, r"on a batch of the shape \(2, 6\) fails: RuntimeError.*test_training_checks"),
    (lambda form: nn.Sequential(Linear(form), Double()), "returns float64"),
]


@pytest.mark.parametrize(("make", "message"), BROKEN)
def test_a_broken_network_is_refused_in_one_line(make, message):
    with pytest.raises(ScenarioError, match=message) as fault:
        built(make)

    (line,) = fault.value.faults
    assert line.startswith("model mine:Net: ")


def test_a_sequence_needs_logits_at_every_position() -> None:
    with pytest.raises(ScenarioError, match=r"\[samples, positions, classes\]: \(2, 5, 4\)"):
        built(lambda form: nn.Sequential(nn.Embedding(4, 4), nn.Flatten(), nn.Linear(20, 4)), TEXTS)


def chosen(
    module: nn.Module,
    samples: SampleForm = VECTORS,
    *,
    requested: Literal["auto"] | TrainerKind = "auto",
    batch_size: int = 4,
    device: str = "cpu",
) -> tuple[TrainerKind, str]:
    sgd = SgdSettings(learning_rate=0.1)
    local = LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd)
    cost = counted_cost(module, samples)
    return choose_user_trainer(
        TrainerQuestion(
            TrainerSettings(kind=requested),
            module,
            samples,
            cost,
            np.array([batch_size]),
            local,
            device,
        )
    )


def chain() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def gelu() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3))


def dropping() -> nn.Module:
    return nn.Sequential(gelu(), nn.Dropout())


def convolved() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))


def depthwise() -> nn.Module:
    layers = nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(144, 3)
    return nn.Sequential(*layers)


class WithLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.lstm(inputs[:, None])[0][:, -1])
        return logits


@pytest.mark.parametrize(
    ("make", "samples", "batch_size", "device", "kind"),
    [
        (chain, VECTORS, 4, "cpu", "stacked"),
        (gelu, VECTORS, 4, "cpu", "vectorised"),
        # 30 multiply-adds in the first layer, 15 in the second: 45 FLOP a layer and sample.
        (gelu, VECTORS, 33_333, "cpu", "vectorised"),
        (gelu, VECTORS, 33_334, "cpu", "serial"),
        (gelu, VECTORS, 33_334, "cuda", "vectorised"),
        (convolved, IMAGES, 4, "cpu", "vectorised"),
        (convolved, IMAGES, 1000, "cpu", "channels-last"),
        (depthwise, IMAGES, 4, "cpu", "channels-last"),
        (depthwise, IMAGES, 4, "cuda", "vectorised"),
    ],
)
def test_the_fastest_by_the_rule_is_chosen(make, samples, batch_size, device, kind):
    trainer, reason = chosen(make(), samples, batch_size=batch_size, device=device)

    assert trainer == kind
    assert re.fullmatch(
        "none is faster for such a network"
        if kind == "serial"
        else "equal to serial within .* in float64, bound 1e-09",
        reason,
    )


@pytest.mark.parametrize(
    ("make", "samples", "message"),
    [
        (MixesSamples, VECTORS, "vectorised is not proved equal: it differs from serial by"),
        (WithLstm, VECTORS, r"the layer lstm \(LSTM\) is recurrent"),
        (dropping, VECTORS, r"the network draws random numbers \(torch\) in training"),
    ],
)
def test_a_network_that_no_other_trains_equally_is_trained_serially(make, samples, message):
    trainer, reason = chosen(make(), samples)

    assert trainer == "serial"
    assert re.search(message, reason)
    assert "\n" not in reason


def test_the_next_candidate_is_tried_where_the_first_fails() -> None:
    assert chosen(ReadsLayers(), IMAGES)[0] == "vectorised"
    assert chosen(ReadsLayers(), IMAGES, batch_size=10_000)[0] == "serial"


@pytest.mark.parametrize("requested", ["serial", "vectorised", "stacked"])
def test_a_named_trainer_is_taken_if_it_is_proved(requested: TrainerKind) -> None:
    assert chosen(chain(), requested=requested, batch_size=100_000)[0] == requested


@pytest.mark.parametrize(
    ("make", "requested", "device", "message"),
    [
        (MixesSamples, "vectorised", "cpu", "not proved equal to serial for MixesSamples: it diff"),
        (gelu, "stacked", "cpu", "only chains of linear layers"),
        (dropping, "vectorised", "cpu", "draws random numbers"),
        (gelu, "channels-last", "cuda", "trains on the CPU alone"),
        (gelu, "channels-last", "cpu", "is no image"),
    ],
)
def test_a_named_trainer_that_is_not_proved_is_refused_in_one_line(
    make: Callable[[], nn.Module], requested: TrainerKind, device: str, message: str
) -> None:
    with pytest.raises(ScenarioError, match=message) as fault:
        chosen(make(), requested=requested, device=device)

    (line,) = fault.value.faults
    assert line.startswith("trainer.kind: ")
