"""Numbers of samples and clients of the user's own data set, without reading its samples.

They are those that the headers of the files announce; loading checks them.
"""

from pathlib import Path

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.counts import floor_product
from fleetsim.learning.data.folder.files import TEST_STEMS, TRAIN_STEM, part_files
from fleetsim.learning.data.formats.idx import idx_shape, read_idx
from fleetsim.learning.data.formats.npz import npz_shape, read_npz


def num_training(folder: Path, test_fraction: float | None) -> int | None:
    """Return the number of training samples of the data set in a folder.

    Where a test part is drawn from each client's samples, the array `client` is read, within the
    limit of `fleetsim.host.unpacking`; else only headers are.

    Args:
        folder: folder with the files.
        test_fraction: share of each client's samples that becomes the test part; None: the files
            hold one.

    Returns:
        Their number; None if the files do not give it, so that loading refuses them.
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
    """Return the number of natural clients of the data set in a folder.

    A test part drawn from each client's samples leaves every client at least one.

    Returns:
        Their number, 0 if the files name none; None if there are no files.
    """
    if _num_labels(folder) is None:
        return None
    owned = _client_sizes(folder)
    return 0 if owned is None else owned.size


def _num_labels(folder: Path) -> int | None:
    """Return the length of the array of labels, which has one for each sample."""
    path = part_files(folder, TRAIN_STEM).get("labels")
    if path is None:
        return None
    shape = npz_shape(path, "labels") if path.suffix == ".npz" else idx_shape(path)
    return shape[0] if shape and shape[0] else None


def _client_sizes(folder: Path) -> IntArray | None:
    """Return the samples of each client [clients]; None if the files name no clients."""
    path = part_files(folder, TRAIN_STEM).get("client")
    if path is None:
        return None
    found = read_npz(path, ("client",)) if path.suffix == ".npz" else {"client": read_idx(path)}
    if "client" not in found:
        return None
    return np.unique(found["client"], return_counts=True)[1]
