"""Numbers of samples and clients of a data set of one's own, without reading its samples.

What the files announce in their headers is believed; `load_own_folder` checks it against the rest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.learning.data.formats.idx import idx_shape, read_idx
from fleetsim.learning.data.formats.npz import npz_shape, read_npz
from fleetsim.learning.data.own_folder_files import TEST_STEMS, TRAIN_STEM, part_files


def num_training(folder: Path, test_fraction: float | None) -> int | None:
    """Training samples of the data set in a folder.

    Where a test part is drawn from each client's samples, the array `client` is read, within the
    limit of `fleetsim.host.unpacking`; else only headers are.

    Args:
        folder: folder with the files.
        test_fraction: share of each client's samples that becomes the test part; None: the files
            hold one.

    Returns:
        Their number; None if it cannot be told from these files, of which `load_own_folder` says
        what is wrong.

    Raises:
        DataError: a file is damaged, or larger than is read.
    """
    num_samples = _num_labels(folder)
    has_test_part = any(part_files(folder, stem) for stem in TEST_STEMS)
    if num_samples is None or test_fraction is None or has_test_part:
        return num_samples
    owned = _client_sizes(folder)
    sizes = [num_samples] if owned is None else owned.tolist()
    if sum(sizes) != num_samples:
        return None
    return num_samples - sum(floor_product(test_fraction, size) for size in sizes)


def num_natural(folder: Path) -> int | None:
    """Clients of its own that the data set in a folder has.

    A test part drawn from each client's samples leaves every client one at least.

    Returns:
        Their number, 0 if the files name none; None if there are no files.

    Raises:
        DataError: as `num_training`.
    """
    if _num_labels(folder) is None:
        return None
    owned = _client_sizes(folder)
    return 0 if owned is None else owned.size


def _num_labels(folder: Path) -> int | None:
    """Length of the array of labels, which has one for each sample."""
    path = part_files(folder, TRAIN_STEM).get("labels")
    if path is None:
        return None
    shape = npz_shape(path, "labels") if path.suffix == ".npz" else idx_shape(path)
    return shape[0] if shape and shape[0] else None


def _client_sizes(folder: Path) -> IntArray | None:
    """Samples of each client [clients]; None if the files name no clients."""
    path = part_files(folder, TRAIN_STEM).get("client")
    if path is None:
        return None
    found = read_npz(path, ("client",)) if path.suffix == ".npz" else {"client": read_idx(path)}
    if "client" not in found:
        return None
    return np.unique(found["client"], return_counts=True)[1]
