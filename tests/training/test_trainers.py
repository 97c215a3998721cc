from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from fleetsim.contracts import (
    Evaluation,
    Job,
    JobResult,
    Parameters,
    SampleForm,
    Trainer,
    Work,
    WorkKind,
)
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.stacked.linear_chain import widths_of
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.kernels.vmap.vmap_sgd import fault
from fleetsim.learning.local.optimizer_settings import AdamSettings, CosineSettings, SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import AugmentationSettings
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.networks import build_model
from fleetsim.training.preparation import prepare_task
from fleetsim.training.prepared_task import UNTRAINED, PreparedTask, TaskRequest
from fleetsim.training.settings import TaskSettings, TrainerSettings
from fleetsim.training.trainer_choice import TRAINS, choose_trainer
from fleetsim.training.trainers import NullTrainer
from tests.learning.digits_training import SIZES, TRAIN, data_of, run, trainer_of
from tests.learning.side_by_side import SMALL, Client, Fleet, chain, local, same, vector_of


def test_the_mean_of_one_step_of_all_clients_is_one_step_on_all_data() -> None:
    """FedSGD: with full batches FedAvg of one local step is a central step (McMahan 2017)."""
    sizes = (40, 60, 3)
    fleet = Fleet(SMALL["logistic"](), [Client(size) for size in sizes])
    chosen = local(1000, 0.5)
    parts = [vector_of(part) for part in fleet.train(Kernel, chosen)]
    fleet.data = replace(fleet.data, shares=[np.concatenate(fleet.data.shares)])
    (central,) = fleet.kernel(Kernel, chosen).compute(fleet.jobs()[:1])

    mean = np.average(parts, axis=0, weights=sizes)
    np.testing.assert_allclose(mean, vector_of(central), rtol=1e-12)
    assert np.abs(mean - fleet.base(0)).max() > 1e-2


@pytest.mark.parametrize(("address", "seed"), [((2,), 7), ((1, 0), 7), ((1,), 8)])
def test_another_address_or_seed_draws_other_batches(address: tuple[int, ...], seed: int) -> None:
    trainer, base = trainer_of()
    other, _ = trainer_of(seed=seed)

    assert not same(run(trainer, 0, base), run(other, 0, base, address=address))


def test_clients_with_equal_data_draw_different_batches() -> None:
    trainer, base = trainer_of(data=data_of([np.arange(40), np.arange(40)]))

    assert not same(run(trainer, 0, base), run(trainer, 1, base))


@pytest.mark.parametrize(("asked", "used"), [(None, 60), (25, 25), (60, 60), (500, 60)])
@pytest.mark.parametrize("kind", [WorkKind.EVALUATE, WorkKind.GRADIENT])
def test_a_sample_draw_is_capped_at_what_the_client_has(kind, asked, used):
    trainer, base = trainer_of()
    result = run(trainer, 1, base, work=Work(kind, num_samples=asked))

    assert result.num_samples == used
    assert result.loss is not None
    assert result.loss > 0
    assert (result.vector is None) == (kind is WorkKind.EVALUATE)


def test_samples_are_drawn_without_replacement_and_by_address() -> None:
    trainer, base = trainer_of()
    all_of_them = run(trainer, 1, base, work=Work(WorkKind.EVALUATE))
    drawn_all = run(trainer, 1, base, work=Work(WorkKind.EVALUATE, num_samples=60))
    some = Work(WorkKind.EVALUATE, num_samples=30)

    assert drawn_all.loss == pytest.approx(all_of_them.loss, rel=1e-6)
    assert run(trainer, 1, base, (1,), some).loss == run(trainer, 1, base, (1,), some).loss
    assert run(trainer, 1, base, (1,), some).loss != run(trainer, 1, base, (2,), some).loss


def trainers() -> list[tuple[Trainer, Parameters]]:
    serial, base = trainer_of()
    return [(serial, base), (NullTrainer(np.array(SIZES)), base)]


@pytest.mark.parametrize(("trainer", "base"), trainers(), ids=["serial", "null"])
def test_a_ticket_is_good_for_one_call(trainer: Trainer, base: Parameters) -> None:
    used = trainer.submit(Job(0, TRAIN, base, (1,)))
    trainer.results([used])
    cancelled = trainer.submit(Job(0, TRAIN, base, (2,)))
    trainer.cancel(cancelled)

    for ticket in (used, cancelled, 10**6):
        with pytest.raises(ValueError, match=f"ticket {ticket}: never issued"):
            trainer.results([ticket])
        with pytest.raises(ValueError, match=f"ticket {ticket}: never issued"):
            trainer.cancel(ticket)


