from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from fleetsim.errors import ScenarioError
from fleetsim.learning.choose import STACKABLE, choose_trainer
from fleetsim.learning.linear_chain import widths_of
from fleetsim.learning.models import build_model
from fleetsim.learning.settings import (
    FedGraCnnSettings,
    LogisticSettings,
    ModelSettings,
    TrainerSettings,
    TwoNNSettings,
)

SMALL = TwoNNSettings(hidden=(4, 4))


def test_auto_stacks_what_can_be_stacked() -> None:
    auto = TrainerSettings()

    assert choose_trainer(auto, LogisticSettings()) == "stacked"
    assert choose_trainer(auto, TwoNNSettings()) == "stacked"
    assert choose_trainer(auto, FedGraCnnSettings()) == "serial"


def test_a_scenario_may_name_its_trainer() -> None:
    assert choose_trainer(TrainerSettings(kind="serial"), SMALL) == "serial"
    assert choose_trainer(TrainerSettings(kind="stacked"), SMALL) == "stacked"


def test_a_trainer_that_cannot_train_the_model_is_refused_with_the_way_out() -> None:
    with pytest.raises(ScenarioError, match=r"trainer.kind: .* not fedgra-cnn; use auto or serial"):
        choose_trainer(TrainerSettings(kind="stacked"), FedGraCnnSettings())


@pytest.mark.parametrize("kind", sorted(STACKABLE))
def test_every_model_of_the_rule_is_a_chain_of_linear_layers(kind: str) -> None:
    model: ModelSettings = TypeAdapter(ModelSettings).validate_python({"kind": kind})
    module = build_model(model, input_shape=(1, 4, 4), num_classes=3, seed=1)

    widths = widths_of(module)
    assert widths is not None
    assert (widths[0], widths[-1]) == (16, 3)
