from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fleetsim.contracts import Job, SampleForm, Work, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.data.built_in import DigitsSettings
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.settings import LogisticSettings
from fleetsim.learning.models.small import LinearSvm
from fleetsim.learning.partition.plain import IidSettings
from fleetsim.training.preparation import prepare_task
from fleetsim.training.prepared_task import PreparedTask, TaskRequest
from fleetsim.training.scenario_loss import check_scenario_loss, trainer_for_loss
from fleetsim.training.settings import TaskSettings, TrainerSettings
from tests.learning.given_losses import against_others, given_loss, squared
from tests.learning.given_networks import IMAGES, TEXTS, VECTORS, given
from tests.learning.side_by_side import Client, Fleet, assert_equal, chain

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
