"""MNIST and Fashion-MNIST: gray images in four IDX files; MNIST also with its writers.

Both sets have 60,000 training images, as their authors state; 539 writers made those of MNIST
(QMNIST). Standardisation, and the sources of checksums and moments: docs/data.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import Dataset, LabelledImages, image_dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.idx import labelled_images, read_idx
from fleetsim.learning.data.published.fetch import find_files, named_folder
from fleetsim.learning.data.remote_set import RemoteSet, remote_files
from fleetsim.learning.data.standardisation import Moments, Pixels, moments_of
from fleetsim.schema.key_conditions import ActsIf, by_key

_NUM_CLASSES = 10
_NUM_TRAINING = 60_000
_NUM_WRITERS = 539
_WRITERS_FILE = "qmnist-train-labels-idx2-int.gz"
_CLASS_COLUMN, _WRITER_COLUMN = 0, 2

_MNIST = RemoteSet(
    name="mnist",
    title="handwritten digits, 60,000 + 10,000 images of 28 x 28, with the writers of QMNIST",
    files=(
        *remote_files(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            """
train-images-idx3-ubyte.gz 9_912_422
    440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
    ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte.gz 28_881
    3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
    65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte.gz 1_648_877
    8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
    0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte.gz 4_542
    f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
    ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
""",
        ),
        *remote_files(
            ("https://raw.githubusercontent.com/facebookresearch/qmnist/master/",),
            """
qmnist-train-labels-idx2-int.gz 463_024
    2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f
    bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5
qmnist-test-labels-idx2-int.gz 526_800
    9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06
    92d0ccb8c25f9c6534270fb4be7e1d24a1c6d315edfc8a638bfbd31c70f362dd
""",
            is_extra=True,
        ),
    ),
    licence="MNIST: none stated by its distributors; QMNIST's label files: BSD-3-Clause",
    citation=(
        "LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, "
        "Proceedings of the IEEE 86(11), 1998; Yadav, Bottou: Cold case: the lost MNIST digits, "
        "NeurIPS 2019"
    ),
)

_FASHION_MNIST = RemoteSet(
    name="fashion-mnist",
    title="pictures of clothes, 60,000 + 10,000 images of 28 x 28",
    files=remote_files(
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        """
train-images-idx3-ubyte.gz 26_421_880
    3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84
    c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888
train-labels-idx1-ubyte.gz 29_515
    a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845
    bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9
t10k-images-idx3-ubyte.gz 4_422_102
    346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073
    5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b
t10k-labels-idx1-ubyte.gz 5_148
    67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5
    0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34
""",
    ),
    licence="MIT",
    citation=(
        "Xiao, Rasul, Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking machine "
        "learning algorithms, arXiv:1708.07747, 2017"
    ),
)


class MnistSettings(DatasetKind):
    """MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels (LeCun et al. 1998)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (_MNIST,)
    training_samples: ClassVar[int | None] = _NUM_TRAINING
    labels: ClassVar[int | None] = _NUM_CLASSES
    acts_if = by_key(
        writers=ActsIf(
            lambda _, facts: facts.partition == "natural",
            "only the partition natural uses the writers",
            "set task.partition.kind: natural",
        )
    )

    kind: Literal["mnist"] = "mnist"
    folder: str | None = None
    """Folder with the four published IDX files, gzipped or not; by default `$FLEETSIM_DATA` and
    then the cache that `fleetsim data fetch mnist` fills."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by the set's mean and deviation, symmetric (-1 to 1),
    unit (0 to 1) or raw (0 to 255)."""
    writers: bool = False
    """Also read the writer of each training image (QMNIST, Yadav and Bottou 2019): 539 natural
    clients for the partition `natural`."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the images, with their writers as natural clients if `writers`."""
        return _load(self, ((0.1307,), (0.3081,)), has_writers=self.writers)

    def num_natural(self, user_folder: Path | None = None) -> int:
        """Return the number of writers."""
        return _NUM_WRITERS if self.writers else 0

    def without_clients(self, user_folder: Path | None = None) -> str:
        """Return the error message for the partition `natural` without writers."""
        return "needs task.dataset.writers: true; set that, or choose another partition"


class FashionMnistSettings(DatasetKind):
    """Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28 x 28 pixels (Xiao et al. 2017)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (_FASHION_MNIST,)
    training_samples: ClassVar[int | None] = _NUM_TRAINING
    natural_clients: ClassVar[int | None] = 0
    labels: ClassVar[int | None] = _NUM_CLASSES

    kind: Literal["fashion-mnist"] = "fashion-mnist"
    folder: str | None = None
    """Folder with the four published IDX files, gzipped or not; by default `$FLEETSIM_DATA` and
    then the cache that `fleetsim data fetch fashion-mnist` fills."""
    pixels: Pixels = "standardised"
    """Numbers that bytes become: standardised by the set's mean and deviation, symmetric (-1 to 1),
    unit (0 to 1) or raw (0 to 255)."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the images."""
        return _load(self, ((0.2860,), (0.3530,)))


def _load(
    settings: MnistSettings | FashionMnistSettings, published: Moments, *, has_writers: bool = False
) -> Dataset:
    """Return a set from its four IDX files; moments are those of all training pixels."""
    extras = (_WRITERS_FILE,) if has_writers else ()
    files = find_files(settings.published[0], named_folder(settings.folder), extras=extras)
    train, test = _part(files, "train"), _part(files, "t10k")
    return image_dataset(
        settings.kind,
        train,
        test,
        moments=moments_of(settings.pixels, published),
        num_classes=_NUM_CLASSES,
        owner=_writers(files[_WRITERS_FILE], train.labels) if has_writers else None,
    )


def _part(files: Mapping[str, Path], part: str) -> LabelledImages:
    images, labels = files[f"{part}-images-idx3-ubyte.gz"], files[f"{part}-labels-idx1-ubyte.gz"]
    return labelled_images(
        read_idx(images),
        read_idx(labels),
        images_path=str(images),
        labels_path=str(labels),
        num_classes=_NUM_CLASSES,
    )


def _writers(path: Path, labels: IntArray) -> IntArray:
    """Return the writer of each sample [n], numbered from 0 in the order of the NIST writer ids."""
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
