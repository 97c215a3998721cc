import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.published.extrasensory import (
    CLASSES,
    FEATURES,
    ExtraSensorySettings,
    read_arrays,
    read_person,
)
from tests.learning.data.stand_ins import placed, zipped

LABELS = (*CLASSES[:3], "SLEEPING", *CLASSES[3:])
COLUMNS = (
    "timestamp",
    *FEATURES[:26],
    "raw_magnet:magnitude_stats:mean",
    *FEATURES[26:],
    *(f"label:{name}" for name in LABELS),
    "label_source",
)
ARCHIVE = "ExtraSensory.per_uuid_features_labels.zip"


def row(at_s: int, *labels: str, value: float = 0.0, **cells: str) -> dict[str, str]:
    """A minute: every feature `value`, these labels 1, all others 0."""
    result = dict.fromkeys(COLUMNS, "0.0") | dict.fromkeys(FEATURES, str(value))
    result |= {"timestamp": str(at_s), "label_source": "2"}
    result |= {f"label:{name}": "1.0" for name in labels}
    return result | {name.replace("__", ":"): cell for name, cell in cells.items()}


def csv(*rows: dict[str, str]) -> bytes:
    lines = [",".join(COLUMNS), *(",".join(one[name] for name in COLUMNS) for one in rows)]
    return ("\n".join(lines) + "\n").encode()


def week(count: int, first: float = 0.0) -> bytes:
    """Minutes 0, 1, ..: features `first`, `first` + 1, .., sitting and walking in turn."""
    activities = ("SITTING", "FIX_walking")
    return csv(*(row(60 * n, activities[n % 2], value=first + n) for n in range(count)))


def arrays(path: Path, **changes: NDArray[Any]) -> Path:
    """Ten samples of two people as arrays."""
    fine: dict[str, NDArray[Any]] = {
        "x": np.zeros((10, 52), np.float32),
        "y": np.arange(10, dtype=np.uint8) % 6,
        "user": np.repeat([3, 1], 5).astype(np.uint8),
        "t": np.arange(10),
        "feature_names": np.array(FEATURES),
        "class_names": np.array(CLASSES),
    }
    kept = {name: array for name, array in (fine | changes).items() if array.size}
    np.savez(path, allow_pickle=False, **kept)
    return path


def load(folder: Path | None) -> Dataset:
    settings = ExtraSensorySettings(folder=None if folder is None else str(folder))
    return load_dataset(settings, seed=1, num_clients=2)


