"""Which data sets a scenario can name, and how each is loaded.

Pixels of MNIST, Fashion-MNIST and CIFAR-10 are divided by 255 and standardised with the mean and
standard deviation of all training pixels of their channel, rounded to four digits as commonly
published: 0.1307 and 0.3081 for MNIST (pytorch/examples, mnist/main.py), 0.2860 and 0.3530 for
Fashion-MNIST, those below for CIFAR-10 (chenyaofo/pytorch-cifar-models@0b21619, README). Standard
deviations of about 0.20, which circulate too, are means over those of single images. `pixels` says
otherwise where a paper does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.formats.idx import read_idx, read_labelled
from fleetsim.learning.data.labelled_text import LabelledTextSettings, load_labelled_text
from fleetsim.learning.data.own_folder import FolderSettings, load_own_folder
from fleetsim.learning.data.published.cifar10 import Cifar10Settings, read_cifar10
from fleetsim.learning.data.published.emnist import EmnistSettings, load_emnist
from fleetsim.learning.data.published.extrasensory import ExtraSensorySettings, load_extrasensory
from fleetsim.learning.data.published.fetch import find_files
from fleetsim.learning.data.published.registry import REGISTRY, RemoteSet
from fleetsim.learning.data.published.shakespeare import ShakespeareSettings, load_shakespeare
from fleetsim.learning.data.published.wikitext import WikiText2Settings, load_wikitext2
from fleetsim.learning.data.standardisation import Pixels, from_pixels, moments_of
from fleetsim.learning.data.synthetic import SyntheticSettings, generate_user
from fleetsim.rng import stream
from fleetsim.schema.effects import ActsIf, by_key
from fleetsim.settings import Settings

_NUM_CLASSES = 10
_MNIST_MEAN, _MNIST_STD = 0.1307, 0.3081
_FASHION_MNIST_MEAN, _FASHION_MNIST_STD = 0.2860, 0.3530
_CIFAR10_MEAN, _CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Red, green, blue."""
_DIGITS_MAX = 16.0
_DIGITS_SPLIT_SEED = 0
_WRITERS_FILE = "qmnist-train-labels-idx2-int.gz"
_CLASS_COLUMN, _WRITER_COLUMN = 0, 2


class DigitsSettings(Settings):
    """1,797 real handwritten digits of 8 x 8 pixels that come with scikit-learn: no download."""

    kind: Literal["digits"] = "digits"


class MnistSettings(Settings):
    """MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels (LeCun et al. 1998)."""

    acts_if = by_key(
        writers=ActsIf(
            lambda _, facts: facts.partition == "natural",
            "only the partition natural looks at who wrote what",
            "set task.partition.kind: natural",
        ),
    )

    kind: Literal["mnist"] = "mnist"
    folder: str | None = None
    """Folder with the four published IDX files, gzipped or not; by default `$FLEETSIM_DATA` and
    then the cache that `fleetsim data fetch mnist` fills are looked in."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by the set's mean and deviation, symmetric (-1 to 1),
    unit (0 to 1) or raw (0 to 255)."""
    writers: bool = False
    """Also read who wrote each training image (QMNIST, Yadav and Bottou 2019): 539 natural clients
    for the partition `natural`."""


class FashionMnistSettings(Settings):
    """Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28 x 28 pixels (Xiao et al. 2017)."""

    kind: Literal["fashion-mnist"] = "fashion-mnist"
    folder: str | None = None
    """Folder with the four published IDX files, gzipped or not; by default `$FLEETSIM_DATA` and
    then the cache that `fleetsim data fetch fashion-mnist` fills are looked in."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by the set's mean and deviation, symmetric (-1 to 1),
    unit (0 to 1) or raw (0 to 255)."""


DatasetSettings = Annotated[
    DigitsSettings
    | MnistSettings
    | FashionMnistSettings
    | EmnistSettings
    | Cifar10Settings
    | ExtraSensorySettings
    | ShakespeareSettings
    | WikiText2Settings
    | LabelledTextSettings
    | SyntheticSettings
    | FolderSettings,
    Field(discriminator="kind"),
]


def load_dataset(
    settings: DatasetSettings,
    *,
    seed: int,
    num_clients: int,
    registry: Mapping[str, RemoteSet] = REGISTRY,
) -> Dataset:
    """The data set that a scenario names; reads local files only.

    Args:
        settings: which set.
        seed: the scenario's seed; only a synthetic set depends on it.
        num_clients: users of a synthetic set; nothing else depends on it.
        registry: the published sets that are known, by name.

    Raises:
        DataError: files are missing, broken, or not the published ones.
        ScenarioError: a key does not suit the files of a folder of one's own.
        ValueError: `num_clients` is under 1.
    """
    if num_clients < 1:
        raise ValueError(f"num_clients must be at least 1, got {num_clients}")
    match settings:
        case DigitsSettings():
            return _digits()
        case SyntheticSettings():
            return _synthetic(settings, seed=seed, num_users=num_clients)
        case MnistSettings():
            extras = (_WRITERS_FILE,) if settings.writers else ()
            files = find_files("mnist", _folder(settings.folder), extras=extras, registry=registry)
            return _images(settings, files, mean=_MNIST_MEAN, std=_MNIST_STD)
        case FashionMnistSettings():
            files = find_files("fashion-mnist", _folder(settings.folder), registry=registry)
            return _images(settings, files, mean=_FASHION_MNIST_MEAN, std=_FASHION_MNIST_STD)
        case EmnistSettings():
            return load_emnist(settings, _folder(settings.folder), registry=registry)
        case Cifar10Settings():
            return _cifar10(settings, registry)
        case ExtraSensorySettings():
            return load_extrasensory(_folder(settings.folder))
        case ShakespeareSettings():
            return load_shakespeare(settings, _folder(settings.folder), registry=registry)
        case WikiText2Settings():
            return load_wikitext2(settings, _folder(settings.folder), registry=registry)
        case LabelledTextSettings():
            return load_labelled_text(settings, _own(settings.folder))
        case FolderSettings():
            return load_own_folder(settings, _own(settings.folder))


