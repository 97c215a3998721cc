"""The published image networks in their form for small images, such as CIFAR's 32 x 32 pixels.

* ResNet-18: He et al., "Deep residual learning for image recognition", CVPR 2016.
* VGG-16 (configuration D): Simonyan, Zisserman, "Very deep convolutional networks for large-scale
  image recognition", ICLR 2015, with the normalisation and the single linear layer of its CIFAR
  variants.
* ShuffleNet v2 1.0x: Ma et al., "ShuffleNet V2: practical guidelines for efficient CNN architecture
  design", ECCV 2018.

In the published forms the first layers halve a 224 x 224 image twice; here they keep its size: a
3x3 convolution of stride 1 and no pooling. Everything behind is as published. These forms are
those of kuangliu/pytorch-cifar@c7c3518, with the same numbers of parameters. They end in the mean
over the image and one linear layer, so they take images of any size from `MIN_SIDE` pixels.

Normalisation is BatchNorm (Ioffe, Szegedy, ICML 2015) or GroupNorm (Wu, He, ECCV 2018). BatchNorm
suffers in federated learning, where every client has its own mix of classes; GroupNorm does not
(Hsieh et al., "The non-IID data quagmire of decentralized machine learning", ICML 2020). Two groups
are those of Reddi et al., "Adaptive federated optimization", ICLR 2021 (google-research/federated).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn

MIN_SIDE = {"resnet18": 9, "vgg16": 32, "shufflenet-v2": 9}
"""Smallest image side (pixels). No normalisation sees a map of a single pixel, whose BatchNorm
would be undefined for a batch of one sample; and VGG-16 halves the image five times."""

Layers = OrderedDict[str, nn.Module]
Norm = Callable[[int], nn.Module]
"""Normalisation layer for so many channels."""

_NUM_GROUPS = 2
_RESNET_WIDTHS = (64, 128, 256, 512)
_VGG_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_SHUFFLE_STEM, _SHUFFLE_HEAD = 24, 1024
_SHUFFLE_STAGES = ((116, 4), (232, 8), (464, 4))
"""Channels and units of each stage."""


def group_norm(num_channels: int) -> nn.Module:
    """GroupNorm with two groups."""
    return nn.GroupNorm(_NUM_GROUPS, num_channels)


NORMS: dict[str, Norm] = {"batch": nn.BatchNorm2d, "group": group_norm}


class Residual(nn.Module):
    """relu(body(x) + shortcut(x)): [n, C, H, W] to what both branches give."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        """Both branches, added."""
        return torch.relu(self.body(maps) + self.shortcut(maps))


class ShuffleUnit(nn.Module):
    """Half of the channels passes as it is, half goes through `right`; then they interleave."""

    def __init__(self, right: nn.Module) -> None:
        super().__init__()
        self.right = right

    def forward(self, maps: Tensor) -> Tensor:
        """[n, C, H, W] to the same shape."""
        kept, worked = maps.chunk(2, dim=1)
        return interleave(kept, self.right(worked))


class ShuffleDownUnit(nn.Module):
    """All channels go through both branches, which halve the image; then they interleave."""

    def __init__(self, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.left = left
        self.right = right

    def forward(self, maps: Tensor) -> Tensor:
        """[n, C, H, W] to [n, C', H/2, W/2], sides rounded up."""
        return interleave(self.left(maps), self.right(maps))


def interleave(left: Tensor, right: Tensor) -> Tensor:
    """Channels of two maps in turn (a channel shuffle of two groups): [n, C, H, W] to 2C channels.

    >>> maps = torch.arange(4.0).view(1, 4, 1, 1)
    >>> interleave(maps[:, :2], maps[:, 2:]).flatten().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    return torch.stack((left, right), dim=2).flatten(1, 2)


def resnet18(image: tuple[int, int, int], num_classes: int, norm: Norm) -> Layers:
    """Four stages of two residual blocks; the last three halve the image."""
    layers: Layers = OrderedDict(
        conv1=_conv(image[0], _RESNET_WIDTHS[0], 3), norm1=norm(_RESNET_WIDTHS[0]), relu1=nn.ReLU()
    )
    before = _RESNET_WIDTHS[0]
    for number, width in enumerate(_RESNET_WIDTHS, start=1):
        layers[f"stage{number}"] = nn.Sequential(
            _residual(before, width, 1 if number == 1 else 2, norm),
            _residual(width, width, 1, norm),
        )
        before = width
    return layers | _head(before, num_classes)


def _residual(before: int, width: int, stride: int, norm: Norm) -> Residual:
    """Two 3x3 convolutions; the shortcut is a 1x1 convolution where the shape changes."""
    body = OrderedDict(
        conv1=_conv(before, width, 3, stride),
        norm1=norm(width),
        relu1=nn.ReLU(),
        conv2=_conv(width, width, 3),
        norm2=norm(width),
    )
    if stride == 1 and before == width:
        return Residual(nn.Sequential(body), nn.Identity())
    shortcut = OrderedDict(conv=_conv(before, width, 1, stride), norm=norm(width))
    return Residual(nn.Sequential(body), nn.Sequential(shortcut))


def vgg16(image: tuple[int, int, int], num_classes: int, norm: Norm) -> Layers:
    """Five blocks of 3x3 convolutions with bias, each ended by a 2x2 maximum."""
    layers: Layers = OrderedDict()
    before = image[0]
    for number, widths in enumerate(_VGG_BLOCKS, start=1):
        block: Layers = OrderedDict()
        for index, width in enumerate(widths, start=1):
            block[f"conv{index}"] = nn.Conv2d(before, width, 3, padding=1)
            block[f"norm{index}"] = norm(width)
            block[f"relu{index}"] = nn.ReLU()
            before = width
        block["pool"] = nn.MaxPool2d(2)
        layers[f"block{number}"] = nn.Sequential(block)
    return layers | _head(before, num_classes)


def shufflenet_v2(image: tuple[int, int, int], num_classes: int, norm: Norm) -> Layers:
    """Three stages of 4, 8 and 4 units, of which the first halves the image, and a 1x1 layer."""
    layers: Layers = OrderedDict(
        conv1=_conv(image[0], _SHUFFLE_STEM, 3), norm1=norm(_SHUFFLE_STEM), relu1=nn.ReLU()
    )
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
    return layers | _head(_SHUFFLE_HEAD, num_classes)


def _depthwise_first(before: int, width: int, norm: Norm) -> nn.Sequential:
    """3x3 depthwise convolution that halves the image, then 1x1."""
    return nn.Sequential(
        OrderedDict(
            conv1=_conv(before, before, 3, 2, groups=before),
            norm1=norm(before),
            conv2=_conv(before, width, 1),
            norm2=norm(width),
            relu2=nn.ReLU(),
        )
    )


def _pointwise_first(before: int, width: int, stride: int, norm: Norm) -> nn.Sequential:
    """1x1, 3x3 depthwise, 1x1 convolution."""
    return nn.Sequential(
        OrderedDict(
            conv1=_conv(before, width, 1),
            norm1=norm(width),
            relu1=nn.ReLU(),
            conv2=_conv(width, width, 3, stride, groups=width),
            norm2=norm(width),
            conv3=_conv(width, width, 1),
            norm3=norm(width),
            relu3=nn.ReLU(),
        )
    )


def _conv(before: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Convolution without bias; a stride of 1 keeps the image's size, one of 2 halves it."""
    padding = kernel // 2
    return nn.Conv2d(before, width, kernel, stride, padding, groups=groups, bias=False)


def _head(width: int, num_classes: int) -> Layers:
    """Mean over the image, then one linear layer to the classes."""
    return OrderedDict(
        pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(width, num_classes)
    )
