import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import conv2d, conv_transpose2d, scaled_dot_product_attention
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.user_networks import MobileNetV3Small, TemporalConvNet, VisionTransformer
from fleetsim.contracts import SampleForm
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.model_fault import ModelFaultError
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    Gpt2Settings,
    LeNet5Settings,
    LstmSettings,
    ResNet18Settings,
    ShuffleNetV2Settings,
    TwoNNSettings,
)
from fleetsim.user.models.counted_operations import counting
from fleetsim.user.models.user_cost import counted_cost, counted_passes
from tests.learning.given_networks import VECTORS


class Calls(nn.Module):
    """A network that is one function, with a weight of its own."""

    def __init__(self, function: Any, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(*shape))
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        result: Tensor = self.function(inputs, self.weight)
        return result


def flop_of(module: nn.Module, *shape: int) -> tuple[dict[str, float], dict[str, int]]:
    flop, layers, _ = counted_passes(module, torch.zeros(1, *shape))
    return dict(flop), dict(layers)


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        (LeNet5Settings(), (1, 28, 28), None),
        (TwoNNSettings(dropout=0.5), (784,), None),
        (ResNet18Settings(width=8, norm="batch"), (3, 32, 32), None),
        (ShuffleNetV2Settings(), (3, 16, 16), None),
        (LstmSettings(hidden=16), (12,), 20),
        (Gpt2Settings(layers=2, heads=2, width=8), (7,), 20),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_networks_of_fleetsim_cost_the_same_when_a_user_brings_them(model, shape, words):
    form = SampleForm(shape, words or 10, words, is_sequence=model.kind == "gpt2")
    module = build_model(model, form, seed=1)

    assert counted_cost(module, form) == model_cost(module, shape)


@pytest.mark.parametrize(
    ("make", "images"),
    [
        (VisionTransformer, (3, 16, 16)),
        (MobileNetV3Small, (3, 32, 32)),
        (TemporalConvNet, (1, 12, 9)),
    ],
)
def test_networks_of_users_cost_what_torch_counts(make: Any, images: tuple[int, ...]) -> None:
    module = make(SampleForm(images, 10)).eval()

    flop, _ = flop_of(module, *images)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        # Torch counts attention by its definition alone on the CPU.
        with (
            torch.no_grad(),
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False) as theirs,
        ):
            module(torch.zeros(1, *images))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)

    assert sum(flop.values()) == theirs.get_total_flops() > 0


