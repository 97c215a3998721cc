from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import ByteImages, Dataset
from fleetsim.learning.data.dataset_kind import SETS, RemoteSet
from fleetsim.learning.data.published import fetch
from fleetsim.learning.data.published.zipped_pictures import (
    CelebASettings,
    TinyImageNetSettings,
    annotated,
    by_person,
    labels_by_picture,
)
from tests.learning.data.stand_ins import (
    Published,
    load_stand_in,
    picture,
    placed,
    stand_in,
    zipped,
)

ARCHIVE = "img_align_celeba.zip"
SIZES = {2880: 4, 17: 12, 5: 5, 900: 21}
"""Pictures of each person."""


def people() -> list[int]:
    """Return the person of each picture, in turns as long as they have pictures."""
    longest = max(SIZES.values())
    return [who for turn in range(longest) for who, size in SIZES.items() if turn < size]


def texts() -> dict[str, bytes]:
    """Every third picture smiles; nobody is young."""
    names = [f"{number:06}.jpg" for number in range(1, len(people()) + 1)]
    smiles = ("1" if number % 3 == 0 else "-1" for number in range(1, len(names) + 1))
    rows = [f"{name} -1  {smile}" for name, smile in zip(names, smiles, strict=True)]
    identities = [f"{name} {who}" for name, who in zip(names, people(), strict=True)]
    attributes = [str(len(rows)), "Young Smiling ", *rows]
    return {
        "identity_CelebA.txt": ("\n".join(identities) + "\n").encode(),
        "list_attr_celeba.txt": ("\n".join(attributes) + "\n").encode(),
    }


def pictures() -> dict[str, bytes]:
    """Grey pictures whose value is their number."""
    return {
        f"img_align_celeba/{number:06}.jpg": picture((number,) * 3, (178, 218), "JPEG")
        for number in range(1, len(people()) + 1)
    }


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    home = placed(tmp_path_factory.mktemp("celeba"), texts())
    archive = zipped(home / ARCHIVE, pictures())
    contents = {ARCHIVE: archive.read_bytes(), **texts()}
    return home, stand_in("celeba", contents, extras=[ARCHIVE])


def load(home: Path, registry: dict[str, RemoteSet], **keys: Any) -> Dataset:
    settings = CelebASettings(folder=str(home), **{"side": 8, **keys})
    return load_stand_in(settings, registry)


def numbers_of(who: int) -> list[int]:
    return [number for number, person in enumerate(people(), start=1) if person == who]


def pixels(data: Dataset) -> list[int]:
    assert isinstance(data.train_inputs, ByteImages)
    values: list[int] = data.train_inputs.pixels[:, 0, 4, 4].tolist()
    return values


def test_people_with_five_pictures_are_clients_in_the_order_of_their_numbers(published):
    data, two = load(*published), load(*published, people=2)

    # The last tenth, rounded up: 1 of 5, 2 of 12, 3 of 21.
    assert np.asarray(data.owner).tolist() == [0] * 4 + [1] * 10 + [2] * 18
    assert pixels(data) == numbers_of(5)[:4] + numbers_of(17)[:10] + numbers_of(900)[:18]
    held_out = numbers_of(5)[4:] + numbers_of(17)[10:] + numbers_of(900)[18:]
    assert data.test_labels.tolist() == [int(number % 3 == 0) for number in held_out]
    assert data.sample_shape == (3, 8, 8)
    assert data.num_classes == 2
    inputs = np.asarray(data.train_inputs)
    assert inputs.mean(axis=(0, 2, 3)) == pytest.approx([0, 0, 0], abs=1e-5)
    assert inputs.std(axis=(0, 2, 3)) == pytest.approx([1, 1, 1], abs=1e-5)
    # Fewer people are those of the lowest numbers.
    assert pixels(two) == pixels(data)[:14]
    with pytest.raises(ScenarioError, match="people: 3 people have 5 pictures; lower it or min_im"):
        load(*published, people=4)


def test_labels_belong_to_their_pictures(published: Published) -> None:
    data = load(*published, min_images=2)

    expected = [int(number % 3 == 0) for number in pixels(data)]
    assert 0 < sum(expected) < len(expected)
    assert data.train_labels.tolist() == expected
    assert load(*published, attribute="Young").train_labels.max() == 0
    with pytest.raises(ScenarioError, match=r"'Smilin' is none of CelebA's: Young, Smiling"):
        load(*published, attribute="Smilin")


def test_an_unpacked_folder_is_the_same_set_and_its_texts_are_verified(tmp_path, published):
    placed(tmp_path, pictures() | texts())

    packed, loose = load(*published), load(tmp_path, published[1])

    assert pixels(packed) == pixels(loose)
    assert np.array_equal(packed.test_inputs, loose.test_inputs)
    (tmp_path / "identity_CelebA.txt").write_bytes(b"000001.jpg 5\n")
    with pytest.raises(DataError, match=r"identity_CelebA\.txt: not the published file"):
        load(tmp_path, published[1])


