import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.client_samples import PartitionSettings
from fleetsim.learning.partition.dirichlet import (
    ClientDirichletSettings,
    DirichletSettings,
    _top_up,
)
from fleetsim.learning.partition.plain import (
    IidSettings,
    NaturalSettings,
    OneClassSettings,
    PartlyIidSettings,
    ShardsSettings,
)
from fleetsim.rng import stream
from tests.learning.partition.splitting import balanced, histograms, mixed, parts

few, shares = st.integers(1, 3), st.floats(0.5, 50.0)
topped: Any = {"alpha": st.floats(0.001, 0.1), "min_samples": st.integers(1, 20)}
any_partition = st.one_of(
    *map(st.just, (IidSettings(), OneClassSettings(), NaturalSettings())),
    st.builds(DirichletSettings, alpha=shares, min_samples=few),
    st.builds(DirichletSettings, **topped, when_short=st.just("top-up")),
    st.builds(ShardsSettings, shards_per_client=st.integers(1, 4)),
    st.builds(ClientDirichletSettings, concentration=shares, when_infeasible=st.just("nearest")),
    st.builds(PartlyIidSettings, num_iid=few, runs_per_client=few, size_sigma=st.floats(0.0, 0.5)),
)


@given(
    any_partition, st.integers(1, 8), st.integers(1, 5), st.integers(200, 260), st.integers(0, 1000)
)
def test_parts_are_sorted_disjoint_and_complete(
    settings, num_clients, num_labels, num_samples, seed
):
    if isinstance(settings, OneClassSettings):
        num_labels = min(num_labels, num_clients)
    if isinstance(settings, PartlyIidSettings):
        num_clients = max(num_clients, settings.num_iid)
    owner = np.arange(num_samples) * 31 % num_clients

    result = parts(settings, mixed(num_labels, num_samples), num_clients, seed=seed, owner=owner)

    together = np.concatenate(result)
    assert len(result) == num_clients
    assert all(part.dtype == np.int64 and len(part) > 0 for part in result)
    assert all(np.all(np.diff(part) > 0) for part in result)
    assert len(np.unique(together)) == len(together)
    left_out = 0
    if isinstance(settings, ShardsSettings):
        left_out = num_samples % (num_clients * settings.shards_per_client)
    assert len(together) == num_samples - left_out
    if isinstance(settings, IidSettings):
        assert np.ptp([len(part) for part in result]) <= 1


@pytest.mark.parametrize(
    "settings",
    [
        IidSettings(),
        DirichletSettings(alpha=1.0),
        DirichletSettings(alpha=0.01, min_samples=20, when_short="top-up"),
        ShardsSettings(),
        ShardsSettings(single_label=True),
        ClientDirichletSettings(concentration=20.0, when_infeasible="nearest"),
        OneClassSettings(),
        PartlyIidSettings(num_iid=3, size_sigma=0.3),
    ],
)
def test_a_split_depends_on_the_seed_and_on_nothing_else(settings: PartitionSettings) -> None:
    labels = balanced(10, 40)

    once, again, other = (parts(settings, labels, 10, seed=seed) for seed in (1, 1, 2))

    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(once, other, strict=True))


ALIKE: list[Any] = [
    # One of three clients has the sample.
    (IidSettings(), balanced(2, 6), 3, slice(1), 1 / 3),
    (ShardsSettings(shards_per_client=2), balanced(3, 4), 3, slice(1), 1 / 3),
    # Eight shards of one sample are made, and seven are used.
    (ShardsSettings(shards_per_client=1, single_label=True), [0] * 5 + [1] * 3, 7, slice(7), 7 / 8),
    # Two of six clients have a label, and each of them half of its samples.
    (OneClassSettings(), np.tile(np.arange(3), 4), 6, slice(1), 1 / 6),
    # Three of twelve owners are drawn.
    (NaturalSettings(), [0] * 12, 3, slice(3), 1 / 4),
]


