"""Networks of the peers: those of fleetsim, built from torch's own layers in the same order.

So the exported flat vector of initial weights fits, and all contestants start from one model. Like
the rest of an adapter, this module imports torch and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

_NUM_GROUPS = 2
_MLP_FACTOR = 4


@dataclass(frozen=True)
class Form:
    """Shape of a sample and of its label."""

    shape: tuple[int, ...]
    num_classes: int
    vocabulary_size: int | None = None
    """Number of tokens of a text; None if samples are no text."""
    is_sequence: bool = False
    """True if every position of a sample has a label."""


def build(model: str, form: Form, sizes: Mapping[str, int]) -> nn.Sequential:
    """Build a network by its name in scenarios.

    The models are logistic, 2nn, fedgra-cnn, resnet18 with group normalisation, lstm, and gpt2; the
    last two need their sizes, by the keys of a scenario.

    Raises:
        ValueError: no such network.
    """
    shape, num_classes = form.shape, form.num_classes
    match model:
        case "logistic":
            return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), num_classes))
        case "2nn":
            return nn.Sequential(
                nn.Flatten(),
                nn.Linear(math.prod(shape), 200),
                nn.ReLU(),
                nn.Linear(200, 200),
                nn.ReLU(),
                nn.Linear(200, num_classes),
            )
        case "fedgra-cnn":
            return nn.Sequential(
                nn.Conv2d(shape[0], 32, 5, padding=2),
                nn.Sigmoid(),
                nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 5, padding=2),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(64 * (shape[1] // 4) * (shape[2] // 4), 512),
                nn.ReLU(),
                nn.Linear(512, num_classes),
            )
        case "resnet18":
            return _resnet18(shape[0], num_classes)
        case "lstm":
            return nn.Sequential(_Lstm(form, **sizes))
        case "gpt2":
            return nn.Sequential(_Gpt2(form, **sizes))
    raise ValueError(f"no network has the name {model!r}")


class _Residual(nn.Module):
    """Residual block: relu(body(x) + shortcut(x))."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.GroupNorm(_NUM_GROUPS, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.GroupNorm(_NUM_GROUPS, width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.GroupNorm(_NUM_GROUPS, width)
            )

    def forward(self, maps: Tensor) -> Tensor:
        return torch.relu(self.body(maps) + self.shortcut(maps))


def _resnet18(channels: int, num_classes: int) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 64, 3, 1, 1, bias=False),
        nn.GroupNorm(_NUM_GROUPS, 64),
        nn.ReLU(),
    ]
    before = 64
    for width in (64, 128, 256, 512):
        layers += [_Residual(before, width, 1 if width == 64 else 2), _Residual(width, width, 1)]
        before = width
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes))
    return nn.Sequential(*layers, *head)


class _Lstm(nn.Module):
    """Embedding, LSTM layers, one linear layer."""

    def __init__(self, form: Form, *, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        assert form.vocabulary_size is not None
        self.embedding = nn.Embedding(form.vocabulary_size, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, form.num_classes)
        self.is_sequence = form.is_sequence

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        logits: Tensor = self.fc(states if self.is_sequence else states[:, -1])
        return logits


class _Block(nn.Module):
    """Causal attention, then two linear layers; each is normalised at its input and added to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, _MLP_FACTOR * width),
            nn.GELU("tanh"),
            nn.Linear(_MLP_FACTOR * width, width),
        )
        self.heads = heads

    def forward(self, states: Tensor) -> Tensor:
        num, length, width = states.shape
        split = self.qkv(self.norm1(states)).view(num, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.out(seen.transpose(1, 2).flatten(2))
        answer: Tensor = states + self.mlp(self.norm2(states))
        return answer


class _Gpt2(nn.Module):
    """GPT-2, with one matrix for the embedding and the logits."""

    def __init__(self, form: Form, *, layers: int, heads: int, width: int) -> None:
        super().__init__()
        assert form.vocabulary_size is not None
        self.tokens = nn.Embedding(form.vocabulary_size, width)
        self.positions = nn.Embedding(form.shape[0], width)
        self.blocks = nn.Sequential(*(_Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.is_sequence = form.is_sequence

    def forward(self, tokens: Tensor) -> Tensor:
        states = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        states = self.norm(self.blocks(states))
        return linear(states if self.is_sequence else states[:, -1], self.tokens.weight)


def in_nhwc(images: Tensor) -> Tensor:
    """Return images [n, C, H, W] in NHWC; the same if they are already.

    `contiguous` would leave those of one channel alone, and torch take them for NCHW.
    """
    if images.stride(1) == 1:
        return images
    return torch.empty_like(images, memory_format=torch.channels_last).copy_(images)


class ChannelsLast(nn.Module):
    """Layer that stores the channels of a pixel contiguously (NHWC); free if they are already."""

    def forward(self, images: Tensor) -> Tensor:
        """Map [n, C, H, W] to the same shape."""
        return in_nhwc(images)


def channels_last(network: nn.Sequential) -> nn.Sequential:
    """Return a network that computes in NHWC, torch's fastest layout of many images.

    Convolutions follow the layout of the images. Weights stay as they are, because some peers
    flatten them by `view`, which refuses other layouts; oneDNN reorders them in any case.
    """
    return nn.Sequential(ChannelsLast(), *network)