def test_features_and_labels_are_found_by_the_names_of_their_columns() -> None:
    """A minute counts with one activity and all features only."""
    one = row(60, "BICYCLING", "SLEEPING", raw_acc__3d__mean_x="0.5", proc_gyro__3d__ro_yz="-2")
    result = read_person(csv(one), "ann", 7)
    minutes = csv(
        row(0),
        row(1, "SITTING", "FIX_walking"),
        row(2, "SITTING", raw_acc__3d__mean_x="nan"),
        row(3, "SITTING", raw_magnet__magnitude_stats__mean="nan"),
        row(4, "SITTING", label__BICYCLING="nan"),
        row(5, "SLEEPING"),
    )

    assert result.labels.tolist() == [CLASSES.index("BICYCLING")]
    assert (result.person.tolist(), result.at_s.tolist()) == ([7], [60])
    assert result.features[0, FEATURES.index("raw_acc:3d:mean_x")] == 0.5
    assert result.features[0, 51] == -2
    assert np.count_nonzero(result.features) == 2
    assert read_person(minutes, "ann", 0).at_s.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (csv(), ", row 2: the table is empty"),
        (b"", r", row 1: the columns timestamp, .* \(59 of 59 in all\); this is no file"),
        (
            csv().replace(b"label:BI", b"bi") + b"0\n",
            r", row 1: the columns label:BICYCLING .* \(1 of 59",
        ),
        (csv(row(0, "SITTING", raw_acc__3d__mean_x="x")), ", below the header: .*'x'"),
        (csv(row(0)) + b"1,2\n", ", below the header: .*row 2"),
        (gzip.compress(week(9), mtime=0)[:-30], r": damaged gzip file \(.+\); get it anew"),
    ],
)
def test_a_file_that_is_not_what_it_seems_is_told(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^ann{message}"):
        read_person(content, "ann", 0)


def test_the_last_fifth_of_every_person_in_time_is_for_testing(tmp_path: Path) -> None:
    shuffled = csv(*(row(60 * n, "SITTING", value=n) for n in (4, 0, 3, 1, 2)))
    (tmp_path / "A.features_labels.csv").write_bytes(shuffled)
    # Without a usable minute nobody is a client.
    (tmp_path / "AA.features_labels.csv").write_bytes(csv(row(0), row(1)))
    (tmp_path / "B.features_labels.csv").write_bytes(week(11, first=100))

    data = load(tmp_path)

    def minutes(inputs: NDArray[Any]) -> list[int]:
        """Feature values before they were standardised."""
        kept = np.array([0, 1, 2, 3, *range(100, 109)], dtype=np.float64)
        return [round(value * kept.std() + kept.mean()) for value in inputs[:, 0].tolist()]

    assert minutes(np.asarray(data.train_inputs)) == [0, 1, 2, 3, *range(100, 109)]
    assert minutes(data.test_inputs) == [4, 109, 110]
    assert data.test_labels.tolist() == [1, 3, 1]
    assert np.asarray(data.owner).tolist() == [0] * 4 + [1] * 9
    assert (data.num_classes, data.sample_shape) == (6, (52,))


@pytest.mark.parametrize("form", ["archive", "gzip", "text"])
def test_packed_and_unpacked_files_are_the_same_set(tmp_path: Path, form: str) -> None:
    people = {"B": week(20, first=5), "A": week(10)}
    files = {f"{name}.features_labels.csv": content for name, content in people.items()}
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}
    if form == "archive":
        members = {f"x/{name}": content for name, content in packed.items()}
        zipped(tmp_path / ARCHIVE, members | {"README.txt": b"hello"})
    else:
        placed(tmp_path, packed if form == "gzip" else files)

    result = load(tmp_path)

    assert np.bincount(np.asarray(result.owner)).tolist() == [8, 16]
    values = np.array([*range(8), *range(5, 21)], dtype=np.float64)
    expected = (values - values.mean()) / values.std()
    assert np.asarray(result.train_inputs)[:, 51] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("A.features_labels.csv", week(4), "4 usable samples of 1 people are too few; each needs"),
        (ARCHIVE, b"PK no archive", f"{ARCHIVE}: damaged archive"),
        (ARCHIVE, b"PK\5\6" + bytes(18), f"{ARCHIVE}: holds no file that ends in .features_labels"),
    ],
)
def test_a_folder_without_enough_samples_is_told(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DataError, match=message):
        load(tmp_path)


def test_a_set_that_is_not_there_is_told_with_the_hint(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places = f"{tmp_path}/own/data/extrasensory-har"

    with pytest.raises(DataError, match=rf"{ARCHIVE} .* {places}, .*; get"):
        load(None)


def test_arrays_are_assigned_to_their_users(tmp_path: Path) -> None:
    arrays(tmp_path / "a.npz")

    data = load(tmp_path)

    assert np.asarray(data.owner).tolist() == [0] * 4 + [1] * 4
    assert data.train_labels.tolist() == [5, 0, 1, 2, 0, 1, 2, 3]  # user 1 before user 3
    assert data.test_labels.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("user", np.zeros(0), "lacks the arrays user; write it anew"),
        ("feature_names", np.array(FEATURES[::-1]), "feature_names are not ExtraSensory's"),
        ("class_names", np.array(CLASSES[:5]), "class_names are not ExtraSensory's"),
        ("x", np.zeros((10, 51)), r"x is float64 \(10, 51\), expected floats \[n, 52\]"),
        ("x", np.full((10, 52), np.nan), "x or t holds numbers that are NaN"),
        ("y", np.full(10, 6), r"y holds labels outside 0\.\.5"),
        ("t", np.array(["now"] * 10), r"t is <U3 \(10,\), expected numbers"),
    ],
)
def test_arrays_of_another_form_are_told(tmp_path, name, array, message):
    path = arrays(tmp_path / "a.npz", **{name: array})

    with pytest.raises(DataError, match=rf"a\.npz: {message}"):
        read_arrays(path)


def test_the_real_minutes_are_learnable_and_imbalanced(real_data):
    data = load(real_data("extrasensory-har"))

    assert data.owner is not None
    assert data.owner.max() + 1 == 26
    assert len(data.train_labels) + len(data.test_labels) == 95_478
    assert np.abs(np.asarray(data.train_inputs).mean(axis=0)).max() < 1e-4
    assert np.abs(np.asarray(data.train_inputs).std(axis=0) - 1).max() < 1e-3
    # Six of seven minutes are spent lying or sitting; running is rarer than one in 300.
    shares = np.bincount(data.train_labels) / len(data.train_labels)
    assert shares[:2].sum() > 0.75
    assert shares[4] < 1 / 300