@pytest.mark.parametrize(("settings", "labels", "num_clients", "of", "chance"), ALIKE)
def test_every_sample_goes_to_every_client_alike(settings, labels, num_clients, of, chance):
    num_seeds, owner = 600, np.arange(len(labels))
    drawn = [
        np.concatenate(parts(settings, labels, num_clients, seed=seed, owner=owner)[of])
        for seed in range(num_seeds)
    ]

    counts = np.bincount(np.concatenate(drawn), minlength=len(labels))
    bound = 5 * math.sqrt(num_seeds * chance * (1 - chance))
    assert np.all(np.abs(counts - num_seeds * chance) < bound)


@pytest.mark.parametrize(
    ("settings", "num_clients"),
    [(DirichletSettings(alpha=1e6), 2), (OneClassSettings(), 2), (PartlyIidSettings(num_iid=1), 3)],
)
def test_samples_of_a_label_are_assigned_in_random_order(settings, num_clients):
    part = parts(settings, np.zeros(1000, dtype=np.int64), num_clients)[1]

    # m of 0..999 at random: the sum's mean is 499.5 m, its variance m (n - m)(n + 1) / 12.
    m = len(part)
    assert abs(part.sum() - 499.5 * m) < 5 * math.sqrt(m * (1000 - m) * 1001 / 12)
    assert np.any(np.diff(part) > 1)


def test_a_shard_may_straddle_two_labels_unless_they_are_to_be_single() -> None:
    mixed_up = parts(ShardsSettings(shards_per_client=1), [0, 1, 1, 1, 0, 1, 1, 1], 2)
    # Labels of 5 and 3 samples: three shards need size 2, and there are 2 + 1 of them.
    single = ShardsSettings(shards_per_client=1, single_label=True)
    pure = parts(single, [0] * 5 + [1] * 3, 3)
    # Of five samples of label 2 (0, 3, 6, 9, 12) the last, the 13th in the order, is nobody's.
    used = np.concatenate(parts(ShardsSettings(shards_per_client=2), [2, *balanced(3, 4)], 3))

    assert sorted(part.tolist() for part in mixed_up) == [[0, 1, 2, 4], [3, 5, 6, 7]]
    assert sorted(part.tolist() for part in pure) == [[0, 1], [2, 3], [5, 6]]
    assert sorted(used.tolist()) == list(range(12))


