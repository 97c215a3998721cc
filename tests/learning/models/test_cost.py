import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fleetsim.contracts import SampleForm
from fleetsim.learning.local.measured_networks import measured_cost
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.text import Gpt2

CIFAR = (3, 32, 32)


def counted_by_torch(module: nn.Module, sample: Tensor) -> int:
    """On the meta device, where torch's counter sees inside recurrent layers."""
    shapes = copy.deepcopy(module).to("meta").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        shapes(sample.to("meta"))
    return int(counter.get_total_flops())


BUILT_IN: list[models.ModelSettings] = [
    models.SvmSettings(),
    models.TwoNNSettings(),
    models.LeNet5Settings(),
    models.FedGraCnnSettings(),
    models.GpflCnnSettings(),
    models.ResNet18Settings(),
    models.Vgg16Settings(),
    models.ShuffleNetV2Settings(),
]
RECURRENT: Any = {"num_layers": 2, "bidirectional": True, "batch_first": True}
IMAGE, ROW, TEXT = torch.zeros(1, *CIFAR), torch.zeros(1, 9, 5), torch.zeros(1, 6).long()
GPT: Any = {"layers": 2, "heads": 2, "width": 8}
NETWORKS: list[tuple[nn.Module, Tensor]] = [
    *((build_model(each, input_shape=CIFAR, num_classes=10, seed=0), IMAGE) for each in BUILT_IN),
    *((kind(5, 7, **RECURRENT), ROW) for kind in (nn.RNN, nn.GRU, nn.LSTM)),
    *((Gpt2(SampleForm((6,), 11, 11, each), **GPT), TEXT) for each in (True, False)),
]


@pytest.mark.parametrize(("module", "sample"), NETWORKS)
def test_torch_counts_the_same(module, sample):
    counted = counted_by_torch(module, sample)

    assert sum(model_cost(module, tuple(sample.shape[1:])).forward_flop.values()) == counted


def test_a_layer_that_nobody_can_count_is_refused() -> None:
    with pytest.raises(ValueError, match="FLOP of ConvTranspose1d are not known"):
        model_cost(nn.ConvTranspose1d(2, 2, 1), (2, 4))


TWICE = nn.Linear(3, 3)
LAYERS: list[tuple[nn.Module, tuple[int, ...], dict[str, int]]] = [
    (nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)), (3,), {"gemm": 2}),
    (nn.Sequential(TWICE, TWICE), (3,), {"gemm": 2}),
    # Two layers in two directions.
    (nn.GRU(6, 5, num_layers=2, bidirectional=True, batch_first=True), (7, 6), {"rnn": 4}),
    # Two blocks of four linear layers and an attention; the logits.
    (Gpt2(SampleForm((6,), 11, 11), **GPT), (6,), {"gemm": 11}),
    (NETWORKS[2][0], CIFAR, {"conv": 2, "gemm": 3}),
    (nn.Conv2d(4, 4, 3, groups=4), (4, 9, 9), {"depthwise": 1}),
    (nn.Conv2d(4, 8, 1), (4, 9, 9), {"conv": 1}),
    (nn.Conv2d(1, 8, 5), (1, 9, 9), {"conv": 1}),
]


@pytest.mark.parametrize(("module", "shape", "counts"), LAYERS)
def test_layers_with_matrices_are_counted_by_class_as_often_as_they_run(module, shape, counts):
    cost = model_cost(module, shape)

    assert cost.layer_counts == counts
    assert cost.forward_flop.keys() == counts.keys()


@pytest.mark.parametrize(("model", "num_layers"), [("AlexNet", 7), ("SqueezeNet", 26)])
def test_measured_networks_have_the_layers_that_their_papers_count(model, num_layers):
    assert measured_cost(model).num_layers == num_layers


@pytest.mark.parametrize(
    "chain",
    [
        models.LogisticSettings(),
        models.SvmSettings(),
        models.TwoNNSettings(hidden=(7, 5)),
        models.TwoNNSettings(hidden=(3, 4), dropout=0.5),
    ],
)
def test_the_cost_of_a_chain_is_known_without_its_network(chain) -> None:
    form = SampleForm((2, 3, 4), 6)
    network = build_model(chain, input_shape=(2, 3, 4), num_classes=6, seed=1)

    assert chain.chain_cost(form) == model_cost(network, form.input_shape)
