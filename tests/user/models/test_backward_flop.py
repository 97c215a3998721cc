"""FLOP of the backward pass with frozen weights: as torch's counter has them, and by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrize
from torch.utils.flop_counter import FlopCounterMode

from fleetsim.user.models.user_cost import counted_cost, counted_passes
from tests.learning.given_networks import VECTORS

TEXT = torch.zeros(1, 7, dtype=torch.int64)
IMAGE = torch.ones(1, 1, 8, 8)
VECTOR = torch.ones(1, 6)


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter of rank 2."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.base = nn.Linear(fan_in, fan_out).requires_grad_(False)
        self.down = nn.Linear(fan_in, 2, bias=False)
        self.up = nn.Parameter(torch.ones(2, fan_out))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.base(inputs) + self.down(inputs) @ self.up
        return outputs


class Reads(nn.Module):
    """Embedding, linear layer, attention and logits, which may share the embedding's weights."""

    def __init__(self, *frozen: str, is_tied: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.linear = nn.Linear(8, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        if is_tied:
            self.head.weight = self.embedding.weight
        for name in frozen:
            getattr(self, name).requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.linear(self.embedding(tokens))
        hidden = hidden + self.attention(hidden, hidden, hidden, need_weights=False)[0]
        logits: Tensor = self.head(hidden.mean(1))
        return logits


class Recurs(nn.Module):
    def __init__(self, cell: Any, *frozen: str, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.cell = cell(8, 6, layers, batch_first=True)
        self.head = nn.Linear(6, 5)
        for name, weight in self.named_parameters():
            weight.requires_grad_(not any(part in name for part in frozen))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.cell(self.embedding(tokens))[0][:, -1])
        return logits


def convolutions(*frozen: int) -> nn.Module:
    net = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(96, 8), nn.ReLU(), nn.Linear(8, 3)),
    )
    for index in frozen:
        net[index].requires_grad_(False)
    return net


def adapters() -> nn.Module:
    return nn.Sequential(Adapted(6, 64), nn.ReLU(), Adapted(64, 64), nn.ReLU(), Adapted(64, 5))


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        pytest.param(lambda: convolutions(0, 1, 3, 6), IMAGE, id="frozen backbone"),
        pytest.param(lambda: convolutions(3, 6), IMAGE, id="frozen middle"),
        pytest.param(lambda: convolutions(1), IMAGE, id="frozen affine of BatchNorm"),
        pytest.param(lambda: convolutions(0), IMAGE, id="frozen first layer"),
        pytest.param(lambda: convolutions(8), IMAGE, id="frozen head"),
        pytest.param(adapters, VECTOR, id="adapters on every layer"),
        pytest.param(lambda: Reads("embedding"), TEXT, id="frozen embedding"),
        pytest.param(lambda: Reads("attention"), TEXT, id="frozen attention"),
        pytest.param(lambda: Reads("embedding", "linear", "attention"), TEXT, id="head of a text"),
        pytest.param(lambda: Reads("linear", "attention", "head"), TEXT, id="embedding alone"),
        pytest.param(lambda: Reads("linear", is_tied=True), TEXT, id="tied weights"),
        pytest.param(lambda: Reads("head", is_tied=True), TEXT, id="frozen tied weights"),
        pytest.param(lambda: Recurs(nn.GRU, "_l1"), TEXT, id="frozen recurrent layer"),
        pytest.param(lambda: Recurs(nn.GRU, "cell", "embedding"), TEXT, id="head of a GRU"),
    ],
)
def test_both_passes_are_those_of_torchs_counter(make, inputs, monkeypatch):
    module = make().eval()
    counted = counted_passes(module, inputs)
    monkeypatch.setattr(torch.backends.mha, "get_fastpath_enabled", lambda: False)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        logits = module(inputs)
        forward = counter.get_total_flops()
        cross_entropy(logits, torch.zeros(1, dtype=torch.int64)).backward()

    assert counted.backward is not None
    assert sum(counted.flop.values()) == forward
    assert sum(counted.backward.flop.values()) == counter.get_total_flops() - forward


def test_an_lstm_by_hand() -> None:
    """7 steps, 4 gates of 6 units on 8 inputs: 192 weights on inputs, 144 on the state."""
    hidden_only = counted_passes(Recurs(nn.LSTM, "ih", "embedding", layers=1), TEXT).backward
    embedding_only = counted_passes(Recurs(nn.LSTM, "cell", "head", layers=1), TEXT).backward

    assert hidden_only is not None
    assert embedding_only is not None
    # The state before the first step has no gradient.
    assert hidden_only.flop["rnn"] == 2 * (144 * 7 + 144 * 6)
    assert embedding_only.flop["rnn"] == 2 * (192 * 7 + 144 * 6)


class WithoutGradient(nn.Module):
    """Its backbone is frozen, and computed without a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 5).requires_grad_(False)
        self.head = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            body = self.body(inputs)
        logits: Tensor = self.head(body)
        return logits


class LowRank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Parameter(torch.ones(5, 2)), nn.Parameter(torch.ones(2, 6))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.left @ self.right


def parametrised() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 5).requires_grad_(False))
    parametrize.register_parametrization(net[0], "weight", LowRank())
    return net


class Squares(nn.Module):
    """Its FLOP are declared; it has no weights of its own."""

    def own_flop(self, inputs: Tensor) -> int:
        return 100

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * inputs


def squared(*, frozen: int) -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 6), Squares(), nn.Linear(6, 1))
    net[frozen].requires_grad_(False)
    return net


def declared() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
    net[0].requires_grad_(False)
    setattr(net, "flop_per_sample", {"gemm": 1000, "conv": 7.0})  # noqa: B010
    return net


@pytest.mark.parametrize(
    ("make", "flop"),
    [
        (WithoutGradient, {"gemm": 30.0}),
        # The weight is computed from 5 x 2 and 2 x 6: both factors have a gradient.
        (parametrised, {"gemm": 60.0 + 2 * 120.0}),
        (lambda: squared(frozen=0), {"gemm": 12.0}),
        (lambda: squared(frozen=2), {"gemm": 72.0 + 2 * 100.0 + 12.0}),
        # Counted are 60 + 40 forward and 40 backward, and nothing of a convolution.
        (declared, {"gemm": 400.0, "conv": 14.0}),
    ],
)
def test_backward_passes_by_hand(make: Callable[[], nn.Module], flop: dict[str, float]) -> None:
    backward = counted_cost(make(), VECTORS).backward

    assert backward is not None
    assert backward.flop == pytest.approx(flop)
    assert counted_cost(nn.Linear(6, 3), VECTORS).backward is None  # nothing is frozen
