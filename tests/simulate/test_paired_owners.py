"""`fleet.usage.pair: owner`: the data and the phone of a client belong to one person."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import fleetsim
from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.formats import import_any
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.published.extrasensory import CLASSES, FEATURES
from fleetsim.learning.partition.client_samples import split_samples
from fleetsim.learning.partition.natural import NaturalSettings
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


def scenario(home: Path, **changes: object) -> fleetsim.Scenario:
    return fleetsim.load(
        "quickstart",
        {
            "fleet.size": 3,
            "fleet.devices": {"pixel-6": 1.0},
            "task.dataset": {"kind": "extrasensory-har", "folder": str(home / "files")},
            "task.partition": {"kind": "natural"},
            "task.model": {"kind": "logistic"},
            "fleet.usage": {"trace": str(home / "usage"), "pair": "owner"},
            "server.cohort": 2,
            "server.over_commit": 1.0,
            "stop": {"rounds": 1},
            **{key.replace("__", "."): value for key, value in changes.items()},
        },
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_client_has_the_samples_and_the_record_of_one_person(home, tmp_path, seed):
    run = fleetsim.run(scenario(home, seed=seed), out=tmp_path / "run", train=False)
    found = dict(zip(run.clients["usage_record"], run.clients["num_samples"], strict=True))

    assert found == {name: num - num // 5 for name, num in PEOPLE.items()}


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_fewer_clients_than_people_are_drawn_with_their_phones(home, tmp_path, seed):
    changes = {"fleet__size": 2, "server__cohort": 1}
    run = fleetsim.run(scenario(home, seed=seed, **changes), out=tmp_path / "run", train=False)
    pairs = zip(run.clients["usage_record"], run.clients["num_samples"], strict=True)

    assert all(num == PEOPLE[name] - PEOPLE[name] // 5 for name, num in pairs)
    assert run.clients["usage_record"].nunique() == 2


def test_people_without_a_record_are_not_drawn(home, tmp_path):
    rows = (home / "usage" / "users.csv.gz", home / "usage" / "states.csv.gz")
    (tmp_path / "part").mkdir()
    for path in rows:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
        kept = "".join(line for line in lines if not line.startswith("1B,"))
        (tmp_path / "part" / path.name.removesuffix(".gz")).write_text(kept)
    usage = {"trace": str(tmp_path / "part"), "pair": "owner"}
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


def test_a_trace_of_other_people_is_refused(home, tmp_path):
    usage = {"trace": "people-week", "pair": "owner"}

    with pytest.raises(
        ScenarioError, match="none of the 3 people of extrasensory-har, such as '0A'"
    ):
        fleetsim.run(scenario(home, fleet__usage=usage), out=tmp_path / "run", train=False)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"task__partition": {"kind": "iid"}},
         r"fleet\.usage\.pair.*task\.partition\.kind = 'iid'"),
        ({"fleet__usage": {"pair": "owner"}}, r"fleet\.usage\.pair.*needs the trace of the same"),
    ],
)  # fmt: skip
def test_what_cannot_be_paired_is_refused_in_one_line(home, tmp_path, changes, says):
    with pytest.raises(ScenarioError, match=says) as caught:
        fleetsim.run(scenario(home, **changes), out=tmp_path / "run", train=False)

    assert len(caught.value.faults) == 1


def test_a_data_set_without_people_is_refused():
    labels = np.zeros(6, dtype=np.int64)
    dataset = Dataset(
        "own", np.zeros((6, 2), np.float32), labels, np.zeros((1, 2), np.float32), labels[:1], 2
    )

    with pytest.raises(ScenarioError, match="the data set own has no people of its own; name one"):
        split_samples(
            dataset,
            NaturalSettings(),
            num_clients=2,
            validation_fraction=0.0,
            holdout_fraction=0.0,
            holdout_from="own",
            seed=1,
            paired={"0"},
        )


@pytest.mark.slow
def test_real_people_have_their_own_minutes(real_data, real_trace, tmp_path):
    data, trace = real_data("extrasensory-har"), real_trace("extrasensory")
    changes = {
        "fleet__size": 12,
        "task__dataset": {"kind": "extrasensory-har", "folder": str(data)},
        "fleet__usage": {"trace": str(trace), "pair": "owner"},
    }
    run = fleetsim.run(scenario(tmp_path, **changes), out=tmp_path / "run", train=False)
    with np.load(data / "extrasensory-har-dev.npz", allow_pickle=False) as arrays:
        num = dict(zip(*np.unique(arrays["user"], return_counts=True), strict=True))

    for name, samples in zip(run.clients["usage_record"], run.clients["num_samples"], strict=True):
        assert samples == num[int(name)] - num[int(name)] // 5
