"""A user's network from its settings to trained clients, as a run prepares it."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from fleetsim.contracts import Job, JobResult, SampleForm, Work, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.learning.data.built_in import BlankSettings, DigitsSettings
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.partition.dirichlet import DirichletSettings
from fleetsim.learning.partition.plain import IidSettings
from fleetsim.training.preparation import prepare_task
from fleetsim.training.prepared_task import PreparedTask, TaskRequest
from fleetsim.training.settings import TaskSettings, TrainerSettings
from fleetsim.training.trial_clients import vector_of
from fleetsim.user.watched_calls import same
from tests.learning.given_networks import given

LOCAL = LocalSettings(epochs=1, batch_size=8, optimizer=SgdSettings(learning_rate=0.1))


def prepared(
    make: Callable[[SampleForm], Any],
    *,
    trainer: TrainerSettings | None = None,
    workers: int = 1,
    train: bool = True,
    seed: int = 3,
    clients: int = 6,
    alpha: float | None = None,
    **changes: Any,
) -> PreparedTask:
    local = LOCAL.model_copy(update=changes)
    dataset = DigitsSettings() if train else BlankSettings(input_shape=(1, 8, 8))
    # A plug-in extends the scenario's class; here the task is put together unchecked.
    model: Any = given(make)
    split = DirichletSettings(alpha=alpha, min_samples=2) if alpha else IidSettings()
    task = TaskSettings.model_construct(dataset=dataset, model=model, local=local, partition=split)
    request = TaskRequest(
        task=task,
        trainer=trainer or TrainerSettings(),
        seed=seed,
        clients_seed=seed,
        num_clients=clients,
        measures_memory=True,
    )
    return prepare_task(request, train=train, torch_device="cpu", workers=workers)


def net(*layers: nn.Module) -> Callable[[SampleForm], nn.Module]:
    def make(samples: SampleForm) -> nn.Module:
        first, last = nn.Linear(64, 16), nn.Linear(16, samples.num_classes)
        return nn.Sequential(nn.Flatten(), first, *copy.deepcopy(layers), last)

    return make


def results_of(task: PreparedTask, work: Work, num: int = 6) -> list[JobResult]:
    jobs = [Job(client, work, task.parameters, (1,)) for client in range(num)]
    tickets = list(map(task.trainer.submit, jobs))
    return task.trainer.results(tickets)


TRAIN = Work(WorkKind.TRAIN, epochs=1)


class LeavesOut(nn.Module):
    """Dropout of a user's own, while the network is in training mode."""

    def forward(self, inputs: Tensor) -> Tensor:
        return dropout(inputs, 0.5, training=self.training)


@pytest.mark.parametrize(
    ("layers", "kind"),
    [
        ([nn.ReLU()], "stacked"),
        ([nn.GELU()], "vectorised"),
        ([nn.BatchNorm1d(16), nn.GELU()], "vectorised"),
        ([nn.Dropout(), nn.ReLU()], "serial"),
        ([LeavesOut()], "serial"),
    ],
)
def test_workers_change_no_byte_of_a_users_network(layers: list[nn.Module], kind: str) -> None:
    one, two = prepared(net(*layers)), prepared(net(*layers), workers=2)
    first, second = results_of(one, TRAIN), results_of(two, TRAIN)

    assert one.trainer_kind == two.trainer_kind == kind
    assert one.trainer_reason == two.trainer_reason
    assert one.trainer_reason is not None
    assert same(first, second)
    assert not any(same(result.vector, one.parameters) for result in first)
    model = first[0].vector
    assert model is not None
    assert one.trainer.evaluate(model) == two.trainer.evaluate(model)


def test_masks_of_stock_dropout_follow_from_the_job_alone() -> None:
    task = prepared(net(nn.Dropout(), nn.ReLU()))
    alone, other_round = (
        task.trainer.results([task.trainer.submit(Job(4, TRAIN, task.parameters, (number,)))])[0]
        for number in (1, 2)
    )

    assert same(alone, results_of(task, TRAIN)[4])
    assert not same(alone.vector, other_round.vector)


def test_gradients_for_a_selector_use_the_whole_network() -> None:
    work = Work(WorkKind.GRADIENT)
    with_dropout, without = (
        [result.vector for result in results_of(prepared(net(layer, nn.ReLU())), work)]
        for layer in (nn.Dropout(0.9), nn.Identity())
    )

    assert all(vector is not None for vector in without)
    assert same(with_dropout, without)


def test_a_run_without_training_knows_the_cost_and_makes_no_proof() -> None:
    before = torch.get_rng_state()
    prepared(net(nn.Dropout()), train=False)
    assert torch.equal(torch.get_rng_state(), before)
    task = prepared(net(nn.ReLU()), train=False)

    assert task.trainer_kind == "none"
    assert task.trainer_reason is None
    assert dict(task.cost.forward_flop) == {"gemm": 2.0 * (64 * 16 + 16 * 10)}
    assert task.cost.num_parameters == 64 * 16 + 16 + 16 * 10 + 10
    assert task.cost.memory is not None
    # Weights and gradients; the inputs, two activations and the logits of a sample.
    assert task.cost.memory.state_byte == 2 * 4 * task.cost.num_parameters


@pytest.mark.parametrize("seed", range(1, 6))
def test_batch_norm_trains_clients_of_any_size_unless_single_samples_are_kept(seed: int) -> None:
    make = net(nn.BatchNorm1d(16))
    with pytest.raises(
        ScenarioError, match=r"client .* \(set task.local.last_batch: merge, or drop"
    ):
        prepared(make, seed=seed, clients=50, alpha=0.5)

    for last in ("drop", "merge"):
        task = prepared(make, seed=seed, clients=50, alpha=0.5, last_batch=last)
        vectors = np.stack(list(map(vector_of, results_of(task, TRAIN, 50))))
        assert np.isfinite(vectors).all()
        assert (vectors != task.parameters).any(axis=1).all()


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (net(nn.BatchNorm1d(16)), {"batch_size": 1},
            "model mine:Net: its forward pass on a batch of one sample, which client 0 has"),
        (net(nn.Dropout()), {"trainer": TrainerSettings(kind="vectorised")},
            "trainer.kind: vectorised is not proved equal to serial"),
        (net(nn.ReLU()), {"trainer": TrainerSettings(precision="mixed")},
            "trainer.precision: mixed is for trainer.kind = vectorised"),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_refused_in_one_line(make, options, message):
    with pytest.raises(ScenarioError, match=message) as fault:
        prepared(make, **options)

    assert len(fault.value.faults) == 1
