"""Content of a loaded data set as a digest, which tells data sets apart that have one name."""

import hashlib
from typing import Any

import numpy as np

from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.dataset import Dataset


def content_sha256(dataset: Dataset) -> str:
    """Return the SHA-256 of everything in a data set that training depends on, not of its name."""
    digest = hashlib.sha256()
    train, accessed = dataset.train_inputs, dataset.accessed
    parts: list[Any] = [dataset.num_classes, dataset.vocabulary_size]
    if accessed is not None:
        parts += ["made at each access", accessed.sha256, accessed.items]
    elif isinstance(train, ByteImages):
        parts += [train.mean, train.std, train.pixels]
    else:
        parts.append(train)
    parts += [dataset.train_labels, dataset.test_inputs, dataset.test_labels, dataset.owner]
    parts.append(dataset.owner_names)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            digest.update(f"{part!r};".encode())
    return digest.hexdigest()
