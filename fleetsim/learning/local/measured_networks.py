"""Networks whose training on phones was measured, as the measurements define them.

* Measured with MNN: UbiquitousLearning/Benchmark-On-Device-Training@1b3cfeb,
  tools/train/source/models. They lack some activations and layers of the published networks, and
  have ten classes. MobileNetV2 is that of alibaba/MNN. GoogLeNet's second convolution has the
  stride 2 of the first (one `convOption` for both), which saves two thirds of the arithmetic.
* Measured with DL4J: PKU-Chengxu/FLASH@70e47eb, models. They are LEAF's networks for FEMNIST,
  CelebA, Reddit and Shakespeare. The size of Reddit's vocabulary, 10,000, is LEAF's and inferred.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fleetsim.contracts import ModelCost, SampleForm, StepMemory
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.step_memory import step_memory
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.text import Lstm

_IMAGENET = (3, 224, 224)
_REDDIT_WORDS = 10_000


class Concat(nn.Module):
    """Branches of the same input, concatenated by channel."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, maps: Tensor) -> Tensor:
        """Map [n, c, h, w] to the channels of all branches [n, sum of c, h, w]."""
        return torch.cat([branch(maps) for branch in self.branches], dim=1)


class Added(nn.Module):
    """Residual connection: the output of a body added to its input."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, maps: Tensor) -> Tensor:
        """Map inputs to outputs of the same shape."""
        added: Tensor = maps + self.body(maps)
        return added


def lenet() -> nn.Module:
    """Return LeNet for images of 28 x 28."""
    pooled = nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2)
    return nn.Sequential(*pooled, nn.Flatten(), nn.Linear(800, 400), nn.ReLU(), nn.Linear(400, 10))


def alexnet() -> nn.Module:
    """Return AlexNet with one dense layer of 4,096."""
    first = nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.MaxPool2d(3, 2)
    second = nn.Conv2d(96, 256, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)
    third = nn.Conv2d(256, 384, 3, padding=1), nn.ReLU()
    fourth = nn.Conv2d(384, 384, 3, padding=1), nn.ReLU()
    fifth = nn.Conv2d(384, 256, 3, padding=1), nn.MaxPool2d(3, 2)
    dense = nn.Flatten(), nn.Linear(256 * 5 * 5, 4096), nn.ReLU(), nn.Linear(4096, 10)
    return nn.Sequential(*first, *second, *third, *fourth, *fifth, *dense)


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, 2, padding=1)


def squeezenet() -> nn.Module:
    """Return SqueezeNet without any ReLU."""

    def fire(before: int, squeezed: int, expanded: int) -> nn.Module:
        wide = nn.Conv2d(squeezed, expanded, 3, padding=1)
        return nn.Sequential(
            nn.Conv2d(before, squeezed, 1), Concat(nn.Conv2d(squeezed, expanded, 1), wide)
        )

    first = fire(96, 16, 64), fire(128, 16, 64), fire(128, 32, 128)
    second = fire(256, 32, 128), fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256)
    last = fire(512, 64, 256), nn.Conv2d(512, 10, 1), nn.AvgPool2d(14), nn.Flatten()
    stem = nn.Conv2d(3, 96, 7, 2, padding=3), _pool()
    return nn.Sequential(*stem, *first, _pool(), *second, _pool(), *last)


def googlenet() -> nn.Module:
    """Return GoogLeNet without any ReLU, its second convolution with a stride of 2."""

    def inception(before: int, *widths: int) -> nn.Module:
        one, three_in, three, five_in, five, pooled = widths
        return Concat(
            nn.Conv2d(before, one, 1),
            nn.Sequential(nn.Conv2d(before, three_in, 1), nn.Conv2d(three_in, three, 3, padding=1)),
            nn.Sequential(nn.Conv2d(before, five_in, 1), nn.Conv2d(five_in, five, 5, padding=2)),
            nn.Sequential(nn.MaxPool2d(3, 1, padding=1), nn.Conv2d(before, pooled, 1)),
        )

    stem = nn.Conv2d(3, 64, 7, 2, padding=3), _pool(), nn.Conv2d(64, 192, 3, 2, padding=1), _pool()
    first = inception(192, 64, 96, 128, 16, 32, 32), inception(256, 128, 128, 192, 32, 96, 64)
    second = (
        inception(480, 192, 96, 208, 16, 48, 64),
        inception(512, 160, 112, 224, 24, 64, 64),
        inception(512, 128, 128, 256, 24, 64, 64),
        inception(512, 112, 144, 288, 32, 64, 64),
        inception(528, 256, 160, 320, 32, 128, 128),
    )
    third = inception(832, 256, 160, 320, 32, 128, 128), inception(832, 384, 192, 384, 48, 128, 128)
    # The original pools 7 x 7 pixels, but only 4 x 4 are left.
    head = nn.AvgPool2d(4), nn.Conv2d(1024, 10, 1), nn.Flatten()
    return nn.Sequential(*stem, *first, _pool(), *second, _pool(), *third, *head)


def mobilenet_v2() -> nn.Module:
    """Return MobileNetV2."""

    def conv(before: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
        padding = kernel // 2
        made = nn.Conv2d(before, width, kernel, stride, padding, groups=groups, bias=False)
        return nn.Sequential(made, nn.BatchNorm2d(width))

    def bottleneck(before: int, width: int, expand: int, stride: int) -> nn.Module:
        inner = before * expand
        first = (conv(before, inner, 1), nn.ReLU6()) if expand > 1 else ()
        depthwise = conv(inner, inner, 3, stride, groups=inner), nn.ReLU6()
        body = nn.Sequential(*first, *depthwise, conv(inner, width, 1))
        return Added(body) if stride == 1 and before == width else body

    layers: list[nn.Module] = [conv(3, 32, 3, 2), nn.ReLU6()]
    before = 32
    for expand, width, num, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for index in range(num):
            layers.append(bottleneck(before, width, expand, stride if index == 0 else 1))
            before = width
    head = (conv(before, 1280, 1), nn.ReLU6(), nn.AvgPool2d(7), nn.Flatten(), nn.Linear(1280, 10))
    return nn.Sequential(*layers, *head)


def femnist_cnn() -> nn.Module:
    """Return LEAF's network for FEMNIST: 62 classes of 28 x 28 pixels."""
    first = nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)
    dense = nn.Flatten(), nn.Linear(7 * 7 * 64, 2048), nn.ReLU(), nn.Linear(2048, 62)
    return nn.Sequential(*first, *second, *dense)


