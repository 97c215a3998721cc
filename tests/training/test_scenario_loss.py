from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.user_networks import MobileNetV3Small, TemporalConvNet, VisionTransformer
from fleetsim.contracts import Job, SampleForm, Work, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.data.built_in import DigitsSettings
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import layout
from fleetsim.learning.models.settings import LogisticSettings
from fleetsim.learning.models.small import LinearSvm
from fleetsim.learning.partition.plain import IidSettings
from fleetsim.training.equivalence import BOUND, proof_of
from fleetsim.training.preparation import prepare_task
from fleetsim.training.prepared_task import PreparedTask, TaskRequest
from fleetsim.training.scenario_loss import check_scenario_loss, trainer_for_loss
from fleetsim.training.settings import TaskSettings, TrainerSettings
from fleetsim.training.trial_clients import SIZES, Trial, trial_settings, vector_of
from tests.learning.given_losses import against_others, given_loss, squared
from tests.learning.given_networks import IMAGES, TEXTS, VECTORS, given
from tests.learning.side_by_side import Client, Fleet, SmallGpt, assert_equal, chain, frozen_net

PLAIN = LocalSettings(epochs=1, batch_size=8, optimizer=SgdSettings(learning_rate=0.1))
AUTO = TrainerSettings()
Function = Callable[[Any, Tensor], Any]


def local(function: Function, **changes: Any) -> LocalSettings:
    return PLAIN.model_copy(update={"loss": given_loss(function), **changes})


@pytest.mark.parametrize("samples", [VECTORS, IMAGES, TEXTS])
def test_a_loss_that_keeps_its_contract_passes(samples: SampleForm) -> None:
    check_scenario_loss(local(squared), nn.Linear(6, 3), samples)


def drawn(scores: Tensor, labels: Tensor) -> Tensor:
    return squared(scores, labels) + torch.rand(len(labels))


def of_one_label(scores: Tensor, labels: Tensor) -> Tensor:
    if labels.dim() > 1:
        raise ValueError("one label")
    return squared(scores, labels)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda scores, labels: squared(scores, labels).mean(), "returned one number for 5"),
        (of_one_label, r"losses, with outputs \[5, 5, 4\] and labels \[5, 5\], fails: ValueError"),
        (drawn, "gives two results for the same outputs and labels"),
        (lambda s, _: squared(s, s.argmax(-1)) + np.random.rand() * 0, "global generator of numpy"),  # noqa: NPY002
    ],
)
def test_one_that_does_not_is_refused_in_a_line(function: Function, message: str) -> None:
    with pytest.raises(
        ScenarioError, match=f"^task.local.loss.kind = 'given': .*{message}"
    ) as fault:
        check_scenario_loss(local(function), nn.Linear(6, 3), TEXTS)
    assert len(fault.value.faults) == 1


def test_a_network_with_a_loss_of_its_own_takes_no_other_and_no_smoothed_labels() -> None:
    svm = LinearSvm(OrderedDict(scores=nn.Linear(6, 3)), "one-vs-rest")
    with pytest.raises(ScenarioError, match="the network has a loss of its own already"):
        check_scenario_loss(local(squared), svm, VECTORS)
    with pytest.raises(ScenarioError, match=r"^task.local.label_smoothing: .*leave it out"):
        check_scenario_loss(PLAIN.model_copy(update={"label_smoothing": 0.1}), svm, VECTORS)
    check_scenario_loss(PLAIN, svm, VECTORS)


def test_a_loss_across_samples_is_trained_one_client_at_a_time() -> None:
    chosen = local(against_others)
    kind, reason = trainer_for_loss("vectorised", AUTO, nn.Linear(6, 3), VECTORS, chosen)

    assert kind == "serial"
    assert reason.startswith("vectorised is not proved equal with the loss given: it differs")
    with pytest.raises(ScenarioError, match=r"^trainer.kind: vectorised is not .*; use auto or se"):
        trainer_for_loss(
            "vectorised", TrainerSettings(kind="vectorised"), nn.Linear(6, 3), VECTORS, chosen
        )


@pytest.mark.parametrize("kind", ["serial", "channels-last"])
def test_trainers_of_one_client_at_a_time_need_no_proof(kind: Any) -> None:
    result = trainer_for_loss(kind, AUTO, nn.Linear(6, 3), VECTORS, local(against_others))

    assert result == (kind, "the loss is called for one client at a time")


def test_kernels_agree_on_a_loss_and_another_loss_gives_another_model() -> None:
    clients = [Client(size, 2) for size in (8, 5, 3)]
    fleet = Fleet(chain((6, 3)), clients, shape=(6,), num_classes=3)
    serial, fast = (
        fleet.train(kind, local(squared, batch_size=3)) for kind in (Kernel, VectorisedKernel)
    )
    roots = local(lambda scores, labels: squared(scores, labels).sqrt(), batch_size=3)

    assert_equal(fleet, fast, serial)
    for one, other in zip(serial, fleet.train(Kernel, roots), strict=True):
        assert other.loss != pytest.approx(one.loss, rel=1e-2)


def prepared(model: Any, chosen: LocalSettings, kind: Any = "auto") -> PreparedTask:
    task = TaskSettings.model_construct(
        dataset=DigitsSettings(), partition=IidSettings(), model=model, local=chosen
    )
    request = TaskRequest(task, TrainerSettings(kind=kind), 1, clients_seed=1, num_clients=30)
    return prepare_task(request, train=True, torch_device="cpu", workers=1)


def test_a_run_with_a_loss_says_why_it_has_its_trainer() -> None:
    plain = prepared(LogisticSettings(), PLAIN)
    one = prepared(LogisticSettings(), local(squared))
    across = prepared(LogisticSettings(), local(against_others))

    assert (plain.trainer_kind, plain.trainer_reason) == ("stacked", None)
    assert one.trainer_kind == "vectorised"
    assert "equal to serial" in str(one.trainer_reason)
    assert across.trainer_kind == "serial"
    assert "it differs from serial by" in str(across.trainer_reason)


class Two(nn.Module):
    """Network that returns its hidden layer beside the logits while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(64, 6)
        self.head = nn.Linear(6, 10)

    def forward(self, images: Tensor) -> Any:
        hidden = self.hidden(images.flatten(1)).tanh()
        logits = self.head(hidden)
        return (logits, hidden) if self.training else logits


def of_two(outputs: Any, labels: Tensor) -> Tensor:
    if isinstance(outputs, Tensor):
        return squared(outputs, labels)
    logits, hidden = outputs
    result: Tensor = squared(logits, labels) + 0.1 * hidden.square().sum(dim=1)
    return result


def test_a_network_may_return_more_than_logits_to_its_loss_while_it_trains() -> None:
    task = prepared(given(lambda _: Two()), local(of_two))
    job = Job(0, Work(WorkKind.TRAIN, epochs=1), task.parameters, (1,))
    (result,) = task.trainer.results([task.trainer.submit(job)])
    with pytest.raises(
        ScenarioError, match=r"vectorised is not proved equal .*returns tuple while"
    ):
        prepared(given(lambda _: Two()), local(of_two), "vectorised")

    assert task.trainer_kind == "serial"
    assert "the network returns tuple while it trains" in str(task.trainer_reason)
    assert result.loss is not None
    assert result.loss > 0
    assert task.trainer.evaluate(task.parameters).accuracy is not None


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
