from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import ByteImages, Dataset
from fleetsim.learning.data.loading import REGISTRY
from fleetsim.learning.data.published import fetch
from fleetsim.learning.data.published.celeba import CelebASettings, by_person, labels_by_picture
from fleetsim.learning.data.remote_set import RemoteSet
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
        fetch.fetch("celeba", progress=False, registry=dict(REGISTRY))
    assert not any(tmp_path.iterdir())

    (tmp_path / "celeba").symlink_to(published[0])
    by_hand = {name: replace(known, by_hand="a page") for name, known in published[1].items()}
    assert fetch.fetch("celeba", progress=False, registry=by_hand) == tmp_path / "celeba"
