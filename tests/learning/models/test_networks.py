from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from fleetsim import rng
from fleetsim.errors import ScenarioError
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    FedGraCnnSettings,
    GpflCnnSettings,
    LeNet5Settings,
    LogisticSettings,
    ModelSettings,
    Norm,
    ResNet18Settings,
    ShuffleNetV2Settings,
    SvmSettings,
    TwoNNSettings,
)
from fleetsim.settings import Settings

MNIST = (1, 28, 28)
DIGITS = (1, 8, 8)


def num_weights(model: ModelSettings, input_shape: tuple[int, ...] = MNIST) -> int:
    return flatten(build_model(model, input_shape=input_shape, num_classes=10, seed=0)).size


@pytest.mark.parametrize(
    ("model", "input_shape", "published"),
    [
        (TwoNNSettings(), MNIST, 199_210),
        (FedGraCnnSettings(), MNIST, 1_663_370),
        (LeNet5Settings(), MNIST, 61_706),
        (LogisticSettings(), MNIST, 7_850),
        (LogisticSettings(), (60,), 610),
        (SvmSettings(), MNIST, 7_850),
        (TwoNNSettings(hidden=(64, 30)), MNIST, 52_500),
        (GpflCnnSettings(), (3, 32, 32), 122_570),
    ],
)
def test_networks_have_the_published_number_of_parameters(
    model: ModelSettings, input_shape: tuple[int, ...], published: int
) -> None:
    assert num_weights(model, input_shape) == published


@pytest.mark.parametrize("model", [LogisticSettings(), TwoNNSettings(), FedGraCnnSettings()])
@pytest.mark.parametrize("input_shape", [DIGITS, MNIST, (3, 32, 32), (1, 5, 9)])
def test_networks_give_one_logit_per_class(
    model: ModelSettings, input_shape: tuple[int, ...]
) -> None:
    module = build_model(model, input_shape=input_shape, num_classes=7, seed=0)

    assert module(torch.zeros(2, *input_shape)).shape == (2, 7)


@pytest.mark.parametrize(
    ("model", "least"), [(LeNet5Settings(), 12), (GpflCnnSettings(), 18)], ids=["lenet5", "gpfl"]
)
def test_a_network_fits_every_image_from_its_least_side(model: ModelSettings, least: int) -> None:
    for side in (least, least + 1, 28, 32):
        module = build_model(model, input_shape=(3, side, side), num_classes=10, seed=0)
        assert module(torch.zeros(2, 3, side, side)).shape == (2, 10)
    with pytest.raises(ScenarioError, match=rf"{model.kind} needs images .* {least}x{least}"):
        build_model(model, input_shape=(1, least - 1, 28), num_classes=10, seed=0)


def test_gpfl_cnn_pools_after_its_first_two_convolutions_alone() -> None:
    module = build_model(GpflCnnSettings(), input_shape=(3, 32, 32), num_classes=10, seed=0)

    kinds = [type(layer).__name__ for layer in module.children()]

    pooled = ["Conv2d", "MaxPool2d", "ReLU"]
    assert kinds == [*pooled, *pooled, "Conv2d", "ReLU", "Flatten", "Linear", "ReLU", "Linear"]


def test_a_network_that_does_not_fit_is_refused_with_those_that_do() -> None:
    with pytest.raises(ScenarioError, match=r"task.model.kind: lenet5 .*12x12.*\(1, 8, 8\)") as e:
        build_model(LeNet5Settings(), input_shape=DIGITS, num_classes=10, seed=0)
    assert str(e.value).endswith("what fits: logistic, svm, 2nn, fedgra-cnn")


@pytest.mark.parametrize("input_shape", [(60,), (28, 28), (1, 3, 28)])
def test_convolutions_refuse_what_is_no_image_or_too_small(input_shape: tuple[int, ...]) -> None:
    with pytest.raises(ScenarioError, match=r"what fits: logistic, svm, 2nn$"):
        build_model(FedGraCnnSettings(), input_shape=input_shape, num_classes=10, seed=0)


def test_fedgra_cnn_applies_sigmoid_after_its_first_convolution_and_relu_after_the_second() -> None:
    module = build_model(FedGraCnnSettings(), input_shape=MNIST, num_classes=10, seed=0)

    kinds = " ".join(type(layer).__name__ for layer in module.children())

    assert kinds == "Conv2d Sigmoid MaxPool2d Conv2d ReLU MaxPool2d Flatten Linear ReLU Linear"


# --- initial weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("model", [TwoNNSettings(), LeNet5Settings(), ShuffleNetV2Settings()])
def test_initial_weights_are_what_pytorch_itself_draws_from_the_same_generator(
    model: ModelSettings,
) -> None:
    ours = build_model(model, input_shape=MNIST, num_classes=10, seed=5)
    theirs = build_model(model, input_shape=MNIST, num_classes=10, seed=6)
    with torch.random.fork_rng():
        generator = torch.Generator().manual_seed(rng.torch_seed(5, "model"))
        torch.random.set_rng_state(generator.get_state())
        for layer in theirs.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.reset_parameters()

    np.testing.assert_array_equal(flatten(ours), flatten(theirs))


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_normalisation_begins_with_scale_one_shift_zero_and_fresh_statistics(norm: Norm) -> None:
    starts = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
    model = ShuffleNetV2Settings(norm=norm)
    layers = build_model(model, input_shape=(3, 9, 9), num_classes=10, seed=0).modules()
    norms = [layer for layer in layers if isinstance(layer, nn.GroupNorm | nn.BatchNorm2d)]

    assert norms
    for layer in norms:
        for name, value in layer.state_dict().items():
            assert torch.all(value == starts[name]), name


@pytest.mark.parametrize("model", [TwoNNSettings(), ShuffleNetV2Settings(norm="batch")])
def test_initial_weights_depend_on_the_seed_alone_and_leave_the_global_stream_alone(
    model: ModelSettings,
) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (
        flatten(build_model(model, input_shape=MNIST, num_classes=10, seed=seed))
        for seed in (1, 1, 2)
    )

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


# --- settings -----------------------------------------------------------------------------------


SGD = {"kind": "sgd", "learning_rate": 1}


@pytest.mark.parametrize(
    ("settings_class", "values"),
    [
        (SgdSettings, {"learning_rate": 0}),
        (SgdSettings, {"learning_rate": 0.1, "momentum": 1}),
        (SgdSettings, {"learning_rate": 0.1, "weight_decay": -1e-4}),
        (SgdSettings, {"learning_rate": float("inf")}),
        (
            LocalSettings,
            {"epochs": 0, "batch_size": 1, "optimizer": SGD},
        ),
        (
            LocalSettings,
            {"epochs": 1, "batch_size": 0, "optimizer": SGD},
        ),
        (LocalSettings, {"epochs": 1, "batch_size": 1}),
        (TwoNNSettings, {"hidden": [200, 0]}),
        (TwoNNSettings, {"hidden": [200]}),
        (ResNet18Settings, {"norm": "layer"}),
    ],
)
def test_settings_out_of_range_are_refused(
    settings_class: type[Settings], values: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        settings_class(**values)
