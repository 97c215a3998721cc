"""Handwritten digits that come with scikit-learn."""

import functools
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.rng import stream

_NUM_CLASSES = 10
_PIXEL_MAX = 16.0
_TEST_DIVISOR = 5
_SPLIT_SEED = 0


class DigitsSettings(DatasetKind):
    """1,797 real handwritten digits of 8 x 8 pixels that come with scikit-learn: no download."""

    imports_library: ClassVar[bool] = True
    training_samples: ClassVar[int | None] = 1_438
    natural_clients: ClassVar[int | None] = 0
    labels: ClassVar[int | None] = _NUM_CLASSES

    kind: Literal["digits"] = "digits"

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return four fifths of each class to train on, the others to test: 1,438 + 359 images.

        The split has an address without the scenario's seed, so that all runs on digits test on
        the same images.
        """
        inputs, labels = _digits()
        is_test = np.zeros(len(labels), dtype=np.bool_)
        for label in range(_NUM_CLASSES):
            members = np.flatnonzero(labels == label)
            shuffled = stream(_SPLIT_SEED, "data/digits-split", label).permutation(members)
            is_test[shuffled[: round(len(members) / _TEST_DIVISOR)]] = True
        return Dataset(
            name=self.kind,
            train_inputs=inputs[~is_test],
            train_labels=labels[~is_test],
            test_inputs=inputs[is_test],
            test_labels=labels[is_test],
            num_classes=_NUM_CLASSES,
        )


@functools.cache
def _digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return all images [1797, 1, 8, 8] and their labels, read once for the runs of a process."""
    # Importing scikit-learn takes over a second, and only this data set needs it.
    from sklearn.datasets import load_digits  # noqa: PLC0415

    bunch = load_digits()
    inputs = (bunch.images[:, None] / _PIXEL_MAX).astype(np.float32)
    return inputs, bunch.target.astype(np.int64)
