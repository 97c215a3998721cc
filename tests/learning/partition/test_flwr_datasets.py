import random  # noqa: TID251 - its state is looked at
import sys
from typing import Any

import numpy as np
import pytest

from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.client_samples import split
from fleetsim.learning.partition.flwr_datasets import FlwrDatasetsSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore:The sum of partition sizes:UserWarning"),
    pytest.mark.filterwarnings("ignore:Classes. .* will NOT be used:UserWarning"),
    # The library's, about a sort of pyarrow's.
    pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning"),
]

LABELS = np.random.Generator(np.random.PCG64(7)).integers(0, 4, 400)
OWNER = np.repeat(np.arange(8), 50)
MANY = {
    "DirichletPartitioner": {"alpha": 0.5, "min_partition_size": 5},
    "ExponentialPartitioner": {},
    "IidPartitioner": {},
    "InnerDirichletPartitioner": {"alpha": 0.5, "partition_sizes": (60, 70, 80, 90, 100)},
    "LinearPartitioner": {},
    "NaturalIdPartitioner": {},
    "GroupedNaturalIdPartitioner": {"group_size": 1},
    "PathologicalPartitioner": {"num_classes_per_partition": 2},
    "ShardPartitioner": {"num_shards_per_partition": 2, "shard_size": 30},
    "SizePartitioner": {"partition_sizes": (10, 20, 30, 40, 50)},
    "SquarePartitioner": {},
    "ContinuousPartitioner": {"strictness": 0.5},
    "DistributionPartitioner": {
        "distribution_array": ((1.0, 2.0), (1.0, 1.0), (3.0, 2.0), (1.0, 1.0)),
        "num_unique_labels_per_partition": 2,
        "preassigned_num_samples_per_label": 3,
    },
}


@pytest.fixture
def library():
    return pytest.importorskip(
        "flwr_datasets.partitioner", reason="needs the extra fleetsim[flwr-datasets]"
    )


def parts(name, arguments=None, *, size=5, labels=LABELS, owner=OWNER, seed=3):
    settings = FlwrDatasetsSettings(
        partitioner=name, arguments=MANY[name] if arguments is None else arguments
    )
    return split(settings, labels=labels, owner=owner, num_clients=size, seed=seed)


@pytest.mark.parametrize("name", MANY)
def test_a_seed_draws_one_partition_of_disjoint_parts(name, library):
    size = 4 if name == "DistributionPartitioner" else 5
    before = random.getstate()
    result, again = parts(name, size=size), parts(name, size=size)

    rows = np.concatenate(result)
    assert len(result) == size
    assert all(part.size and (np.diff(part) > 0).all() for part in result)
    assert len(np.unique(rows)) == len(rows)
    assert rows.min() >= 0
    assert rows.max() < len(LABELS)
    np.testing.assert_array_equal(rows, np.concatenate(again))
    assert random.getstate() == before


def test_another_seed_draws_another_partition(library):
    one, two = (parts("DirichletPartitioner", seed=seed) for seed in (3, 4))

    assert any(not np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_parts_are_those_of_the_partitioner_itself(library):
    sizes = parts("SizePartitioner")
    alike = parts("IidPartitioner", size=8)
    natural = parts("NaturalIdPartitioner", size=8)

    assert [part.size for part in sizes] == [10, 20, 30, 40, 50]
    np.testing.assert_array_equal(np.concatenate(alike), np.arange(400))
    assert [part.size for part in alike] == [50] * 8
    assert sorted(map(tuple, natural)) == [tuple(range(n, n + 50)) for n in range(0, 400, 50)]


def test_every_sample_of_many_clients_is_assigned(library):
    labels = np.arange(6000) % 10
    arguments = {"alpha": 1.0, "min_partition_size": 1}

    result = parts("DirichletPartitioner", arguments, size=100, labels=labels, owner=None)

    assert np.concatenate(result).size == np.unique(np.concatenate(result)).size == 6000


FAULTS: list[Any] = [
    ("DirichletPartitioner", {"alpha": 1.0, "seed": 2}, "arguments.seed: leave it out, it follo"),
    ("IidPartitioner", {"num_partitions": 5}, "arguments.num_partitions: leave it out, fleet.s"),
    ("IidPartitioner", {"alpha": 1.0}, "arguments.alpha: IidPartitioner has no such argument; "),
    ("DirichletPartitioner", {}, "arguments: DirichletPartitioner fails: TypeError: .*'alpha'"),
    ("DirichletPartitioner", {"alpha": -1.0}, "fails: ValueError: Alpha values"),
    ("ShardPartitioner", {"partition_by": "nothing", "shard_size": 9}, "ShardPartitioner fails: "),
    ("SizePartitioner", {"partition_sizes": (10, 10)}, "fleet.size: 5 clients, but .* makes 2"),
    ("SizePartitioner", {"partition_sizes": (10, 0, 9, 9, 9)}, "client 1 gets no samples|fails"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), FAULTS)
def test_a_fault_is_one_line(name, arguments, message, library):
    with pytest.raises(ScenarioError, match=message) as raised:
        parts(name, arguments)

    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(("task.partition", "fleet.size"))


def test_natural_ones_need_clients(library):
    with pytest.raises(ScenarioError, match="NaturalIdPartitioner needs a data set with clients"):
        parts("NaturalIdPartitioner", owner=None)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr_datasets.partitioner", None)

    with pytest.raises(ScenarioError, match=r"pip install 'fleetsim\[flwr-datasets\]'"):
        parts("IidPartitioner")
