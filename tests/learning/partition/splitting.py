"""Splits of small sets of labels, for tests of every partition."""

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.learning.partition.client_samples import PartitionSettings, split

Labels = Sequence[int] | IntArray


def parts(
    settings: PartitionSettings,
    labels: Labels,
    num_clients: int,
    *,
    seed: int = 1,
    owner: Labels | None = None,
) -> tuple[IntArray, ...]:
    owned = None if owner is None else np.asarray(owner, dtype=np.int64)
    known = np.asarray(labels, dtype=np.int64)
    return split(settings, labels=known, owner=owned, num_clients=num_clients, seed=seed)


def balanced(num_labels: int, per_label: int) -> IntArray:
    """Labels 0, 1, .., 0, 1, ..: every label as often."""
    return np.tile(np.arange(num_labels), per_label)


def mixed(num_labels: int, num_samples: int) -> IntArray:
    """Labels in no order, each about as often."""
    return (np.arange(num_samples) * 7919) % 101 % num_labels


def histograms(clients: Sequence[IntArray], labels: IntArray) -> IntArray:
    """Samples of each label at each client [N, labels]."""
    return np.array([np.bincount(labels[part], minlength=labels.max() + 1) for part in clients])
