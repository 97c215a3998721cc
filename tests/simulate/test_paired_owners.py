"""`fleet.usage.pair: owner`: the data and the phone of a client belong to one person."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetsim
from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.formats import import_any
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.published.extrasensory import CLASSES, FEATURES
from fleetsim.learning.partition.client_samples import split_samples
from fleetsim.learning.partition.plain import NaturalSettings
from tests.fleet.traces.test_published_forms import STATES

NOON = 1_444_079_161
PEOPLE = {"0A": 25, "1B": 50, "2C": 75}
"""Samples of each person, one a minute. The last fifth is for testing."""


def person(num: int) -> str:
    """A published file of a person who is on the charger for NUM / 5 minutes, and then is not."""
    labels = [f"label:{label}" for label in CLASSES]
    lines = [",".join(["timestamp", *FEATURES, *STATES, *labels])]
    for minute in range(num):
        state = "charging" if minute < num // 5 else "discharging"
        features = [f"{(minute * 7 + column) % 11}" for column in range(len(FEATURES))]
        flags = [str(int(column.endswith(f":is_{state}"))) for column in STATES]
        activity = [str(int(index == minute % 2)) for index in range(len(CLASSES))]
        lines.append(",".join([str(NOON + 60 * minute), *features, *flags, *activity]))
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of published files, and beside it the usage trace made of them."""
    home = tmp_path_factory.mktemp("extrasensory")
    (home / "files").mkdir()
    for name, num in PEOPLE.items():
        (home / "files" / f"{name}.features_labels.csv").write_text(person(num))
    import_any("extrasensory", home / "files", home / "usage")
    return home


def scenario(home, **changes) -> fleetsim.Scenario:
    usual = {
        "fleet.size": 3,
        "fleet.devices": {"pixel-6": 1.0},
        "task.dataset": {"kind": "extrasensory-har", "folder": str(home / "files")},
        "task.partition": {"kind": "natural"},
        "task.model": {"kind": "logistic"},
        "fleet.usage": {"trace": str(home / "usage"), "pair": "owner"},
        "server.cohort": 2,
        "server.over_commit": 1.0,
        "stop": {"rounds": 1},
    }
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return fleetsim.load("quickstart", usual | given)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_client_has_the_samples_and_the_record_of_one_person(home, tmp_path, size, seed):
    changes = {"fleet__size": size, "server__cohort": 1, "seed": seed}
    run = fleetsim.run(scenario(home, **changes), out=tmp_path / "run", train=False)
    sizes = dict(zip(run.clients["usage_record"], run.clients["num_samples"], strict=True))

    assert sizes == {name: PEOPLE[name] - PEOPLE[name] // 5 for name in sizes}
    assert len(sizes) == size


def test_people_without_a_record_are_not_drawn(home, tmp_path):
    part = tmp_path / "part"
    part.mkdir()
    for name in ("users.csv", "states.csv"):
        lines = gzip.decompress((home / "usage" / f"{name}.gz").read_bytes()).splitlines(True)
        (part / name).write_bytes(b"".join(line for line in lines if not line.startswith(b"1B,")))
    usage = {"trace": str(part), "pair": "owner"}
    small = {"fleet__size": 2, "server__cohort": 1, "fleet__usage": usage}
    run = fleetsim.run(scenario(home, **small), out=tmp_path / "run", train=False)

    assert set(run.clients["usage_record"]) == {"0A", "2C"}
    with pytest.raises(
        ScenarioError, match=r"fleet\.size: 3 clients, but 2 people of extrasensory"
    ):
        fleetsim.run(scenario(home, fleet__usage=usage), out=tmp_path / "more", train=False)


def test_without_a_pair_records_are_drawn_and_not_those_of_the_owners(home, tmp_path):
    mixed = set()
    for seed in range(1, 5):
        usage = {"trace": str(home / "usage")}
        plain = scenario(home, seed=seed, fleet__usage=usage)
        clients = fleetsim.run(plain, out=tmp_path / str(seed), train=False).clients
        mixed |= set(zip(clients["usage_record"], clients["num_samples"], strict=True))

    assert mixed - {(name, num - num // 5) for name, num in PEOPLE.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task__partition": {"kind": "iid"}},
         r"fleet\.usage\.pair.*task\.partition\.kind = 'iid'"),
        ({"fleet__usage": {"pair": "owner"}}, r"fleet\.usage\.pair.*needs the trace of the same"),
        ({"fleet__usage": {"trace": "people-week", "pair": "owner"}},
         "none of the 3 people of extrasensory-har, such as '0A'"),
    ],
)  # fmt: skip
def test_what_cannot_be_paired_is_refused_in_one_line(home, tmp_path, changes, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        fleetsim.run(scenario(home, **changes), out=tmp_path / "run", train=False)

    assert len(caught.value.faults) == 1


def test_a_data_set_without_people_is_refused():
    labels = np.zeros(6, dtype=np.int64)
    inputs, test = np.zeros((6, 2), np.float32), np.zeros((1, 2), np.float32)
    dataset = Dataset("own", inputs, labels, test, labels[:1], 2)
    given: dict[str, Any] = {"num_clients": 2, "validation_fraction": 0.0, "holdout_fraction": 0.0}

    with pytest.raises(ScenarioError, match="the data set own has no people of its own; name one"):
        split_samples(dataset, NaturalSettings(), holdout_from="own", paired={"0"}, seed=1, **given)