def test_lines_of_another_form_are_told_with_their_numbers():
    for line in ("000001.jpg", "a.jpg 5", "000001.jpg -5", "../00001.jpg 5"):
        with pytest.raises(DataError, match=r"^a\.txt, line 2: .* is no picture and its person"):
            by_person(f"000009.jpg 5\n{line}\n", "a.txt")
    for line in ("000001.jpg 1", "000001.jpg 1 1 1", "000001.jpg 1 0"):
        text = f"2\nYoung Smiling\n000009.jpg 1 -1\n{line}\n"
        with pytest.raises(DataError, match=r"^a\.txt, line 4: .* is no picture with 2 times 1 or"):
            labels_by_picture(text, "Smiling", "a.txt")
    with pytest.raises(DataError, match=r"^a\.txt: no names of attributes on its second line"):
        labels_by_picture("3\n", "Smiling", "a.txt")


def test_the_set_is_not_downloaded_but_its_page_is_named_and_what_was_put_there_is_verified(
    published, tmp_path, monkeypatch
):
    monkeypatch.setattr(fetch, "cache_folder", lambda name: tmp_path / name)
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)
    names = f"{ARCHIVE}, list_attr_celeba.txt, identity_CelebA.txt"
    with pytest.raises(DataError, match=rf"get {names} from https://mmlab\..*/celeba$"):
        fetch.fetch("celeba", progress=False, registry=dict(SETS))
    assert not any(tmp_path.iterdir())

    (tmp_path / "celeba").symlink_to(published[0])
    by_hand = {name: replace(known, by_hand="a page") for name, known in published[1].items()}
    assert fetch.fetch("celeba", progress=False, registry=by_hand) == tmp_path / "celeba"


TINY, TOP = "tiny-imagenet-200.zip", "tiny-imagenet-200"
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
    archive = zipped(folder / TINY, {f"{TOP}/{name}": file for name, file in files.items()})
    return folder, stand_in("tiny-imagenet", {TINY: archive.read_bytes()})


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return packed(tmp_path_factory.mktemp("tiny"), contents())


def load_tiny(home: Path, registry: dict[str, RemoteSet], **keys: Any) -> Dataset:
    settings = TinyImageNetSettings(folder=str(home), **{"pixels": "raw", **keys})
    return load_stand_in(settings, registry)


def greys(images: object) -> list[float]:
    """Return the values of uniform grey pictures; JPEG keeps them to a unit."""
    numbers = np.asarray(images)
    assert (np.abs(numbers - numbers[:, :1, :1, :1]) <= 1.0).all()
    values: list[float] = numbers[:, 0, 0, 0].tolist()
    return values


def test_classes_are_numbered_by_their_ids_and_the_validation_part_is_for_testing(tiny):
    data = load_tiny(*tiny)
    few = load_tiny(*tiny, train_samples=400, test_samples=200)  # of 200 classes: 2 and 1 of each

    assert data.sample_shape == (3, 64, 64)
    assert (data.num_classes, data.train_labels.tolist()) == (2, [0, 0, 0, 1, 1, 1])
    assert greys(data.train_inputs) == pytest.approx([0, 1, 2, 100, 101, 102], abs=1)
    assert data.test_labels.tolist() == [0, 0, 1, 1]
    assert greys(data.test_inputs) == pytest.approx([10, 11, 110, 111], abs=1)
    assert few.train_labels.tolist() == [0, 0, 1, 1]
    assert greys(few.test_inputs) == pytest.approx([10, 110], abs=1)
    with pytest.raises(ScenarioError, match=r"need 4 of each class, .* has 3 of n0"):
        load_tiny(*tiny, train_samples=800)


def test_unpacked_folders_are_counted_and_archives_verified(tmp_path):
    placed(tmp_path, {TINY: b""})
    with pytest.raises(DataError, match=r"200\.zip: not the published .* SHA-256 6198c8ae"):
        load_tiny(tmp_path, dict(SETS))
    (tmp_path / TINY).unlink()
    placed(tmp_path / TOP, contents())
    with pytest.raises(DataError, match="2 classes, Tiny ImageNet has 200"):
        load_tiny(tmp_path, dict(SETS))
    ids = "\n".join(f"n{number:08}" for number in range(200))
    placed(tmp_path / TOP, {"wnids.txt": ids.encode()})
    with pytest.raises(DataError, match="0 pictures of n00000000 in train, Tiny ImageNet has 500"):
        load_tiny(tmp_path, dict(SETS))


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
        load_tiny(home, registry)


def test_a_line_that_is_no_picture_and_class_is_told_with_its_number():
    for line in ("val_1.JPEG", "val_1.JPEG\tn00000004", "../val_1.JPEG\tn00000003", VAL_0):
        with pytest.raises(DataError, match=r"^a\.txt, line 2: .* is no picture and its class"):
            annotated(f"{VAL_0}{BOX}\n{line}{BOX}\n", CLASSES, "a.txt")
