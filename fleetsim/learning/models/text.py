"""Networks for text: from tokens [n, t] int64 to logits of the sample or of every position.

Sources: docs/models/models.md. `Gpt2` is without dropout.

Where samples have one label each [n], the logits are those of the last position; where every
position has a label [n, t], they are those of each position.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from fleetsim.contracts import SampleForm

_STD = 0.02
_POSITION_STD = 0.01
_MLP_FACTOR = 4


class Lstm(nn.Module):
    """Embedding, LSTM layers, one linear layer; the state begins at zero in every sample."""

    def __init__(self, samples: SampleForm, *, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        assert samples.vocabulary_size is not None
        self.embedding = nn.Embedding(samples.vocabulary_size, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, samples.num_classes)
        self._is_sequence = samples.is_sequence

    def forward(self, tokens: Tensor) -> Tensor:
        """Map [n, t] int64 to [n, t, classes], or to [n, classes] of the last position."""
        states, _ = self.lstm(self.embedding(tokens))
        logits: Tensor = self.fc(states if self._is_sequence else states[:, -1])
        return logits


class Attention(nn.Module):
    """Causal self-attention of several heads: a position sees itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self._heads = heads

    def forward(self, states: Tensor) -> Tensor:
        """Map [n, t, width] to the same shape."""
        num, length, width = states.shape
        per_head = width // self._heads
        split = self.qkv(states).view(num, length, 3, self._heads, per_head)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        values = scaled_dot_product_attention(query, key, value, is_causal=True)
        seen: Tensor = self.out(values.transpose(1, 2).flatten(2))
        return seen

    def own_flop(self, states: Tensor) -> int:
        """Return the FLOP of the scores and of the weighted sums, over all pairs of positions."""
        num, length, width = states.shape
        return 2 * (2 * num * length**2 * width)


class Mlp(nn.Module):
    """Two linear layers, the inner one four times as wide, with GELU (tanh form) between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, _MLP_FACTOR * width)
        self.gelu = nn.GELU("tanh")
        self.out = nn.Linear(_MLP_FACTOR * width, width)

    def forward(self, states: Tensor) -> Tensor:
        """Map [n, t, width] to the same shape."""
        added: Tensor = self.out(self.gelu(self.fc(states)))
        return added


class Block(nn.Module):
    """Attention, then two linear layers; each is normalised at its input and added to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, states: Tensor) -> Tensor:
        """Map [n, t, width] to the same shape."""
        states = states + self.attention(self.norm1(states))
        answer: Tensor = states + self.mlp(self.norm2(states))
        return answer


class Gpt2(nn.Module):
    """GPT-2: learned positions, blocks, a last normalisation, logits by the tokens' embedding.

    The embedding is used twice but is one entry of the state dict: the flat vector holds it once.
    """

    def __init__(self, samples: SampleForm, *, layers: int, heads: int, width: int) -> None:
        super().__init__()
        assert samples.vocabulary_size is not None
        self.tokens = nn.Embedding(samples.vocabulary_size, width)
        self.positions = nn.Embedding(samples.input_shape[0], width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self._is_sequence = samples.is_sequence

    def forward(self, tokens: Tensor) -> Tensor:
        """Map [n, t] int64 to [n, t, vocabulary], or to [n, vocabulary] of the last position."""
        states = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        states = self.norm(self.blocks(states))
        return linear(states if self._is_sequence else states[:, -1], self.tokens.weight)

    def own_flop(self, tokens: Tensor) -> int:
        """Return the FLOP of the logits."""
        num_answered = tokens.numel() if self._is_sequence else len(tokens)
        return 2 * num_answered * self.tokens.weight.numel()

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights as GPT-2 does: openai/gpt-2, src/model.py; section 2.3 of the paper."""
        residual_std = _STD / math.sqrt(2 * len(self.blocks))
        for name, layer in self.named_modules():
            if isinstance(layer, nn.Embedding):
                std = _POSITION_STD if layer is self.positions else _STD
                nn.init.normal_(layer.weight, std=std, generator=generator)
            elif isinstance(layer, nn.Linear):
                std = residual_std if name.endswith(".out") else _STD
                nn.init.normal_(layer.weight, std=std, generator=generator)
                nn.init.zeros_(layer.bias)
            elif isinstance(layer, nn.LayerNorm):
                layer.reset_parameters()
