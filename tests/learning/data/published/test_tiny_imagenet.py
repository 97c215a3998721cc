from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import SETS, RemoteSet
from fleetsim.learning.data.published.zipped_pictures import TinyImageNetSettings, annotated
from tests.learning.data.stand_ins import (
    Published,
    load_stand_in,
    picture,
    placed,
    stand_in,
    zipped,
)

ARCHIVE, TOP = "tiny-imagenet-200.zip", "tiny-imagenet-200"
CLASSES = ["n00000003", "n00000009"]
BOX = "\t0\t0\t62\t57"
VAL_0 = "val_0.JPEG\tn00000003"


def contents() -> dict[str, bytes]:
    """Two classes: grey values are 100 label + number to train on, 10 more to test on."""
    files = {
        f"train/{name}/images/{name}_{number}.JPEG": picture(
            100 * label + number, (64, 64), "JPEG", "L"
        )
        for label, name in enumerate(CLASSES)
        for number in range(3)
    }
    files |= {
        f"val/images/val_{number}.JPEG": picture((value,) * 3, (64, 64), "JPEG")
        for number, value in enumerate((110, 10, 111, 11))
    }
    rows = [
        f"val_{number}.JPEG\t{CLASSES[label]}{BOX}\n" for number, label in enumerate((1, 0, 1, 0))
    ]
    return files | {
        # As published: not in ascending order.
        "wnids.txt": "\n".join(CLASSES[::-1]).encode() + b"\n",
        "val/val_annotations.txt": "".join(rows).encode(),
        f"train/{CLASSES[0]}/{CLASSES[0]}_boxes.txt": b"not read",
        "test/images/test_0.JPEG": b"not read",
    }


def packed(folder: Path, files: dict[str, bytes]) -> Published:
    folder.mkdir(exist_ok=True)
    archive = zipped(folder / ARCHIVE, {f"{TOP}/{name}": file for name, file in files.items()})
    return folder, stand_in("tiny-imagenet", {ARCHIVE: archive.read_bytes()})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return packed(tmp_path_factory.mktemp("tiny"), contents())


def load(home: Path, registry: dict[str, RemoteSet], **keys: Any) -> Dataset:
    settings = TinyImageNetSettings(folder=str(home), **{"pixels": "raw", **keys})
    return load_stand_in(settings, registry)


def greys(images: object) -> list[float]:
    """Return the values of uniform grey pictures; JPEG keeps them to a unit."""
    numbers = np.asarray(images)
    assert (np.abs(numbers - numbers[:, :1, :1, :1]) <= 1.0).all()
    values: list[float] = numbers[:, 0, 0, 0].tolist()
    return values


def test_classes_are_numbered_by_their_ids_and_the_validation_part_is_for_testing(published):
    data = load(*published)
    few = load(*published, train_samples=400, test_samples=200)  # of 200 classes: 2 and 1 of each

    assert data.sample_shape == (3, 64, 64)
    assert (data.num_classes, data.train_labels.tolist()) == (2, [0, 0, 0, 1, 1, 1])
    assert greys(data.train_inputs) == pytest.approx([0, 1, 2, 100, 101, 102], abs=1)
    assert data.test_labels.tolist() == [0, 0, 1, 1]
    assert greys(data.test_inputs) == pytest.approx([10, 11, 110, 111], abs=1)
    assert few.train_labels.tolist() == [0, 0, 1, 1]
    assert greys(few.test_inputs) == pytest.approx([10, 110], abs=1)
    with pytest.raises(ScenarioError, match=r"need 4 of each class, .* has 3 of n0"):
        load(*published, train_samples=800)


def test_unpacked_folders_are_counted_and_archives_verified(tmp_path):
    placed(tmp_path, {ARCHIVE: b""})
    with pytest.raises(DataError, match=r"200\.zip: not the published .* SHA-256 6198c8ae"):
        load(tmp_path, dict(SETS))
    (tmp_path / ARCHIVE).unlink()
    placed(tmp_path / TOP, contents())
    with pytest.raises(DataError, match="2 classes, Tiny ImageNet has 200"):
        load(tmp_path, dict(SETS))
    ids = "\n".join(f"n{number:08}" for number in range(200))
    placed(tmp_path / TOP, {"wnids.txt": ids.encode()})
    with pytest.raises(DataError, match="0 pictures of n00000000 in train, Tiny ImageNet has 500"):
        load(tmp_path, dict(SETS))


GREY = f"train/{CLASSES[0]}/images/{CLASSES[0]}_1.JPEG"
NO_ID = r"wnids\.txt: .* is no WordNet id, or there twice"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wnids.txt", b"n00000003 n00000003", NO_ID),
        ("wnids.txt", b"../../n003", NO_ID),
        (GREY, picture(0, (64, 63), mode="L"), f"{GREY}: 64 x 63 pixels .*, expected 64 x 64; sa"),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, name, content, message):
    home, registry = packed(tmp_path / "home", contents() | {name: content})

    with pytest.raises(DataError, match=message):
        load(home, registry)


def test_a_line_that_is_no_picture_and_class_is_told_with_its_number():
    for line in ("val_1.JPEG", "val_1.JPEG\tn00000004", "../val_1.JPEG\tn00000003", VAL_0):
        with pytest.raises(DataError, match=r"^a\.txt, line 2: .* is no picture and its class"):
            annotated(f"{VAL_0}{BOX}\n{line}{BOX}\n", CLASSES, "a.txt")
