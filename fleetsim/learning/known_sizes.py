"""Sizes of data sets that are known before any file of theirs is read.

Of `digits` 1,438 images are for training (four fifths of each class, docs/data.md). The sizes of
published sets are those that their authors state: MNIST and Fashion-MNIST 60,000, CIFAR-10 50,000,
EMNIST 112,800 (balanced) and 124,800 (letters); 539 writers made MNIST's training images (QMNIST).
A folder that a scenario names may hold something else, so its size is not known.
"""

from __future__ import annotations

from fleetsim.learning.cifar import Cifar10Settings
from fleetsim.learning.data import (
    DatasetSettings,
    DigitsSettings,
    FashionMnistSettings,
    MnistSettings,
)
from fleetsim.learning.emnist import EmnistSettings

_DIGITS = 1_438
_MNIST = 60_000
_MNIST_WRITERS = 539
_CIFAR10 = 50_000
_EMNIST = {"balanced": 112_800, "letters": 124_800}


def num_training(settings: DatasetSettings) -> int | None:
    """Training samples of a data set; None if only its files tell."""
    if isinstance(settings, DigitsSettings):
        return _DIGITS
    if getattr(settings, "folder", None) is not None:
        return None
    match settings:
        case MnistSettings() | FashionMnistSettings():
            return _MNIST
        case Cifar10Settings():
            return _CIFAR10 if settings.train_samples is None else settings.train_samples
        case EmnistSettings():
            return _EMNIST[settings.split]
        case _:
            return None


def num_natural(settings: DatasetSettings) -> int | None:
    """Natural clients of a data set, 0 if it has none; None if only its files tell."""
    match settings:
        case MnistSettings():
            return _MNIST_WRITERS if settings.writers else 0
        case DigitsSettings() | FashionMnistSettings() | Cifar10Settings() | EmnistSettings():
            return 0
        case _:
            return None
