import copy
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import fleetsim
from fleetsim.contracts import SampleForm, StepMemory
from fleetsim.errors import ScenarioError
from fleetsim.learning.local.measured_networks import measured_cost
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.paper_cost import CostSettings
from fleetsim.learning.models.text import Gpt2
from tests.scenario.small import BASE

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
    *((build_model(each, SampleForm(CIFAR, 10), seed=0), IMAGE) for each in BUILT_IN),
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
    network = build_model(chain, SampleForm((2, 3, 4), 6), seed=1)

    assert chain.chain_cost(form) == model_cost(network, form.input_shape)


PAPER: dict[str, Any] = {
    "kind": "cost",
    "flop_per_sample": {"conv": 3e6, "gemm": 1e6},
    "layers": {"conv": 4, "gemm": 2},
    "parameters": 1000,
}
MEMORY = {"kind": "share", "free_fraction": [0.5, 0.9]}
BLANK = {"kind": "blank", "input_shape": [8]}


def loaded(**changes: Any) -> fleetsim.Scenario:
    model = PAPER | changes.pop("model", {})
    base = yaml.safe_load(BASE)
    keys: dict[Any, Any] = {"task.dataset": BLANK, "task.model": model, **changes}
    return fleetsim.load(base, keys)


def test_cost_and_memory_are_as_stated() -> None:
    settings = CostSettings.model_validate(PAPER | {"sample_byte": 70, "unfolded_byte": 30})
    cost = settings.cost(num_copies=3)

    assert dict(cost.forward_flop) == {"conv": 3e6, "gemm": 1e6}
    assert dict(cost.layer_counts) == {"conv": 4, "gemm": 2}
    assert (cost.num_layers, cost.num_parameters, cost.payload_byte) == (6, 1000, 4000)
    assert cost.memory == StepMemory(state_byte=12_000, sample_byte=70, unfolded_byte=30)
    assert settings.cost(num_copies=None).memory is None


def ran(tmp_path, name: str, **changes: Any) -> fleetsim.Run:
    train, out = changes.pop("train", False), tmp_path / name
    return fleetsim.run(loaded(**changes), train=train, workers=1, progress=False, out=out)


def test_bytes_on_the_wire_and_flop_are_those_of_the_paper(tmp_path) -> None:
    plain = ran(tmp_path, "plain").tasks
    stated = ran(tmp_path, "stated", model={"download_byte": 900, "upload_byte": 50}).tasks
    quantised = ran(tmp_path, "small", **{"server.compression": {"kind": "quantise-8bit"}}).tasks

    delivered = plain["outcome"] == "delivered"
    assert delivered.any()
    assert set(plain["download_byte"]) == {4000}
    assert set(plain["upload_byte"][delivered]) == {4000}
    assert set(stated["download_byte"]) == {900}
    assert set(stated["upload_byte"][stated["outcome"] == "delivered"]) == {50}
    # A byte for each of 1,000 weights, and the ends of two buckets of 512.
    assert set(quantised["upload_byte"][quantised["outcome"] == "delivered"]) == {1016}
    per_sample = plain["train_flop"][delivered] / plain["num_samples"][delivered]
    # Forward and twice as much backward.
    assert per_sample.to_numpy() == pytest.approx(3 * 4e6)


def test_a_model_of_any_size_takes_no_memory_of_the_host(tmp_path) -> None:
    run = ran(tmp_path, "huge", model={"parameters": 10**12, "upload_byte": 10, "download_byte": 9})

    assert run.manifest.trainer == "none"


def test_training_a_model_on_paper_is_refused_in_one_line(tmp_path) -> None:
    data = {"kind": "digits"}
    with pytest.raises(ScenarioError, match="'cost' has no weights to train; use --no-train"):
        ran(tmp_path, "no", train=True, **{"task.dataset": data})

    assert not (tmp_path / "no").exists()


SMALL = {"kind": "quantise-8bit"}
FAULTS: list[Any] = [
    ({"flop_per_sample": {}}, {}, "has no FLOP; give those of a class"),
    ({"layers": {"conv": 4}}, {}, "the class gemm has FLOP and no layers"),
    ({"layers": {"conv": 4, "gemm": 2, "rnn": 1}}, {}, "the class rnn has layers and no FLOP"),
    ({"parameters": 0}, {}, "task.model.parameters = 0"),
    ({"upload_byte": 5}, {"server.compression": SMALL}, "task.model.upload_byte = 5: is the size"),
    ({}, {"fleet.memory": MEMORY}, "task.model.sample_byte: missing, and fleet.memory checks"),
]


@pytest.mark.parametrize(("model", "changes", "message"), FAULTS)
def test_what_contradicts_itself_is_refused_in_one_line(model, changes, message):
    with pytest.raises(ScenarioError) as fault:
        loaded(model=model, **changes)

    (line,) = fault.value.faults
    assert message in line


def test_memory_is_checked_where_it_is_known(tmp_path) -> None:
    ran(tmp_path, "fits", model={"sample_byte": 1000}, **{"fleet.memory": MEMORY})

    with pytest.raises(ScenarioError, match=r"fleet.memory: an SGD step takes .* MiB or more"):
        ran(tmp_path, "no", model={"sample_byte": 10**12}, **{"fleet.memory": MEMORY})
