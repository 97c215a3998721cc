"""Three networks as a user would bring them: nothing of fleetsim is imported here.

Each is written from its paper, in a size for small samples:

- `VisionTransformer`: Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021: patches, a
  class token, learned positions, encoder blocks that normalise first.
- `MobileNetV3Small`: Howard et al., "Searching for MobileNetV3", ICCV 2019, table 2, with a stem of
  stride 1 for small pictures.
- `TemporalConvNet`: Bai, Kolter, Koltun, "An empirical evaluation of generic convolutional and
  recurrent networks for sequence modeling", arXiv:1803.01271: dilated causal convolutions with
  weight normalisation, residual blocks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import hardsigmoid, pad, relu
from torch.nn.utils.parametrizations import weight_norm


class VisionTransformer(nn.Module):
    """ViT of three blocks, 48 wide, for images of any number of channels."""

    def __init__(
        self, samples: Any, width: int = 48, depth: int = 3, dropout: float = 0.0, patch: int = 4
    ) -> None:
        super().__init__()
        channels, height, columns = samples.input_shape
        num_patches = (height // patch) * (columns // patch)
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, num_patches + 1, width))
        block = nn.TransformerEncoderLayer(
            width, 3, 4 * width, dropout, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, samples.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map [n, C, H, W] to logits [n, classes]."""
        patches = self.patches(images).flatten(2).mT
        tokens = torch.cat([self.token.expand(len(images), -1, -1), patches], dim=1)
        logits: Tensor = self.head(self.norm(self.blocks(tokens + self.positions))[:, 0])
        return logits


class SqueezeAndExcite(nn.Module):
    """Channels scaled by what their means say."""

    def __init__(self, width: int) -> None:
        super().__init__()
        squeezed = max(8, (width // 4 + 4) // 8 * 8)
        self.reduce = nn.Conv2d(width, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, width, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, c, h, w] to the same shape."""
        means = maps.mean((2, 3), keepdim=True)
        return maps * hardsigmoid(self.expand(relu(self.reduce(means))))


class Bottleneck(nn.Module):
    """Inverted residual: expand, convolve each channel, reduce."""

    def __init__(
        self,
        before: int,
        inner: int,
        after: int,
        kernel: int,
        *,
        excites: bool,
        hard: bool,
        by: int,
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if hard else nn.ReLU
        layers: list[nn.Module] = []
        if inner != before:
            layers += [nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner), activation()]
        layers += [
            nn.Conv2d(inner, inner, kernel, by, kernel // 2, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            *([SqueezeAndExcite(inner)] if excites else []),
            activation(),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        ]
        self.body = nn.Sequential(*layers)
        self.is_residual = by == 1 and before == after

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, before, h, w] to [n, after, h / by, w / by]."""
        found: Tensor = self.body(maps)
        return maps + found if self.is_residual else found


class MobileNetV3Small(nn.Module):
    """MobileNetV3-small with a stem of stride 1."""

    ROWS = (
        # kernel, expanded, out, squeeze-and-excite, hard swish, stride
        (3, 16, 16, True, False, 2),
        (3, 72, 24, False, False, 2),
        (3, 88, 24, False, False, 1),
        (5, 96, 40, True, True, 2),
        (5, 240, 40, True, True, 1),
        (5, 240, 40, True, True, 1),
        (5, 120, 48, True, True, 1),
        (5, 144, 48, True, True, 1),
        (5, 288, 96, True, True, 2),
        (5, 576, 96, True, True, 1),
        (5, 576, 96, True, True, 1),
    )

    def __init__(self, samples: Any) -> None:
        super().__init__()
        channels = samples.input_shape[0]
        layers: list[nn.Module] = [
            nn.Conv2d(channels, 16, 3, 1, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardswish(),
        ]
        before = 16
        for kernel, inner, after, excites, hard, by in self.ROWS:
            layers.append(
                Bottleneck(before, inner, after, kernel, excites=excites, hard=hard, by=by)
            )
            before = after
        layers += [nn.Conv2d(96, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(576, 1024), nn.Hardswish()]
        self.body = nn.Sequential(*layers, nn.Linear(1024, samples.num_classes))

    def forward(self, images: Tensor) -> Tensor:
        """Map [n, C, H, W] to logits [n, classes]."""
        logits: Tensor = self.body(images)
        return logits


class CausalBlock(nn.Module):
    """Two dilated causal convolutions with a residual connection."""

    def __init__(self, before: int, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.first = weight_norm(nn.Conv1d(before, width, 3, dilation=dilation))
        self.second = weight_norm(nn.Conv1d(width, width, 3, dilation=dilation))
        self.dropout = nn.Dropout(dropout)
        self.shortcut = nn.Conv1d(before, width, 1) if before != width else nn.Identity()

    def forward(self, series: Tensor) -> Tensor:
        """Map [n, before, t] to [n, width, t]."""
        inner = self.dropout(relu(self.first(pad(series, (self.past, 0)))))
        inner = self.dropout(relu(self.second(pad(inner, (self.past, 0)))))
        return relu(inner + self.shortcut(series))


class TemporalConvNet(nn.Module):
    """TCN of four blocks of 25 channels that reads an image row by row, from top to bottom."""

    def __init__(self, samples: Any, width: int = 25, depth: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        channels, _, columns = samples.input_shape
        befores = [channels * columns] + [width] * (depth - 1)
        blocks = [
            CausalBlock(before, width, 2**level, dropout) for level, before in enumerate(befores)
        ]
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(width, samples.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map [n, C, H, W] to logits [n, classes]."""
        series = images.permute(0, 1, 3, 2).flatten(1, 2)
        logits: Tensor = self.head(self.body(series)[:, :, -1])
        return logits
