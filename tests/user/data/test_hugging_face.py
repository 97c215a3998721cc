"""Hugging Face data sets, in memory and from local files; skipped without the extra."""

import random  # noqa: TID251 - the user's transform draws from it
import sys

import numpy as np
import pytest
from PIL import Image

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import ByteImages
from fleetsim.user.data import hugging_face
from fleetsim.user.data.user_dataset import dataset

X = np.arange(24, dtype=np.float32).reshape(8, 3) / 8
Y = [0, 1, 2, 0, 1, 2, 0, 1]


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The library, whose cache is a folder of the test."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    library = pytest.importorskip("datasets", reason="needs the extra fleetsim[hf]")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return library


@pytest.fixture
def table(library):
    return library.Dataset.from_dict({"x": X.tolist(), "label": Y, "who": list("aabbccdd")})


def test_columns_become_samples_labels_and_clients(library, table):
    parts = library.DatasetDict(train=table, test=table.select(range(2)))

    loaded = dataset(parts, inputs="x", client="who").load()

    np.testing.assert_array_equal(loaded.train_inputs, X)
    assert loaded.train_labels.tolist() == Y
    assert loaded.owner is not None
    assert loaded.owner.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    np.testing.assert_array_equal(loaded.test_inputs, X[:2])


def test_pictures_and_class_labels(library):
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    kinds = library.Features(
        {"image": library.Image(), "label": library.ClassLabel(names=["a", "b"])}
    )
    rows = {"image": [Image.fromarray(one) for one in pixels], "label": ["b", "a"]}
    pictures = library.Dataset.from_dict(rows, features=kinds)

    loaded = dataset((pictures, pictures)).load()

    assert isinstance(loaded.train_inputs, ByteImages)
    np.testing.assert_array_equal(loaded.train_inputs.pixels, pixels.transpose(0, 3, 1, 2))
    assert loaded.train_labels.tolist() == [1, 0]


def test_arrays_of_bytes_are_images(library):
    kinds = library.Features(
        {"image": library.Array3D((1, 2, 2), "uint8"), "label": library.Value("int8")}
    )
    pixels = np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2)
    images = library.Dataset.from_dict({"image": pixels, "label": [0, 1]}, features=kinds)

    loaded = dataset((images, images)).load()

    assert isinstance(loaded.train_inputs, ByteImages)
    np.testing.assert_array_equal(loaded.train_inputs.pixels, pixels)


def test_token_lists_are_tokens_if_they_have_one_length(library):
    even = library.Dataset.from_dict({"input_ids": [[1, 2], [3, 9]], "labels": [0, 1]})
    odd = library.Dataset.from_dict({"input_ids": [[1, 2], [3]], "labels": [0, 1]})

    assert dataset((even, even)).load().vocabulary_size == 10
    with pytest.raises(DataError, match=r"sample 1 has shape \(1,\), sample 0 has \(2,\)"):
        dataset((odd, odd)).load()


def test_columns_of_numbers_are_features(library):
    table = library.Dataset.from_dict({"a": [1.0, 2.0], "b": [3, 4], "label": [0, 1]})

    assert dataset((table, table)).load().train_inputs[:].tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_a_transform_of_its_own_runs_at_each_access(library, table):
    def noisy(rows):
        return {"x": [np.array(x) + random.random() for x in rows["x"]], "label": rows["label"]}

    train = table.with_transform(noisy)
    loaded = dataset((train, table), inputs="x", transform_each_access=True).load()

    inputs = loaded.accessed
    assert inputs is not None
    one, two = (inputs.taken(np.array([3]), [visit], seed=1, address=(0,)) for visit in (0, 1))
    assert not np.array_equal(one, two)
    np.testing.assert_allclose(np.diff(one - X[3]), 0.0, atol=1e-6)
    with pytest.raises(DataError, match="item 0 draws from the global generator of random"):
        dataset((train, table), inputs="x").load()


@pytest.mark.parametrize("form", ["parquet", "json", "jsonl", "csv", "arrow", "folder"])
def test_local_files_are_read(form, library, table, tmp_path):
    path = tmp_path / f"data.{form}"
    if form == "parquet":
        table.to_parquet(path)
    elif form in ("json", "jsonl"):
        table.to_json(path)
    elif form == "csv":
        numbers = {name: X[:, place].tolist() for place, name in enumerate("pqr")}
        table = library.Dataset.from_dict({**numbers, "label": Y, "who": table["who"]})
        table.to_csv(path)
    else:
        path = tmp_path / "saved"
        table.save_to_disk(path)
        if form == "arrow":
            (path,) = path.glob("*.arrow")

    inputs = list("pqr") if form == "csv" else "x"
    loaded = dataset(str(path), path, inputs=inputs, client="who").load()

    np.testing.assert_array_equal(loaded.train_inputs, X)
    assert loaded.test_labels.tolist() == Y
    assert loaded.owner is not None
    assert loaded.owner.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_words_of_a_csv_file_are_names_and_its_separator_is_seen(library, tmp_path, separator):
    rows = ["x,label,who", *(f"{k},{k % 2},{['None', 'NA', 'null'][k % 3]}" for k in range(6))]
    (tmp_path / "a.csv").write_text("\n".join(rows).replace(",", separator))
    loaded = dataset(tmp_path / "a.csv", test_fraction=0.5, client="who", inputs=["x"]).load()

    # Two rows of each name, of which one is for testing.
    assert loaded.owner is not None
    assert sorted(loaded.owner.tolist()) == [0, 1, 2]
    (tmp_path / "b.csv").write_text("a,b;c\n0,1;2\n")
    with pytest.raises(
        DataError, match=r"could be separated by commas or semicolons; read it with"
    ):
        dataset(tmp_path / "b.csv", test_fraction=0.5).load()


def test_a_file_that_cannot_be_read_is_one_line(library, tmp_path):
    (tmp_path / "broken.parquet").write_text("no parquet")
    (tmp_path / "folder").mkdir()
    for name, message in (
        ("broken.parquet", r"reading .*broken\.parquet fails: "),
        ("none.csv", r"there is no file .*none\.csv; correct the path"),
        ("none.txt", r"none\.txt is neither a folder nor a file of \.parquet, "),
        ("https://example.org/data.csv", r"there is no file .*https:/.*; correct the path"),
        ("folder", r"reading .*folder fails: FileNotFoundError"),
    ):
        path = name if ":" in name else tmp_path / name
        with pytest.raises(DataError, match=message) as fault:
            dataset(path, test_fraction=0.5).load()
        assert "\n" not in str(fault.value)


def test_without_the_extra_files_are_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(ScenarioError, match=r"training part: .*; pip install 'fleetsim\[hf\]'"):
        hugging_face.from_files(tmp_path / "data.csv", "training part")