def test_null_training_knows_numbers_of_samples_and_nothing_else() -> None:
    trainer = NullTrainer(np.array([40, 60, 3]))
    base = np.zeros(1, dtype=np.float32)

    assert run(trainer, 1, base) == JobResult(num_samples=60)
    assert run(trainer, 1, base, work=Work(WorkKind.GRADIENT, num_samples=8)).num_samples == 8
    assert run(trainer, 2, base, work=Work(WorkKind.EVALUATE, num_samples=8)).num_samples == 3
    assert run(trainer, 2, base, work=Work(WorkKind.NONE)).num_samples == 0
    assert trainer.evaluate(base) == Evaluation(accuracy=None, loss=None)


def test_one_torch_thread_computes_whatever_the_machine_has() -> None:
    torch.set_num_threads(2)
    trainer_of()

    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda", "torch sees no cuda device"), ("tpu", "'tpu' is neither cpu nor")],
)
def test_a_device_that_is_not_there_is_the_commands_fault(monkeypatch, device, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ScenarioError, match=f"--torch-device: {message}"):
        trainer_of(torch_device=device)


SMALL_TASK = models.TwoNNSettings(hidden=(4, 4))
IMAGE = (1, 32, 32)
PLAIN = LocalSettings(epochs=1, batch_size=5, optimizer=SgdSettings(learning_rate=0.1))


HALF = models.TwoNNSettings(hidden=(4, 4), dropout=0.5)
CNN = models.FedGraCnnSettings()
AUGMENTED = PLAIN.model_copy(update={"augmentation": AugmentationSettings(noise_sd=0.1)})
MEASURED = [
    (models.LogisticSettings(), "stacked"),
    (models.SvmSettings(), "stacked"),
    (models.TwoNNSettings(), "stacked"),
    (CNN, "channels-last"),
    (models.GpflCnnSettings(), "channels-last"),
    (models.ResNet18Settings(norm="batch"), "channels-last"),
    (models.Gpt2Settings(heads=2, width=32), "vectorised"),
    (models.Gpt2Settings(heads=2, width=128), "serial"),
]
"""Models whose trainers docs/models/learning.md compares by measured times, on a CPU."""
BY_RULE = [
    ("cpu", HALF, PLAIN, "serial"),
    ("cpu", SMALL_TASK, AUGMENTED, "serial"),
    ("cpu", CNN, AUGMENTED, "channels-last"),
    ("cpu", models.LstmSettings(), PLAIN, "serial"),
    ("cuda", models.LogisticSettings(), PLAIN, "stacked"),
    ("cuda", models.SvmSettings(), PLAIN, "stacked"),
    ("cuda", models.TwoNNSettings(), PLAIN, "stacked"),
    ("cuda", HALF, PLAIN, "serial"),
    ("cuda", SMALL_TASK, AUGMENTED, "serial"),
    ("cuda", CNN, PLAIN, "vectorised"),
    ("cuda", CNN, AUGMENTED, "serial"),
    ("cuda", models.LstmSettings(), PLAIN, "serial"),
    ("cuda", models.Gpt2Settings(), PLAIN, "vectorised"),
]
"""Choices that follow from what a trainer can, and those on CUDA, where none was measured."""


@pytest.mark.parametrize(("model", "kind"), MEASURED)
def test_auto_takes_what_was_measured_to_be_fastest(model, kind):
    assert choose_trainer(TrainerSettings(), model, PLAIN, torch_device="cpu") == kind


@pytest.mark.parametrize(("device", "model", "local", "kind"), BY_RULE)
def test_auto_follows_the_rule_of_the_docs_where_nothing_was_measured(device, model, local, kind):
    assert choose_trainer(TrainerSettings(), model, local, torch_device=device) == kind


REFUSED = [
    ({"kind": "stacked"}, CNN, PLAIN, "kind: stacked trains .*svm alone, not fedgra-cnn"),
    ({"kind": "vectorised"}, models.LstmSettings(), PLAIN, "kind: .* not lstm; use auto"),
    ({"kind": "channels-last"}, SMALL_TASK, PLAIN, "kind: .* not 2nn; use auto"),
    ({"kind": "channels-last"}, CNN, PLAIN, "kind: .* on the CPU alone"),
    ({"precision": "mixed"}, SMALL_TASK, PLAIN, "precision: mixed is for trainer.kind = vec"),
    ({"kind": "stacked"}, HALF, PLAIN, "kind: stacked trains without dropout; use"),
    ({"kind": "stacked"}, SMALL_TASK, AUGMENTED, "kind: stacked trains on samples as they"),
    ({"kind": "vectorised"}, SMALL_TASK, AUGMENTED, "kind: vectorised trains on samples as they"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "model", "local", "message"), REFUSED)
