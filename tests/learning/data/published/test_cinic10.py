from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import SETS, RemoteSet
from fleetsim.learning.data.published.cifar10 import CLASSES, Cinic10Settings
from tests.learning.data.stand_ins import (
    Published,
    load_stand_in,
    picture,
    placed,
    stand_in,
    tarred,
)

ARCHIVE = "CINIC-10.tar.gz"


def contents() -> dict[str, bytes]:
    """Two pictures of each class and part: red is the part, green the class, blue the number.

    In the archive they lie in the reverse order.
    """
    names = [
        (f"{part}/{name}/n0{number}.png", (10 * (part_number + 1), label, number))
        for part_number, part in enumerate(("train", "valid", "test"))
        for label, name in enumerate(CLASSES)
        for number in range(2)
    ]
    return {name: picture(colour, (32, 32)) for name, colour in reversed(names)}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    home = tmp_path_factory.mktemp("cinic")
    files = {f"./{name}": content for name, content in contents().items()}
    packed = tarred(home / ARCHIVE, files | {"./README.md": b"read me"})
    return home, stand_in("cinic10", {ARCHIVE: packed.read_bytes()})


def load(home: Path, registry: dict[str, RemoteSet], **keys: Any) -> Dataset:
    settings = Cinic10Settings(folder=str(home), **{"pixels": "raw", **keys})
    return load_stand_in(settings, registry)


def corners(images: object) -> list[list[int]]:
    values: list[list[int]] = np.rint(np.asarray(images)[:, :, 0, 0]).astype(int).tolist()
    return values


def test_the_archive_is_read_class_by_class_in_the_order_of_file_names(published):
    data = load(*published)

    assert data.name == "cinic10"
    assert data.sample_shape == (3, 32, 32)
    assert data.num_classes == 10
    assert data.train_labels.tolist() == [label for label in range(10) for _ in range(2)]
    assert data.test_labels.tolist() == data.train_labels.tolist()
    expected = [[10, label, number] for label in range(10) for number in range(2)]
    assert corners(data.train_inputs) == expected
    assert corners(data.test_inputs) == [[30, *rest] for _, *rest in expected]


LACKS = f"lacks {ARCHIVE}; put the published files"
COUNTED = "2 pictures of airplane in train, CINIC-10 has 9000"


@pytest.mark.parametrize(
    ("name", "top", "message"),
    [
        (None, None, LACKS),
        ("CINIC-10.tar", None, LACKS),  # an archive without a published checksum
        (None, "", COUNTED),
        (None, "CINIC-10", COUNTED),
        (ARCHIVE, None, r"CINIC-10\.tar\.gz: not the published .* MD5 6ee4d0c9"),
    ],
)
def test_a_folder_without_the_published_set_is_told(tmp_path, name, top, message):
    if name is not None:
        (tmp_path / name).write_bytes(b"of unknown contents")
    if top is not None:
        placed(tmp_path / top, contents())

    with pytest.raises(DataError, match=message):
        load(tmp_path, dict(SETS))


def test_parts_and_numbers_of_samples_are_chosen_and_known_before_the_files_are_read(published):
    both = load(*published, train_part="train-and-valid")
    few = load(*published, train_samples=10, test_samples=10)

    assert len(both.train_labels) == 40
    assert corners(both.train_inputs)[:4] == [[10, 0, 0], [10, 0, 1], [20, 0, 0], [20, 0, 1]]
    assert few.train_labels.tolist() == list(range(10))
    assert corners(few.train_inputs) == [[10, label, 0] for label in range(10)]
    assert corners(few.test_inputs) == [[30, label, 0] for label in range(10)]
    with pytest.raises(ScenarioError, match=r"need 3 of each class, .* has 2 of airplane; lower"):
        load(*published, train_samples=30)
    assert Cinic10Settings().num_training() == 90_000
    assert Cinic10Settings(train_part="train-and-valid").num_training() == 180_000
    assert Cinic10Settings(train_samples=500).num_training() == 500
    with pytest.raises(ValidationError, match="90010 are more than the 90000 of train_part: train"):
        Cinic10Settings(train_samples=90_010)
    with pytest.raises(ValidationError, match="multiple of 10"):
        Cinic10Settings(train_samples=15)
