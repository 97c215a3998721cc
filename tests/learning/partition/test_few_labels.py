"""Clients of one label each, as in FedGRA's section VI-C, and i.i.d. clients among others."""

import math

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.learning.partition.one_class import OneClassSettings
from fleetsim.learning.partition.partly_iid import PartlyIidSettings
from tests.learning.partition.splitting import balanced, parts

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
"""Images of each digit in MNIST's training part; the paper gives the first."""


def slices(result: tuple[IntArray, ...], labels: IntArray) -> dict[int, list[int]]:
    """Sizes of each label's slices, the largest first; every client has one label."""
    sizes: dict[int, list[int]] = {}
    for part in result:
        (label,) = set(labels[part].tolist())
        sizes.setdefault(label, []).append(len(part))
    return {label: sorted(some, reverse=True) for label, some in sizes.items()}


def test_fifty_clients_share_mnist_as_in_the_paper() -> None:
    labels = np.repeat(np.arange(10), MNIST_TRAIN)

    result = slices(parts(OneClassSettings(), labels, 50), labels)

    # 5,923 = 4 * 1,185 + 1,183; 6,742 = 4 * 1,349 + 1,346; 5,421 = 4 * 1,085 + 1,081.
    assert result[0] == [1185] * 4 + [1183]
    assert result[1] == [1349] * 4 + [1346]
    assert result[5] == [1085] * 4 + [1081]
    assert all(len(some) == 5 and len(set(some[:4])) == 1 for some in result.values())


def test_clients_beyond_a_multiple_of_the_labels_go_to_the_first() -> None:
    """Eight clients on three labels: 3, 3 and 2. Ten samples are 4 + 4 + 2, or 5 + 5."""
    labels = np.tile([4, 6, 9], 10)

    result = slices(parts(OneClassSettings(), labels, 8), labels)

    assert result == {4: [4, 4, 2], 6: [4, 4, 2], 9: [5, 5]}


def test_eight_samples_of_two_labels_by_hand() -> None:
    """Client 0 takes two at random; the other six, sorted by label, are cut into three pairs."""
    labels = np.array([0, 1] * 4)

    for seed in range(20):
        first, *others = parts(PartlyIidSettings(num_iid=1), labels, 4, seed=seed)

        zeros = 4 - int((labels[first] == 0).sum())
        left = [0] * zeros + [1] * (6 - zeros)
        result = sorted(sorted(labels[part].tolist()) for part in others)
        assert result == [left[:2], left[2:4], left[4:]]


def test_the_first_clients_have_the_mix_of_all_and_the_others_few_labels() -> None:
    """Five times 500 at random leave 750 or so of a label: runs of 500 see two at most."""
    labels = balanced(10, 1000)
    settings = PartlyIidSettings(num_iid=5)

    result = parts(settings, labels, 20)

    for part in result[:5]:
        counts = np.bincount(labels[part], minlength=10)
        # Hypergeometric: mean 50, variance 500 * .1 * .9 * (9,500 / 9,999).
        assert np.abs(counts - 50).max() < 5 * math.sqrt(42.8)
    assert all(len(set(labels[part])) <= 2 for part in result[5:])
    assert {len(part) for part in result} == {500}


def test_the_logarithms_of_sizes_have_the_spread_that_was_asked_for() -> None:
    labels = np.zeros(400_000, dtype=np.int64)
    settings = PartlyIidSettings(num_iid=2000, size_sigma=0.5)

    sizes = np.array([len(part) for part in parts(settings, labels, 2000)])

    spread = np.log(sizes).std(ddof=1)
    assert abs(spread - 0.5) < 5 * 0.5 / math.sqrt(2 * 1999)
