from typing import Any

import pytest
from pydantic import TypeAdapter

from fleetsim.errors import ScenarioError
from fleetsim.kernels.stacked.linear_chain import widths_of
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.kernels.vmap.vmap_sgd import fault
from fleetsim.learning.local.optimizer_settings import AdamSettings, CosineSettings, SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import AugmentationSettings
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.networks import build_model
from fleetsim.training.settings import TrainerSettings
from fleetsim.training.trainer_choice import TRAINS, choose_trainer
from tests.learning.side_by_side import Client, Fleet, chain

SMALL = models.TwoNNSettings(hidden=(4, 4))
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
    ("cpu", SMALL, AUGMENTED, "serial"),
    ("cpu", CNN, AUGMENTED, "channels-last"),
    ("cpu", models.LstmSettings(), PLAIN, "serial"),
    ("cuda", models.LogisticSettings(), PLAIN, "stacked"),
    ("cuda", models.SvmSettings(), PLAIN, "stacked"),
    ("cuda", models.TwoNNSettings(), PLAIN, "stacked"),
    ("cuda", HALF, PLAIN, "serial"),
    ("cuda", SMALL, AUGMENTED, "serial"),
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
    ({"kind": "channels-last"}, SMALL, PLAIN, "kind: .* not 2nn; use auto"),
    ({"kind": "channels-last"}, CNN, PLAIN, "kind: .* on the CPU alone"),
    ({"precision": "mixed"}, SMALL, PLAIN, "precision: mixed is for trainer.kind = vec"),
    ({"kind": "stacked"}, HALF, PLAIN, "kind: stacked trains without dropout; use"),
    ({"kind": "stacked"}, SMALL, AUGMENTED, "kind: stacked trains on samples as they"),
    ({"kind": "vectorised"}, SMALL, AUGMENTED, "kind: vectorised trains on samples as they"),
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

    assert choose_trainer(TrainerSettings(), SMALL, local, torch_device="cpu") == "vectorised"
    assert choose_trainer(TrainerSettings(), CNN, local, torch_device="cpu") == "channels-last"
    with pytest.raises(ScenarioError, match=r"trainer\.kind: stacked trains by sgd .* use auto or"):
        choose_trainer(TrainerSettings(kind="stacked"), SMALL, local, torch_device="cpu")
    fleet = Fleet(chain((6, 4)), [Client(1)], shape=(6,))
    with pytest.raises(ValueError, match="plain steps of SGD"):
        fleet.kernel(StackedKernel, local)


@pytest.mark.parametrize("name", sorted(TRAINS["serial"] - {"gpt2", "lstm"}))
def test_the_table_says_what_the_kernels_can(name: str) -> None:
    model: models.ModelSettings = TypeAdapter(models.ModelSettings).validate_python({"kind": name})
    module = build_model(model, input_shape=IMAGE, num_classes=3, seed=1)

    assert (widths_of(module) is not None) == (name in TRAINS["stacked"])
    assert (fault(module) is None) == (name in TRAINS["vectorised"])