def celeba_cnn() -> nn.Module:
    """Return LEAF's network for CelebA: 2 classes of 84 x 84 pixels."""
    layers: list[nn.Module] = []
    for before in (3, 32, 32, 32):
        layers += [nn.Conv2d(before, 32, 3, padding=1), nn.BatchNorm2d(32)]
        layers += [nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 6 * 6, 2))


def reddit_lstm() -> nn.Module:
    """Return LEAF's network for Reddit: the next word at each of 10 positions."""
    words = SampleForm((10,), _REDDIT_WORDS, _REDDIT_WORDS, is_sequence=True)
    return Lstm(words, embedding=256, hidden=256, layers=2)


def shakespeare_lstm() -> nn.Module:
    """Return LEAF's network for Shakespeare: the character after 80 others."""
    return Lstm(SampleForm((80,), 80, 80), embedding=8, hidden=256, layers=2)


MEASURED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LeNet": (lenet, (1, 28, 28)),
    "AlexNet": (alexnet, _IMAGENET),
    "SqueezeNet": (squeezenet, _IMAGENET),
    "GoogLeNet": (googlenet, _IMAGENET),
    "MobileNetV2": (mobilenet_v2, _IMAGENET),
    "FEMNIST": (femnist_cnn, (1, 28, 28)),
    "CelebA": (celeba_cnn, (3, 84, 84)),
    "Reddit": (reddit_lstm, (10,)),
    "Shakespeare": (shakespeare_lstm, (80,)),
}
"""Constructor of each network, and the shape of one sample."""


def measured_cost(network: str) -> ModelCost:
    """Return the cost of a network, counted as in scenarios."""
    make, shape = MEASURED[network]
    return model_cost(make(), shape)


def measured_memory(network: str) -> StepMemory:
    """Return the memory of a step of SGD with momentum, which the measurements used."""
    make, shape = MEASURED[network]
    local = StepSettings(
        epochs=1, batch_size=1, optimizer=SgdSettings(learning_rate=0.1, momentum=0.9)
    )
    return step_memory(make(), shape, local)