def test_a_trainer_that_cannot_train_so_is_refused_with_a_hint(keys, model, local, message):
    device = "cuda" if "CPU" in message else "cpu"
    with pytest.raises(ScenarioError, match=rf"trainer\.{message}"):
        choose_trainer(TrainerSettings(**keys), model, local, torch_device=device)


MOMENTUM: Any = {"learning_rate": 0.1, "momentum": 0.9}
NOT_PLAIN = [
    {"optimizer": AdamSettings(learning_rate=0.01)},
    {"optimizer": SgdSettings(**MOMENTUM, nesterov=True)},
    {"optimizer": SgdSettings(**MOMENTUM, dampening=0.1)},
    {"optimizer": SgdSettings(learning_rate=0.1, within_task=CosineSettings())},
    {"max_gradient_norm": 1.0},
    {"label_smoothing": 0.1},
]


@pytest.mark.parametrize("change", NOT_PLAIN)
def test_stacked_is_for_plain_sgd_and_auto_takes_the_next_fastest(change):
    local = PLAIN.model_copy(update=change)

    assert choose_trainer(TrainerSettings(), SMALL_TASK, local, torch_device="cpu") == "vectorised"
    assert choose_trainer(TrainerSettings(), CNN, local, torch_device="cpu") == "channels-last"
    with pytest.raises(ScenarioError, match=r"trainer\.kind: stacked trains by sgd .* use auto or"):
        choose_trainer(TrainerSettings(kind="stacked"), SMALL_TASK, local, torch_device="cpu")
    fleet = Fleet(chain((6, 4)), [Client(1)], shape=(6,))
    with pytest.raises(ValueError, match="plain steps of SGD"):
        fleet.kernel(StackedKernel, local)


@pytest.mark.parametrize("name", sorted(TRAINS["serial"] - {"gpt2", "lstm"}))
def test_the_table_says_what_the_kernels_can(name: str) -> None:
    model: models.ModelSettings = TypeAdapter(models.ModelSettings).validate_python({"kind": name})
    module = build_model(model, SampleForm(IMAGE, 3), seed=1)

    assert (widths_of(module) is not None) == (name in TRAINS["stacked"])
    assert (fault(module) is None) == (name in TRAINS["vectorised"])


BLANK = {"kind": "blank", "input_shape": (4,), "num_classes": 3, "median_samples": 10, "sigma": 0.0}
DIGITS = {"kind": "digits"}


def prepared(
    dataset: Mapping[str, object],
    num_clients: int = 4,
    measures_memory: bool = False,
    **task: object,
) -> PreparedTask:
    local = {"epochs": 1, "batch_size": 5, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}
    keys = {"dataset": dataset, "model": {"kind": "logistic"}, "local": local, **task}
    settings, trainer = TaskSettings.model_validate(keys), TrainerSettings()
    request = TaskRequest(settings, trainer, 1, 1, num_clients, measures_memory=measures_memory)
    return prepare_task(request, train=False, torch_device="cpu", workers=1)


def test_a_blank_data_set_gives_sizes_and_a_model_but_no_training() -> None:
    """Of 10 samples a client holds out a fifth. 4 inputs to 3 classes are 12 weights, 3 biases."""
    task = prepared(BLANK, holdout_fraction=0.2)
    samples = task.samples

    assert (samples.num_samples.tolist(), samples.num_evaluated.tolist()) == ([8] * 4, [2] * 4)
    assert task.parameters.size == task.cost.num_parameters == 15
    assert task.trainer_kind == UNTRAINED
    assert task.test_labels is None
    assert task.forms == {}


def test_the_memory_of_a_step_is_measured_on_request_alone() -> None:
    assert prepared(BLANK).cost.memory is None
    assert prepared(BLANK, measures_memory=True).cost.memory is not None


@pytest.mark.parametrize(("partition", "share"), [("iid", 1.0), ("one-class", 0.1)])
def test_label_coverage_is_the_share_of_ten_digits_that_a_client_has(partition, share):
    task = prepared(DIGITS, num_clients=10, partition={"kind": partition})

    assert task.samples.label_coverage is not None
    assert task.samples.label_coverage.tolist() == [share] * 10
    # None are held out.
    assert task.samples.num_evaluated.tolist() == task.samples.num_samples.tolist()


def test_samples_without_a_label_of_their_own_have_no_label_coverage(tmp_path: Path) -> None:
    tokens = np.arange(48).reshape(16, 3) % 5
    np.savez(tmp_path / "train.npz", inputs=tokens, labels=(tokens + 1) % 5)
    texts = {"kind": "folder", "folder": str(tmp_path), "test_fraction": 0.25}
    model = {"kind": "lstm", "embedding": 2, "hidden": 2, "layers": 1}

    assert prepared(texts, model=model, partition={"kind": "iid"}).samples.label_coverage is None
    assert prepared(BLANK).samples.label_coverage is None
