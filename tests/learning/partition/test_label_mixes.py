"""Mixes of labels by client, and clients of few labels, as in FedGRA's section VI-C."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.learning.partition.dirichlet import (
    ClientDirichletSettings,
    least_sizes,
    nearest_sizes,
)
from fleetsim.learning.partition.plain import OneClassSettings, PartlyIidSettings
from fleetsim.rng import stream
from tests.learning.partition.splitting import balanced, histograms, parts


def test_sizes_by_hand() -> None:
    """Without x >= 0 the least |x| for mixes (1, 0), (0, 1) and (0.9, 0.1) to make (0.1, 0.9) has
    x3 = t with (0.1 - 0.9 t) 0.9 + (0.9 - 0.1 t) 0.1 = t, so t = 0.18/1.82 and x1 = 0.01 > 0; to
    make (0.02, 0.98) t = 0.116/1.82 = 0.064 and x1 = -0.037. Then x1 = 0 and x3 = 0.02/0.9. Of two
    clients with label 0 alone, of which there is half, the nearest are x1 + x2 = 0.5, alike."""
    mixes = np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.1]])

    free = least_sizes(mixes, np.array([0.1, 0.9]))
    bound = least_sizes(mixes, np.array([0.02, 0.98]))
    nearest = nearest_sizes(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.5, 0.5]))

    t = 0.18 / 1.82
    assert free == pytest.approx([0.1 - 0.9 * t, 0.9 - 0.1 * t, t], abs=1e-12)
    assert bound == pytest.approx([0.0, 0.98 - 0.002 / 0.9, 0.02 / 0.9], abs=1e-12)
    assert nearest == pytest.approx([0.25, 0.25], rel=1e-5)


@pytest.mark.slow
@hypothesis.settings(max_examples=40)  # two linear programmes each
@given(
    seed=st.integers(0, 10_000),
    concentration=st.sampled_from([0.01, 0.2, 1.0, 30.0]),
    num_clients=st.integers(1, 60),
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=12),
)
def test_sizes_satisfy_the_conditions_of_the_optimum_or_there_are_none(
    seed, concentration, num_clients, weights
):
    """x is best iff x . y >= x . x for every y >= 0 with Q y = d. Whether there is any such y, a
    linear programme says, unless it is close: the mass that it misses at best is small but not
    none."""
    label_shares = np.array(weights) / sum(weights)
    draws = stream(seed, "test/mixes")
    mixes = draws.dirichlet(concentration * label_shares, size=num_clients).T

    result = least_sizes(mixes, label_shares)

    missed = missed_mass(mixes, label_shares)
    if result is None:
        assert missed > 1e-13
        return
    assert missed < 1e-7
    assert np.abs(mixes @ result - label_shares).max() < 1e-10
    assert result.min() >= 0
    lowest = linprog(result, A_eq=mixes, b_eq=mixes @ result)
    assert lowest.status == 0
    assert lowest.fun > result @ result - 1e-7


def missed_mass(mixes: FloatArray, label_shares: FloatArray) -> float:
    """The least sum of |Q x - d| over x >= 0."""
    num_labels, num_clients = mixes.shape
    eye = np.eye(num_labels)
    cost = np.concatenate([np.zeros(num_clients), np.ones(2 * num_labels)])
    solved = linprog(cost, A_eq=np.hstack([mixes, eye, -eye]), b_eq=label_shares)
    assert solved.status == 0
    return float(solved.fun)


def test_mixes_have_the_mean_and_variance_of_their_dirichlet_distribution() -> None:
    """q_l ~ Beta(z p_l, z (1 - p_l)): mean p_l, variance p_l (1 - p_l) / (z + 1). The samples show
    the mixes but for rounding, of under one sample in the label and some of those left over."""
    concentration, num_clients = 0.2, 100
    labels = balanced(10, 2000)
    settings = ClientDirichletSettings(concentration=concentration)

    shares = []
    for seed in range(20):
        result = histograms(parts(settings, labels, num_clients, seed=seed), labels)
        shares.append(result / result.sum(axis=1, keepdims=True))
    share = np.concatenate(shares)

    variance = 0.1 * 0.9 / (concentration + 1)
    per_client = ((share - 0.1) ** 2).mean(axis=1)
    error = per_client.std() / math.sqrt(len(per_client))
    assert abs(per_client.mean() - variance) < 5 * error + 0.002
    assert np.all(abs(share.mean(axis=0) - 0.1) < 5 * math.sqrt(variance / len(share)))


def test_the_nearest_sizes_assign_samples_left_over_at_random() -> None:
    """Three clients of about one label each cannot hold ten: seven go to all of them alike."""
    labels = balanced(10, 300)
    settings = ClientDirichletSettings(concentration=0.001)

    assert settings.when_infeasible == "nearest"
    result = histograms(parts(settings, labels, 3), labels)

    main_label = result.argmax(axis=1)
    assert (result[np.arange(3), main_label] >= 299).all()
    others = np.delete(result, main_label, axis=1)
    assert np.abs(others - 100).max() < 5 * math.sqrt(300 * 2 / 9)


def test_nobody_gets_more_of_a_label_than_there_is() -> None:
    """The nearest sizes may ask for more of a label than exists; then its askers share it."""
    labels = np.repeat(np.arange(3), [90, 5, 5])
    settings = ClientDirichletSettings(concentration=1.0)
    for seed in range(12):
        result = histograms(parts(settings, labels, 4, seed=seed), labels)

        assert result.sum(axis=0).tolist() == [90, 5, 5]


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
    assert (result[0], result[1]) == ([1185] * 4 + [1183], [1349] * 4 + [1346])
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

    assert abs(np.log(sizes).std(ddof=1) - 0.5) < 5 * 0.5 / math.sqrt(2 * 1999)