class Attends(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return scaled_dot_product_attention(inputs, inputs, inputs, is_causal=True)


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        last: Tensor = self.cell(inputs[:, 1], self.cell(inputs[:, 0]))
        return last


class Scaled(nn.Module):
    """Weight norm, embeddings and scales of its own are free."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.embedding = nn.Embedding(4, 3)
        self.linear = weight_norm(nn.Linear(3, 2))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.embedding(inputs.long()).sum(1) * self.scale)
        return logits.softmax(-1)


class Twice(nn.Linear):
    """A stock layer with another forward pass is counted by its operations."""

    def forward(self, inputs: Tensor) -> Tensor:
        both: Tensor = super().forward(inputs) + super().forward(-inputs)
        return both


SHARED = nn.Linear(6, 6)
PRODUCTS: list[tuple[nn.Module, tuple[int, ...], str, float, int]] = [
    # Five positions by six by four, two FLOP each.
    (Calls(lambda x, w: x @ w, 6, 4), (5, 6), "gemm", 2.0 * 5 * 6 * 4, 1),
    (Calls(lambda x, w: torch.einsum("ni,oi->no", x, w), 4, 6), (6,), "gemm", 48.0, 1),
    (Calls(torch.mv, 6), (6,), "gemm", 12.0, 1),
    (Calls(lambda x, w: torch.dot(x[0], w), 6), (6,), "gemm", 12.0, 1),
    # Scores and means over 7 positions of 4 numbers, 2 heads: two products of 2 * 7 * 7 * 4 each.
    (Attends(), (2, 7, 4), "gemm", 2.0 * 2 * 2 * 7 * 7 * 4, 2),
    # Two steps of three gates of 4 units on 6 inputs and 4 units of state.
    (nn.GRU(6, 4, batch_first=True), (2, 6), "rnn", 2 * 2.0 * 3 * 4 * (6 + 4), 1),
    (Cell(), (2, 6), "rnn", 2 * 2.0 * 3 * 4 * (6 + 4), 4),
    (Calls(conv2d, 2, 4, 3, 3), (4, 5, 5), "conv", 2.0 * 9 * 9 * 4 * 2, 1),
    (Calls(lambda x, w: conv2d(x, w, groups=4), 4, 1, 3, 3), (4, 5, 5), "depthwise",
        2.0 * 9 * 9 * 4, 1),
    # Each of 25 pixels of 4 channels adds a patch of 9 pixels of 2 channels.
    (Calls(conv_transpose2d, 4, 2, 3, 3), (4, 5, 5), "conv", 2.0 * 25 * 4 * 9 * 2, 1),
    (Scaled(), (5,), "gemm", 12.0, 1),
    (Twice(6, 3), (6,), "gemm", 2 * 2.0 * 6 * 3, 2),
    (nn.Sequential(SHARED, SHARED), (6,), "gemm", 2 * 72.0, 2),
]  # fmt: skip


@pytest.mark.parametrize(("module", "shape", "kind", "flop", "num_layers"), PRODUCTS)
def test_products_count_by_hand(module, shape, kind, flop, num_layers):
    assert flop_of(module, *shape) == ({kind: flop}, {kind: num_layers})


class Fourier(nn.Module):
    """A layer whose operation has no formula."""

    def forward(self, inputs: Tensor) -> Tensor:
        sizes: Tensor = torch.fft.rfft(inputs).abs()
        return sizes


def test_a_layer_that_cannot_be_counted_is_named_with_the_way_to_declare_it() -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.Sequential(Fourier(), nn.Linear(4, 3)))

    with pytest.raises(ModelFaultError) as fault:
        counted_cost(module, VECTORS)

    text = str(fault.value)
    assert text.startswith("the FLOP of layer 1.0 (Fourier) are not known: it computes aten::_fft")
    assert "own_flop(self, inputs)" in text
    assert "\n" not in text


def test_a_layer_declares_what_torch_cannot_count() -> None:
    class Declared(Fourier):
        def own_flop(self, inputs: Tensor) -> int:
            return 5 * inputs.numel()

    cost = counted_cost(nn.Sequential(Declared(), nn.Linear(4, 3)), VECTORS)

    assert dict(cost.forward_flop) == {"gemm": 5.0 * 6 + 2 * 4 * 3}
    assert cost.num_layers == 2


def test_a_network_declares_all_of_its_flop() -> None:
    module = nn.Sequential(Fourier(), nn.Linear(4, 3))
    module.flop_per_sample = {"gemm": 1e3, "conv": 5}  # type: ignore[assignment]

    cost = counted_cost(module, VECTORS)

    assert dict(cost.forward_flop) == {"gemm": 1e3, "conv": 5.0}
    assert cost.num_parameters == 15


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (1e9, "must be a mapping"),
        ({}, "must be a mapping"),
        ({"matmul": 1.0}, "classes are conv, depthwise, gemm, rnn"),
        ({"gemm": -1.0}, "not a number > 0"),
        ({"gemm": math.inf}, "not a number > 0"),
        ({"gemm": True}, "not a number > 0"),
    ],
)
def test_a_wrong_declaration_is_refused(declared: Any, message: str) -> None:
    module = nn.Linear(6, 3)
    module.flop_per_sample = declared

    with pytest.raises(ModelFaultError, match=message):
        counted_cost(module, VECTORS)


def test_counting_changes_no_mode_and_no_statistics() -> None:
    module = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout())
    module[2].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}

    counted_passes(module, torch.ones(1, 6))

    assert [layer.training for layer in module] == [True, True, False]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.backends.mha.get_fastpath_enabled()


def _train_step(module, inputs, learning_rate=0.1):
    optimizer = torch.optim.SGD(module.parameters(), lr=learning_rate)
    out = module(inputs)
    (out[0] if isinstance(out, tuple) else out).square().sum().backward()
    optimizer.step()


def _counted(module, inputs):
    with counting() as count:
        _train_step(module, inputs)
    return count.work(0)


def test_a_perceptron_multiplies_each_weight_three_times_but_for_the_inputs_gradient():
    layers = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))

    work = _counted(layers, torch.ones(8, 10))

    forward, second_layer = 2 * 8 * (10 * 20 + 20 * 3), 2 * 8 * 20 * 3
    assert work.flop == (("gemm", 2 * forward + second_layer),)
    assert (work.launches, work.batches, work.updated_parameters) == (5, 1, 200 + 20 + 60 + 3)


PASSES = {
    "a depthwise convolution is a class of its own": (
        nn.Sequential(nn.Conv2d(3, 6, 5), nn.Conv2d(6, 6, 3, groups=6)), (2, 3, 16, 16),
        {"conv": 2 * 2 * 2 * 6 * 12 * 12 * 3 * 25, "depthwise": 3 * 2 * 2 * 6 * 10 * 10 * 9}),
    "a transposed convolution meets a kernel at each input": (
        nn.ConvTranspose2d(4, 2, 3, stride=2), (1, 4, 5, 5), {"conv": 2 * (2 * 25 * 4 * 2 * 9)}),
    "a recurrent network multiplies all its weights at every step": (
        nn.LSTM(5, 7, num_layers=2, batch_first=True), (4, 9, 5),
        {"rnn": 3 * 2 * 4 * 9 * (4 * 7 * (5 + 7) + 4 * 7 * (7 + 7))}),
}  # fmt: skip


@pytest.mark.parametrize("case", PASSES)
def test_both_passes_by_hand(case):
    module, shape, flop = PASSES[case]

    assert dict(_counted(module, torch.ones(shape)).flop) == flop


def test_batches_are_outermost_forward_passes():
    module = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    with counting() as count, torch.no_grad():
        for _ in range(3):
            module(torch.ones(1, 2))

    assert count.work(0).batches == 3


@pytest.mark.parametrize(
    "layer", [nn.Linear(6, 6), nn.LSTM(6, 4), nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)]
)
def test_what_is_counted_is_computed_the_same(layer):
    inputs = torch.linspace(-1.0, 1.0, 5 * 3 * 6).reshape(5, 3, 6)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    _train_step(layer, inputs)
    alone = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.load_state_dict(before)
    layer.zero_grad()

    _counted(layer, inputs)

    assert all(torch.equal(value, alone[name]) for name, value in layer.state_dict().items())


def test_hooks_are_gone_after_the_block():
    with counting() as count:
        pass
    _train_step(nn.Linear(2, 2), torch.ones(1, 2))

    assert (count.batches, count.updated_parameters, count.launches) == (0, 0, 0)
