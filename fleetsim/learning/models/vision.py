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


NORMS: dict[str, MakeNorm] = {"batch": nn.BatchNorm2d, "group": group_norm}


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)) of maps [n, C, H, W]."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        """Return the sum of both branches, rectified."""
        return torch.relu(self.body(maps) + self.shortcut(maps))


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


def resnet18(
    image: tuple[int, int, int], num_classes: int, norm: MakeNorm, *, first_width: int = 64
) -> nn.Sequential:
    """Return four stages of two residual blocks; the last three halve the image.

    A stage has twice the channels of the one before, beginning with `first_width`.
    """
    before = first_width
    layers = _in_turn(norm, (_conv(image[0], before, 3), True))
    for number in range(1, _RESNET_STAGES + 1):
        width = first_width * 2 ** (number - 1)
        layers[f"stage{number}"] = nn.Sequential(
            _residual(before, width, 1 if number == 1 else 2, norm),
            _residual(width, width, 1, norm),
        )
        before = width
    return nn.Sequential(layers | _head(before, num_classes))


def _residual(before: int, width: int, stride: int, norm: MakeNorm) -> Residual:
    """Return two 3x3 convolutions; the shortcut is a 1x1 convolution where the shape changes."""
    convs = (_conv(before, width, 3, stride), True), (_conv(width, width, 3), False)
    body = _in_turn(norm, *convs)
    if stride == 1 and before == width:
        return Residual(nn.Sequential(body), nn.Identity())
    shortcut = OrderedDict(conv=_conv(before, width, 1, stride), norm=norm(width))
    return Residual(nn.Sequential(body), nn.Sequential(shortcut))


def vgg16(image: tuple[int, int, int], num_classes: int, norm: MakeNorm) -> nn.Sequential:
    """Return five blocks of 3x3 convolutions with bias, each followed by a 2x2 maximum."""
    layers: Layers = OrderedDict()
    before = image[0]
    for number, widths in enumerate(_VGG_BLOCKS, start=1):
        pairs = pairwise((before, *widths))
        block = _in_turn(norm, *((nn.Conv2d(*pair, 3, padding=1), True) for pair in pairs))
        before = widths[-1]
        block["pool"] = nn.MaxPool2d(2)
        layers[f"block{number}"] = nn.Sequential(block)
    return nn.Sequential(layers | _head(before, num_classes))


def shufflenet_v2(image: tuple[int, int, int], num_classes: int, norm: MakeNorm) -> nn.Sequential:
    """Return three stages of 4, 8 and 4 units and a 1x1 layer; first units halve the image."""
    layers = _in_turn(norm, (_conv(image[0], _SHUFFLE_STEM, 3), True))
    before = _SHUFFLE_STEM
    for number, (width, num_units) in enumerate(_SHUFFLE_STAGES, start=2):
        half = width // 2
        units: list[nn.Module] = [
            ShuffleDownUnit(
                _depthwise_first(before, half, norm), _pointwise_first(before, half, 2, norm)
            )
        ]
        units += [ShuffleUnit(_pointwise_first(half, half, 1, norm)) for _ in range(num_units - 1)]
        layers[f"stage{number}"] = nn.Sequential(*units)
        before = width
    layers["conv5"] = _conv(before, _SHUFFLE_HEAD, 1)
    layers["norm5"] = norm(_SHUFFLE_HEAD)
    layers["relu5"] = nn.ReLU()
    return nn.Sequential(layers | _head(_SHUFFLE_HEAD, num_classes))


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
