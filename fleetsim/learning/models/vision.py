"""Published image networks in their form for small images, such as CIFAR's 32 x 32 pixels.

The networks, their sources and both forms of normalisation are described in docs/models/models.md.
In the published forms the first layers halve a 224 x 224 image twice; here they keep its size: a
3x3 convolution of stride 1 and no pooling. All later layers are as published, with one linear layer
after the mean over the image. From `min_side` of their settings on no map of a single pixel is
normalised (BatchNorm is undefined for one in a batch of one sample), and VGG-16 can halve the image
five times.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from fleetsim.contracts import SampleForm

Layers = OrderedDict[str, nn.Module]
MakeNorm = Callable[[int], nn.Module]
"""Constructor of a normalisation layer, from the number of channels."""

_NUM_GROUPS = 2
_RESNET_STAGES = 4
_VGG_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_SHUFFLE_STEM, _SHUFFLE_HEAD = 24, 1024
_SHUFFLE_STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and units of each stage."""


def group_norm(num_channels: int) -> nn.Module:
    """Return a GroupNorm with two groups."""
    return nn.GroupNorm(_NUM_GROUPS, num_channels)


_NORMS: dict[str, MakeNorm] = {"batch": nn.BatchNorm2d, "group": group_norm}


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)) of maps [n, C, H, W]."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        """Return the sum of both branches, rectified."""
        return torch.relu_(self.body(maps) + self.shortcut(maps))


class ShuffleUnit(nn.Module):
    """Unit that leaves half of the channels, sends half through `right` and interleaves them."""

    def __init__(self, right: nn.Module) -> None:
        super().__init__()
        self.right = right

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, C, H, W] to the same shape."""
        kept, worked = maps.chunk(2, dim=1)
        return interleave(kept, self.right(worked))


class ShuffleDownUnit(nn.Module):
    """Unit of two branches that halve the image, whose channels interleave."""

    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left = left
        self.right = right

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, C, H, W] to [n, C', H/2, W/2], sides rounded up."""
        return interleave(self.left(maps), self.right(maps))


def interleave(left: Tensor, right: Tensor) -> Tensor:
    """Return the channels of two maps in turn, a channel shuffle of two groups: 2C channels."""
    return torch.stack((left, right), dim=2).flatten(1, 2)


def resnet18(samples: SampleForm, norm: str, width: int) -> nn.Sequential:
    """Return four stages of two residual blocks; the last three halve the image.

    A stage has twice the channels of the one before, beginning with `width`.
    """
    before, make_norm = width, _NORMS[norm]
    layers = _in_turn(make_norm, (_conv(samples.image_shape[0], before, 3), True))
    for number in range(1, _RESNET_STAGES + 1):
        stage_width = width * 2 ** (number - 1)
        layers[f"stage{number}"] = nn.Sequential(
            _residual(before, stage_width, 1 if number == 1 else 2, make_norm),
            _residual(stage_width, stage_width, 1, make_norm),
        )
        before = stage_width
    return nn.Sequential(layers | _head(before, samples.num_classes))


def _residual(before: int, width: int, stride: int, norm: MakeNorm) -> Residual:
    """Return two 3x3 convolutions; the shortcut is a 1x1 convolution where the shape changes."""
    convs = (_conv(before, width, 3, stride), True), (_conv(width, width, 3), False)
    body = _in_turn(norm, *convs)
    if stride == 1 and before == width:
        return Residual(nn.Sequential(body), nn.Identity())
    shortcut = OrderedDict(conv=_conv(before, width, 1, stride), norm=norm(width))
    return Residual(nn.Sequential(body), nn.Sequential(shortcut))


def vgg16(samples: SampleForm, norm: str) -> nn.Sequential:
    """Return five blocks of 3x3 convolutions with bias, each followed by a 2x2 maximum."""
    layers: Layers = OrderedDict()
    before = samples.image_shape[0]
    for number, widths in enumerate(_VGG_BLOCKS, start=1):
        pairs = pairwise((before, *widths))
        convs = ((nn.Conv2d(*pair, 3, padding=1), True) for pair in pairs)
        block = _in_turn(_NORMS[norm], *convs)
        before = widths[-1]
        block["pool"] = nn.MaxPool2d(2)
        layers[f"block{number}"] = nn.Sequential(block)
    return nn.Sequential(layers | _head(before, samples.num_classes))


def shufflenet_v2(samples: SampleForm, norm: str) -> nn.Sequential:
    """Return three stages of 4, 8 and 4 units and a 1x1 layer; first units halve the image."""
    make_norm = _NORMS[norm]
    layers = _in_turn(make_norm, (_conv(samples.image_shape[0], _SHUFFLE_STEM, 3), True))
    before = _SHUFFLE_STEM
    for number, (width, num_units) in enumerate(_SHUFFLE_STAGES, start=2):
        half = width // 2
        units: list[nn.Module] = [
            ShuffleDownUnit(
                _depthwise_first(before, half, make_norm),
                _pointwise_first(before, half, 2, make_norm),
            )
        ]
        rights = (_pointwise_first(half, half, 1, make_norm) for _ in range(num_units - 1))
        units += map(ShuffleUnit, rights)
        layers[f"stage{number}"] = nn.Sequential(*units)
        before = width
    layers["conv5"] = _conv(before, _SHUFFLE_HEAD, 1)
    layers["norm5"] = make_norm(_SHUFFLE_HEAD)
    layers["relu5"] = nn.ReLU()
    return nn.Sequential(layers | _head(_SHUFFLE_HEAD, samples.num_classes))


def _depthwise_first(before: int, width: int, norm: MakeNorm) -> nn.Sequential:
    """Return a 3x3 depthwise convolution that halves the image, then a 1x1 convolution."""
    depthwise = _conv(before, before, 3, 2, groups=before)
    return nn.Sequential(_in_turn(norm, (depthwise, False), (_conv(before, width, 1), True)))


def _pointwise_first(before: int, width: int, stride: int, norm: MakeNorm) -> nn.Sequential:
    depthwise = _conv(width, width, 3, stride, groups=width)
    first, last = _conv(before, width, 1), _conv(width, width, 1)
    return nn.Sequential(_in_turn(norm, (first, True), (depthwise, False), (last, True)))


def _in_turn(norm: MakeNorm, *convolutions: tuple[nn.Conv2d, bool]) -> Layers:
    """Return convolutions in sequence, each normalised, and rectified where it is marked."""
    layers: Layers = OrderedDict()
    for number, (conv, is_rectified) in enumerate(convolutions, start=1):
        layers[f"conv{number}"] = conv
        layers[f"norm{number}"] = norm(conv.out_channels)
        if is_rectified:
            layers[f"relu{number}"] = nn.ReLU()
    return layers


def _conv(before: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Return a convolution without bias; stride 1 keeps the image's size, stride 2 halves it."""
    padding = kernel // 2
    return nn.Conv2d(before, width, kernel, stride, padding, groups=groups, bias=False)


def _head(width: int, num_classes: int) -> Layers:
    """Return the mean over the image, then one linear layer to the classes."""
    return OrderedDict(
        pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(width, num_classes)
    )
