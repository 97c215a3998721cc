from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fleetsim.contracts import ModelCost
from fleetsim.learning.cost import model_cost
from fleetsim.learning.models import build_model, flatten
from fleetsim.learning.settings import (
    FedGraCnnSettings,
    LeNet5Settings,
    ModelSettings,
    TwoNNSettings,
)

MNIST = (1, 28, 28)


def cost_of(model: ModelSettings) -> ModelCost:
    return model_cost(build_model(model, input_shape=MNIST, num_classes=10, seed=0), MNIST)


def test_2nn_spends_two_flop_per_weight_and_is_tiny() -> None:
    assert cost_of(TwoNNSettings()).forward_flop == {"tiny": 2 * (784 * 200 + 200 * 200 + 200 * 10)}


def test_lenet_counts_every_output_pixel_of_its_convolutions_and_is_tiny() -> None:
    conv1 = 2 * (28 * 28) * 6 * (1 * 25)
    conv2 = 2 * (10 * 10) * 16 * (6 * 25)
    dense = 2 * (400 * 120 + 120 * 84 + 84 * 10)

    assert cost_of(LeNet5Settings()).forward_flop == {"tiny": conv1 + conv2 + dense}


def test_fedgra_cnn_splits_into_convolutions_and_matrix_products() -> None:
    conv1 = 2 * (28 * 28) * 32 * (1 * 25)
    conv2 = 2 * (14 * 14) * 64 * (32 * 25)
    dense = 2 * (3136 * 512 + 512 * 10)

    assert cost_of(FedGraCnnSettings()).forward_flop == {"conv": conv1 + conv2, "gemm": dense}


def test_payload_is_four_bytes_per_parameter_of_a_float32_model() -> None:
    cost = cost_of(FedGraCnnSettings())

    assert cost.num_parameters == 1_663_370
    assert cost.payload_byte == 6_653_480


def test_buffers_travel_but_are_no_parameters() -> None:
    cost = model_cost(nn.BatchNorm2d(3), (3, 4, 4))

    assert cost.num_parameters == 6
    assert cost.payload_byte == 4 * (6 + 6) + 8  # num_batches_tracked is one int64


def test_depthwise_and_pointwise_convolutions_are_told_apart() -> None:
    module = nn.Sequential(
        nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Sequential(nn.Conv2d(32, 64, 1))
    )

    assert model_cost(module, (32, 64, 64)).forward_flop == {
        "depthwise": 2 * 64 * 64 * 32 * 9,
        "conv": 2 * 64 * 64 * 64 * 32,
    }


def test_a_convolution_of_one_channel_is_not_depthwise() -> None:
    module = nn.Conv2d(1, 256, 5, padding=2)

    assert model_cost(module, (1, 28, 28)).forward_flop == {"conv": 2 * 28 * 28 * 256 * 25}


class LastOutput(nn.Module):
    """LSTM over [n, steps, features], a dense layer, and a product of the module's own."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(128, 256, batch_first=True)
        self.dense = nn.Linear(256, 10)

    def forward(self, steps: Tensor) -> Tensor:
        logits: Tensor = self.dense(self.recurrent(steps)[0][:, -1])
        return logits @ torch.ones(10, 5, device=steps.device)


def test_recurrent_layers_count_their_four_gates_in_every_step() -> None:
    assert model_cost(LastOutput(), (20, 128)).forward_flop == {
        "rnn": 20 * 2 * 4 * 256 * (128 + 256),
        "gemm": 2 * 256 * 10 + 2 * 10 * 5,
    }


@pytest.mark.parametrize(("width", "kind"), [(1580, "tiny"), (1582, "gemm")])
def test_five_million_flop_divide_tiny_from_the_rest(width: int, kind: str) -> None:
    assert model_cost(nn.Linear(width, 1581), (width,)).forward_flop == {kind: 2 * width * 1581}


def test_counting_leaves_the_module_as_it_was() -> None:
    module = build_model(TwoNNSettings(), input_shape=MNIST, num_classes=10, seed=0)
    before = flatten(module)
    model_cost(module, MNIST)

    assert module.training
    assert flatten(module).tobytes() == before.tobytes()
