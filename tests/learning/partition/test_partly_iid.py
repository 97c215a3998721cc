"""I.i.d. clients among others: who holds what, and how much."""

import math

import numpy as np

from fleetsim.learning.partition.partly_iid import PartlyIidSettings
from tests.learning.partition.splitting import balanced, parts


def test_eight_samples_of_two_labels_by_hand() -> None:
    """Client 0 takes two at random; the other six, sorted by label, are cut into three pairs."""
    labels = np.array([0, 1] * 4)

    for seed in range(20):
        first, *others = parts(PartlyIidSettings(num_iid=1), labels, 4, seed=seed)

        zeros = 4 - int((labels[first] == 0).sum())
        left = [0] * zeros + [1] * (6 - zeros)
        found = sorted(sorted(labels[part].tolist()) for part in others)
        assert found == [left[:2], left[2:4], left[4:]]


def test_the_first_clients_have_the_mix_of_all_and_the_others_few_labels() -> None:
    """Five times 500 at random leave 750 or so of a label: runs of 500 see two at most."""
    labels = balanced(10, 1000)
    settings = PartlyIidSettings(num_iid=5)

    found = parts(settings, labels, 20)

    for part in found[:5]:
        counts = np.bincount(labels[part], minlength=10)
        # Hypergeometric: mean 50, variance 500 * .1 * .9 * (9,500 / 9,999).
        assert np.abs(counts - 50).max() < 5 * math.sqrt(42.8)
    assert all(len(set(labels[part])) <= 2 for part in found[5:])
    assert {len(part) for part in found} == {500}


def test_the_logarithms_of_sizes_have_the_spread_that_was_asked_for() -> None:
    labels = np.zeros(400_000, dtype=np.int64)
    settings = PartlyIidSettings(num_iid=2000, size_sigma=0.5)

    sizes = np.array([len(part) for part in parts(settings, labels, 2000)])

    spread = np.log(sizes).std(ddof=1)
    assert abs(spread - 0.5) < 5 * 0.5 / math.sqrt(2 * 1999)