def _folder(folder: str | None) -> Path | None:
    """A folder that the scenario names, `~` and all."""
    return None if folder is None else _own(folder)


def _own(folder: str) -> Path:
    return paths.expanded(folder, ScenarioError, key="task.dataset.folder")


def _images(
    settings: MnistSettings | FashionMnistSettings,
    files: Mapping[str, Path],
    *,
    mean: float,
    std: float,
) -> Dataset:
    """A set of gray images in the four IDX files of MNIST's layout; writers if there is a fifth."""
    train_images, train_labels = read_labelled(
        files["train-images-idx3-ubyte.gz"],
        files["train-labels-idx1-ubyte.gz"],
        num_classes=_NUM_CLASSES,
    )
    test_images, test_labels = read_labelled(
        files["t10k-images-idx3-ubyte.gz"],
        files["t10k-labels-idx1-ubyte.gz"],
        num_classes=_NUM_CLASSES,
    )
    owner = _writers(files[_WRITERS_FILE], train_labels) if _WRITERS_FILE in files else None
    means, stds = moments_of(settings.pixels, mean=(mean,), std=(std,))
    return Dataset(
        name=settings.kind,
        train_inputs=ByteImages(train_images[:, None], means, stds),
        train_labels=train_labels,
        test_inputs=from_pixels(test_images[:, None], mean=means, std=stds),
        test_labels=test_labels,
        num_classes=_NUM_CLASSES,
        owner=owner,
    )


def _cifar10(settings: Cifar10Settings, registry: Mapping[str, RemoteSet]) -> Dataset:
    train, test = read_cifar10(settings, _folder(settings.folder), registry=registry)
    mean, std = moments_of(settings.pixels, mean=_CIFAR10_MEAN, std=_CIFAR10_STD)
    return Dataset(
        name="cifar10",
        train_inputs=ByteImages(train.images, mean, std),
        train_labels=train.labels,
        test_inputs=from_pixels(test.images, mean=mean, std=std),
        test_labels=test.labels,
        num_classes=_NUM_CLASSES,
    )


def _writers(path: Path, labels: IntArray) -> IntArray:
    """Who wrote each sample [n], numbered 0.. in the order of the NIST writer ids."""
    table = read_idx(path)
    if table.ndim != 2 or table.shape[1] <= _WRITER_COLUMN or len(table) != len(labels):
        raise DataError(
            f"{path}: expected a row of QMNIST label columns for each of {len(labels)} training "
            f"images, found shape {table.shape}"
        )
    wrong = np.flatnonzero(table[:, _CLASS_COLUMN] != labels)
    if wrong.size:
        row = int(wrong[0])
        raise DataError(
            f"{path}: row {row} is of class {int(table[row, _CLASS_COLUMN])}, but training image "
            f"{row} is of class {int(labels[row])}; the files do not belong together"
        )
    return np.unique(table[:, _WRITER_COLUMN], return_inverse=True)[1].astype(np.int64)


def _digits() -> Dataset:
    """scikit-learn's digits, four fifths of each class to train on: 1,438 + 359 images.

    The split has an address of its own, without the scenario's seed: whatever is compared on
    digits is tested on the same images.
    """
    # Importing scikit-learn takes over a second, which a scenario without digits need not spend.
    from sklearn.datasets import load_digits  # noqa: PLC0415

    bunch = load_digits()
    inputs = (bunch.images[:, None] / _DIGITS_MAX).astype(np.float32)
    labels = bunch.target.astype(np.int64)
    is_test = np.zeros(len(labels), dtype=np.bool_)
    for label in range(_NUM_CLASSES):
        members = np.flatnonzero(labels == label)
        shuffled = stream(_DIGITS_SPLIT_SEED, "data/digits-split", label).permutation(members)
        is_test[shuffled[: round(len(members) / 5)]] = True
    return Dataset(
        name="digits",
        train_inputs=inputs[~is_test],
        train_labels=labels[~is_test],
        test_inputs=inputs[is_test],
        test_labels=labels[is_test],
        num_classes=_NUM_CLASSES,
    )


def _synthetic(settings: SyntheticSettings, *, seed: int, num_users: int) -> Dataset:
    """Every user's first nine tenths to train on; the rest of all users together to test on.

    The source shuffles a user's samples first; they are drawn independently, so that changes
    nothing.
    """
    # Without the users' own models, which may be far larger than their samples.
    samples = [
        (user.inputs, user.labels, 9 * len(user.labels) // 10)
        for user in (generate_user(settings, seed=seed, user=i) for i in range(num_users))
    ]
    num_train = [cut for _, _, cut in samples]
    return Dataset(
        name="synthetic",
        train_inputs=np.concatenate([inputs[:cut] for inputs, _, cut in samples]),
        train_labels=np.concatenate([labels[:cut] for _, labels, cut in samples]),
        test_inputs=np.concatenate([inputs[cut:] for inputs, _, cut in samples]),
        test_labels=np.concatenate([labels[cut:] for _, labels, cut in samples]),
        num_classes=settings.num_classes,
        owner=np.repeat(np.arange(num_users, dtype=np.int64), num_train),
    )
