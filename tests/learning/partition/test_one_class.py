"""One label per client: the slices of FedGRA's section VI-C."""

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.learning.partition.one_class import OneClassSettings
from tests.learning.partition.splitting import parts

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
"""Images of each digit in MNIST's training part; the paper gives the first."""


def slices(found: tuple[IntArray, ...], labels: IntArray) -> dict[int, list[int]]:
    """Sizes of each label's slices, the largest first; every client has one label."""
    sizes: dict[int, list[int]] = {}
    for part in found:
        (label,) = set(labels[part].tolist())
        sizes.setdefault(label, []).append(len(part))
    return {label: sorted(some, reverse=True) for label, some in sizes.items()}


def test_fifty_clients_share_mnist_as_in_the_paper() -> None:
    labels = np.repeat(np.arange(10), MNIST_TRAIN)

    found = slices(parts(OneClassSettings(), labels, 50), labels)

    # 5,923 = 4 * 1,185 + 1,183; 6,742 = 4 * 1,349 + 1,346; 5,421 = 4 * 1,085 + 1,081.
    assert found[0] == [1185] * 4 + [1183]
    assert found[1] == [1349] * 4 + [1346]
    assert found[5] == [1085] * 4 + [1081]
    assert all(len(some) == 5 and len(set(some[:4])) == 1 for some in found.values())


def test_clients_beyond_a_multiple_of_the_labels_go_to_the_first() -> None:
    """Eight clients on three labels: 3, 3 and 2. Ten samples are 4 + 4 + 2, or 5 + 5."""
    labels = np.tile([4, 6, 9], 10)

    found = slices(parts(OneClassSettings(), labels, 8), labels)

    assert found == {4: [4, 4, 2], 6: [4, 4, 2], 9: [5, 5]}
