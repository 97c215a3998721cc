"""Sizes of data sets that are known before any sample of theirs is read.

Of `digits` 1,438 images are for training (four fifths of each class, docs/data.md). The sizes of
published sets are those that their authors state: MNIST and Fashion-MNIST 60,000, CIFAR-10 50,000,
EMNIST 112,800 of 47 labels (balanced) and 124,800 of 26 (letters), the others ten labels; 539
writers made MNIST's training images (QMNIST). A folder that a scenario names for one of these must
hold that very set. A data set in a folder of the user's own has the size that the headers of its
files announce, if they are there.
"""

from __future__ import annotations

from pathlib import Path

from fleetsim.learning.data import own_folder_sizes
from fleetsim.learning.data.loading import (
    DatasetSettings,
    DigitsSettings,
    FashionMnistSettings,
    MnistSettings,
)
from fleetsim.learning.data.own_folder import FolderSettings
from fleetsim.learning.data.published.cifar10 import Cifar10Settings
from fleetsim.learning.data.published.emnist import EmnistSettings

_DIGITS = 1_438
_MNIST = 60_000
_MNIST_WRITERS = 539
_CIFAR10 = 50_000
_EMNIST = {"balanced": 112_800, "letters": 124_800}
_EMNIST_LABELS = {"balanced": 47, "letters": 26}
_NUM_LABELS = 10


def num_training(settings: DatasetSettings, own_folder: Path | None = None) -> int | None:
    """Training samples of a data set; None if only its files tell.

    Args:
        settings: which set.
        own_folder: where a `FolderSettings` set lies; None: its files are not looked at.

    Raises:
        DataError: a file of the folder is damaged, or larger than is read.
    """
    match settings:
        case DigitsSettings():
            return _DIGITS
        case FolderSettings() if own_folder is not None:
            return own_folder_sizes.num_training(settings, own_folder)
        case MnistSettings() | FashionMnistSettings():
            return _MNIST
        case Cifar10Settings():
            return _CIFAR10 if settings.train_samples is None else settings.train_samples
        case EmnistSettings():
            return _EMNIST[settings.split]
        case _:
            return None


def num_natural(settings: DatasetSettings, own_folder: Path | None = None) -> int | None:
    """Natural clients of a data set, 0 if it has none; None if only its files tell.

    Arguments and errors are those of `num_training`.
    """
    match settings:
        case FolderSettings() if own_folder is not None:
            return own_folder_sizes.num_natural(own_folder)
        case MnistSettings():
            return _MNIST_WRITERS if settings.writers else 0
        case DigitsSettings() | FashionMnistSettings() | Cifar10Settings() | EmnistSettings():
            return 0
        case _:
            return None


def num_labels(settings: DatasetSettings) -> int | None:
    """Labels of a data set's training samples; None if only its files tell."""
    match settings:
        case DigitsSettings() | MnistSettings() | FashionMnistSettings() | Cifar10Settings():
            return _NUM_LABELS
        case EmnistSettings():
            return _EMNIST_LABELS[settings.split]
        case _:
            return None