@given(
    st.integers(1, 8),
    st.integers(1, 3),
    st.lists(st.integers(1, 60), min_size=1, max_size=6),
    st.integers(0, 100),
)
def test_shards_of_a_single_label_are_the_largest_that_suffice(
    num_clients, shards_per_client, label_sizes, seed
):
    num_shards = num_clients * shards_per_client
    ordered = np.repeat(np.arange(len(label_sizes)), label_sizes)
    labels = stream(seed, "test/labels").permutation(ordered)
    if num_shards > len(labels):
        return
    settings = ShardsSettings(shards_per_client=shards_per_client, single_label=True)

    result = parts(settings, labels, num_clients, seed=seed)

    sizes = {len(part) for part in result}
    size = sizes.pop() // shards_per_client
    assert not sizes
    assert sum(n // size for n in label_sizes) >= num_shards
    assert sum(n // (size + 1) for n in label_sizes) < num_shards
    assert all((np.bincount(labels[part]) % size == 0).all() for part in result)
    together = np.concatenate(result)
    assert len(np.unique(together)) == len(together)


def test_balanced_labels_have_the_same_shards_either_way() -> None:
    """GPFL's: 60,000 samples of ten labels make 100 shards of 600 or 200 of 300."""
    labels = balanced(10, 600)

    for per_client in (1, 2):
        chosen = (
            ShardsSettings(shards_per_client=per_client, single_label=s) for s in (False, True)
        )
        plain, single = (parts(settings, labels, 100) for settings in chosen)

        assert all(np.array_equal(a, b) for a, b in zip(plain, single, strict=True))
        assert max(len(set(labels[part])) for part in plain) == per_client


@pytest.mark.parametrize(
    ("settings", "num_clients"),
    [
        (DirichletSettings(alpha=0.3, min_samples=1), 4),
        (ClientDirichletSettings(concentration=5.0, min_samples=1), 5),
    ],
)
def test_a_split_is_drawn_again_until_all_clients_have_enough(settings, num_clients):
    labels = balanced(2, 100)

    def fewest(min_samples: int) -> int:
        chosen = settings.model_copy(update={"min_samples": min_samples})
        drawn = (parts(chosen, labels, num_clients, seed=seed) for seed in range(8))
        return min(len(part) for each in drawn for part in each)

    assert fewest(1) < 20 <= fewest(20)


def test_the_mean_and_variance_of_a_label_at_a_client_are_those_of_its_law() -> None:
    """p_l ~ Dir_N(alpha), whole: E = n_l / N, Var = n_l^2 (1/N)(1 - 1/N) / (N alpha + 1)."""
    labels = balanced(10, 400)
    num_clients, alpha, num_seeds = 20, 0.1, 40
    settings = DirichletSettings(alpha=alpha, min_samples=1, when_short="top-up")

    drawn = (parts(settings, labels, num_clients, seed=seed) for seed in range(num_seeds))
    counts = np.array([histograms(each, labels) for each in drawn])

    # Labels are independent; clients of one label are not, so errors come from 400 label draws.
    share = counts / 400
    variance = (1 / num_clients) * (1 - 1 / num_clients) / (num_clients * alpha + 1)
    result = ((share - 1 / num_clients) ** 2).mean(axis=1)
    assert abs(result.mean() - variance) < 5 * result.std() / math.sqrt(result.size)
    assert np.all(abs(share.mean(axis=(0, 2)) - 0.05) < 5 * math.sqrt(variance / 400))


def test_a_tiny_alpha_gives_a_label_to_one_client_and_a_huge_one_gives_all_the_shares_of_all():
    """p_l ~ Dir_N(a). Tiny: E[1 - max p] <= E[1 - sum p^2] = (N - 1) a / (N a + 1), so by Markov
    more than a tenth of a label leaves its client with a chance below 10 (N - 1) a = 3e-5; drawn
    until each of 4 clients has ten samples, each has one of 4 labels. Huge: a share is
    Beta(a, (N - 1) a) of deviation sqrt((N - 1) / (N a + 1)) / N, and rounding moves it by less
    than a sample."""
    labels, sizes = balanced(4, 100), np.array([500, 300, 200])
    alone = histograms(parts(DirichletSettings(alpha=1e-6), labels, 4), labels)
    assert (alone.max(axis=1) >= 90).all()
    assert sorted(alone.argmax(axis=1)) == [0, 1, 2, 3]

    labels = np.repeat(np.arange(3), sizes)
    alike = histograms(parts(DirichletSettings(alpha=1e6), labels, 10), labels)
    deviation = math.sqrt(9 / (10 * 1e6 + 1)) / 10
    assert (np.abs(alike - sizes / 10) < 1 + 5 * deviation * sizes).all()


def test_nobody_is_left_with_nothing_where_alpha_is_tiny() -> None:
    """FedGCS's MNIST: alpha 0.01 over 100 clients, of whom most get nothing at first."""
    labels = balanced(10, 300)
    settings = DirichletSettings(alpha=0.01, min_samples=10, when_short="top-up")

    sizes = np.array([len(part) for part in parts(settings, labels, 100)])

    assert sizes.min() == 10
    assert np.count_nonzero(sizes == 10) > 50
    assert sizes.sum() == 3000


@pytest.mark.parametrize(
    ("sizes", "topped"),
    [
        # Client 2 takes 2 of client 0 (9 > 5), client 3 takes 3 of client 0 (7 > 5).
        ([9, 5, 1, 0], [4, 5, 3, 3]),
        # Client 0 has 2 beyond the least and gives them, then client 1 has most.
        ([5, 5, 0], [3, 4, 3]),
    ],
)
def test_topping_up_takes_of_the_client_that_has_most_and_leaves_it_the_least(sizes, topped):
    client_of = np.repeat(np.arange(len(sizes)), sizes)

    _top_up(client_of, len(sizes), 3, seed=1)

    assert np.bincount(client_of).tolist() == topped


def test_topping_up_changes_nothing_where_all_clients_have_enough() -> None:
    labels = balanced(5, 200)

    drawn, topped = (
        parts(DirichletSettings(alpha=5.0, min_samples=5, when_short=when), labels, 4)
        for when in ("redraw", "top-up")
    )

    assert all(np.array_equal(a, b) for a, b in zip(drawn, topped, strict=True))


@given(num_clients=st.integers(1, 12), seed=st.integers(0, 1000))
def test_a_smaller_fleet_is_whole_owners_in_ascending_order(num_clients: int, seed: int) -> None:
    owner = np.arange(60) * 7 % 12

    result = parts(NaturalSettings(), [0] * 60, num_clients, seed=seed, owner=owner)

    drawn = [set(owner[part].tolist()) for part in result]
    assert all(len(one) == 1 and len(part) == 5 for one, part in zip(drawn, result, strict=True))
    numbers = [one.pop() for one in drawn]
    assert numbers == sorted(set(numbers))


INFEASIBLE = ClientDirichletSettings(concentration=0.05, when_infeasible="refuse")
PARTLY = PartlyIidSettings(num_iid=1, runs_per_client=3)
REFUSED: list[Any] = [
    (IidSettings(), [5], 6, "fleet.size: 6 clients .* 5 training samples"),
    (DirichletSettings(alpha=1.0), [99], 10, "min_samples: .* need 100, .* to 9 or less"),
    (DirichletSettings(alpha=0.001, min_samples=2), [200], 20, "in none of 1000 .* above 0.001, "),
    (ShardsSettings(shards_per_client=4), [11], 3, "shards_per_client: .* need 12, .* 3 or less"),
    (NaturalSettings(), [9], 3, "task.partition.kind: natural needs a data set with"),
    (ClientDirichletSettings(concentration=1.0, min_samples=20), [50, 50], 10, "to 10 or less"),
    (ClientDirichletSettings(concentration=1.0, min_samples=10), [50, 50], 10, "or fleet.size$"),
    (INFEASIBLE, [30] * 10, 3, "no sizes make .* 3 clients .* to nearest, .*size"),
    (OneClassSettings(), [5, 5, 5], 2, "size: .* 2 clients cannot hold 3 labels; .* 3 or more"),
    (OneClassSettings(), [5], 4, "size: the 5 samples of label 0 make no 4 slices of 2"),
    (PartlyIidSettings(num_iid=5), [40], 4, "num_iid: 5 clients .* fleet has 4; lower it to 4"),
    (PARTLY, [8], 4, "size_sigma: client 1 would have 2 of the 8 samples, and needs 3"),
]


@pytest.mark.parametrize(("settings", "label_sizes", "num_clients", "message"), REFUSED)
def test_an_impossible_split_names_the_key_and_the_hint(
    settings, label_sizes, num_clients, message
):
    labels = np.repeat(np.arange(len(label_sizes)), label_sizes)

    with pytest.raises(ScenarioError, match=message) as caught:
        parts(settings, labels, num_clients)

    assert str(caught.value).startswith(("fleet.size: ", "task.partition."))
    assert "\n" not in str(caught.value)
    with pytest.raises(ScenarioError, match=r"fleet.size: 3 clients, .* 2 of its own; .* 2 or"):
        parts(NaturalSettings(), [0] * 4, 3, owner=[0, 1, 1, 0])


BY_LABEL = [DirichletSettings(alpha=1.0), ShardsSettings(), PartlyIidSettings(num_iid=1)]


@pytest.mark.parametrize("settings", BY_LABEL, ids=lambda settings: settings.kind)
def test_sequences_are_split_whatever_their_labels_but_not_by_label(settings) -> None:
    message = rf"task\.partition\.kind: {settings.kind} splits by label, .* 4 of .* iid or natural"
    with pytest.raises(ScenarioError, match=message):
        parts(settings, np.zeros((60, 4), np.int64), 2)

    for free in (IidSettings(), NaturalSettings()):
        flat = parts(free, np.zeros(6, np.int64), 2, owner=[0, 1] * 3)
        result = parts(free, np.arange(24).reshape(6, 4), 2, owner=[0, 1] * 3)
        assert [part.tolist() for part in result] == [part.tolist() for part in flat]
