import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import SETS, RemoteSet
from fleetsim.learning.data.published.cifar10 import (
    CLASSES,
    Cifar10Settings,
    Cinic10Settings,
    read_folder,
    read_records,
)
from tests.learning.data.stand_ins import (
    Published,
    damaged,
    load_stand_in,
    picture,
    placed,
    sha256,
    stand_in,
    tarred,
)

MEMBERS = [member for member, _ in SETS["cifar10"].files[0].members]
TRAIN, TEST = MEMBERS[:5], MEMBERS[5]


def record(label: int, red: int = 0, green: int = 0, blue: int = 0) -> bytes:
    return bytes([label]) + b"".join(bytes([value]) * 1024 for value in (red, green, blue))


def batches() -> dict[str, bytes]:
    """Two records of each class to train on, spread over five files; one of each to test on.

    The red value of a training record is its number.
    """
    records = [record(number % 10, red=number) for number in range(20)]
    contents = {
        name: b"".join(records[4 * index : 4 * index + 4]) for index, name in enumerate(TRAIN)
    }
    contents[TEST] = b"".join(record(label, 255, 51, 0) for label in range(10))
    return contents


def files() -> dict[str, bytes]:
    """The batches by their own names."""
    return {Path(name).name: content for name, content in batches().items()}


def load(folder: Path | None, registry: dict[str, RemoteSet], **samples: int) -> Dataset:
    settings = Cifar10Settings(folder=None if folder is None else str(folder), **samples)
    return load_stand_in(settings, registry)


@pytest.fixture
def published(tmp_path: Path) -> Published:
    """Folder with a stand-in for the archive, and its registry."""
    home = placed(tmp_path / "home", {})
    path = tarred(home / "cifar-10-binary.tar.gz", batches())
    return home, stand_in("cifar10", {path.name: path.read_bytes()}, members=batches())


def test_a_record_is_a_label_and_three_channels_row_by_row_and_all_else_is_refused() -> None:
    pictures = read_records(bytes([7]) + bytes(range(256)) * 12, "a.bin")

    assert pictures.labels.tolist() == [7]
    assert pictures.images.shape == (1, 3, 32, 32)
    # Row r, column c of a channel lies 32 r + c bytes behind the channel's first.
    assert pictures.images[0, 0, 0, :3].tolist() == [0, 1, 2]
    assert pictures.images[0, 1, 3, 5] == (1024 + 3 * 32 + 5) % 256
    assert pictures.images[0, 2, 31, 31] == 255
    for content in (b"", b"\0" * 3072, record(1) + b"\0"):
        with pytest.raises(DataError, match=rf"a\.bin: {len(content)} bytes are no whole number"):
            read_records(content, "a.bin")
    with pytest.raises(DataError, match=r"a\.bin: label 10 of record 1 is outside 0\.\.9"):
        read_records(record(9) + record(10), "a.bin")


def test_the_archive_is_read_in_order_and_standardised_with_the_published_moments(published):
    data, fewer = load(*published), load(*published, train_samples=10)

    assert data.name == "cifar10"
    assert data.sample_shape == (3, 32, 32)
    assert data.train_labels.tolist() == [*range(10), *range(10)]
    assert data.test_labels.tolist() == list(range(10))
    red = np.asarray(data.train_inputs)[:, 0, 0, 0] * 0.2470 + 0.4914
    assert red * 255 == pytest.approx(np.arange(20), abs=1e-3)
    image = data.test_inputs[0]
    assert (image.dtype, image[0]) == (np.float32, pytest.approx((1 - 0.4914) / 0.2470))
    assert image[1] == pytest.approx((0.2 - 0.4822) / 0.2435)
    assert image[2] == pytest.approx((0 - 0.4465) / 0.2616)
    # Fewer samples are the first of each class.
    assert np.array_equal(fewer.train_inputs, data.train_inputs[:10])
    assert fewer.train_labels.tolist() == list(range(10))
    assert np.array_equal(fewer.test_inputs, data.test_inputs)


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_the_unpacked_files_are_the_same_set_and_verified(tmp_path, published, inner):
    home = placed(tmp_path / "unpacked" / inner, files())

    packed, unpacked = load(*published), load(tmp_path / "unpacked", published[1])

    assert np.array_equal(packed.train_inputs, unpacked.train_inputs)
    assert np.array_equal(packed.test_labels, unpacked.test_labels)
    damaged(home / "data_batch_3.bin", record(1))
    message = rf"data_batch_3\.bin: not the published .* {sha256(batches()[TRAIN[2]])}"
    with pytest.raises(DataError, match=message):
        load(tmp_path / "unpacked", published[1])
    damaged(home / "data_batch_3.bin", None)
    with pytest.raises(DataError, match=r"lacks cifar-10-binary\.tar\.gz"):
        load(tmp_path / "unpacked", published[1])


def pictures(home: Path, num_per_class: int = 2) -> Path:
    """Pictures of a single colour: red is the class, green the number."""
    for label, name in enumerate(CLASSES):
        contents = {
            f"{number}.png": picture((label, number, 255), (32, 32))
            for number in range(num_per_class)
        }
        placed(home / name, contents)
    return home


@pytest.mark.parametrize("num_kept", [None, 1])
def test_pictures_come_class_by_class_in_the_order_of_their_names(tmp_path, num_kept):
    pictures(tmp_path / "train")
    result = read_folder(tmp_path, "train", num_per_class=2, num_kept=num_kept)

    expected = [(label, number) for label in range(10) for number in range(num_kept or 2)]
    assert result.labels.tolist() == [label for label, _ in expected]
    assert result.images.shape == (len(expected), 3, 32, 32)
    assert result.images.flags.c_contiguous
    for image, (label, number) in zip(result.images, expected, strict=True):
        assert [set(channel.ravel()) for channel in image] == [{label}, {number}, {255}]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ship", None, "0 pictures of ship in train, CIFAR-10 has 2"),
        ("frog/1.png", None, "1 pictures of frog in train, CIFAR-10 has 2"),
        ("cat/0.png", picture((0, 0, 0), (32, 31)), "32 x 31 pixels in mode RGB, .* 32 x 32 in R"),
        ("cat/0.png", picture((3, 0, 255), (32, 32))[:60], r"cat/0\.png: no readable picture"),
    ],
)
def test_a_folder_that_is_not_the_set_is_told(tmp_path, name, change, message):
    damaged(pictures(tmp_path / "train") / name, change)

    with pytest.raises(DataError, match=message):
        read_folder(tmp_path, "train", num_per_class=2)


@pytest.mark.parametrize(
    ("pictures_at", "files_at", "are_files_read"),
    [
        ("cifar10", "cifar10", True),
        ("data/cifar10", "cifar10/cifar-10-batches-bin", True),
        ("cifar10", "data/cifar10", False),
    ],
)
def test_unpacked_files_come_before_pictures_in_the_same_or_a_later_folder(
    tmp_path, published, monkeypatch, pictures_at, files_at, are_files_read
):
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path))
    pictures(tmp_path / pictures_at / "train")
    placed(tmp_path / files_at, files())

    if are_files_read:
        assert len(load(None, published[1]).train_labels) == 20
    else:
        with pytest.raises(DataError, match="2 pictures of airplane in train, CIFAR-10 has 5000"):
            load(None, published[1])


@pytest.mark.long
@pytest.mark.slow
def test_the_real_pictures_are_balanced_and_have_the_published_mean(real_data, tmp_path):
    with tarfile.open(real_data("cifar10-jpeg") / "cifar10-jpeg.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    data = load(tmp_path, dict(SETS))

    assert data.train_inputs.shape == (50_000, 3, 32, 32)
    assert np.bincount(data.train_labels).tolist() == [5_000] * 10
    assert np.bincount(data.test_labels).tolist() == [1_000] * 10
    # JPEG smooths: means stay within half a grey level, deviations lose a hundredth.
    means = np.asarray(data.train_inputs).mean(axis=(0, 2, 3), dtype=np.float64)
    stds = np.asarray(data.train_inputs).std(axis=(0, 2, 3), dtype=np.float64)
    assert np.abs(means).max() < 0.5 / 255 / 0.2435
    assert np.all((stds > 0.98) & (stds < 1.0))


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
def cinic(tmp_path_factory: pytest.TempPathFactory) -> Published:
    home = tmp_path_factory.mktemp("cinic")
    files = {f"./{name}": content for name, content in contents().items()}
    packed = tarred(home / ARCHIVE, files | {"./README.md": b"read me"})
    return home, stand_in("cinic10", {ARCHIVE: packed.read_bytes()})


def load_cinic(home: Path, registry: dict[str, RemoteSet], **keys: Any) -> Dataset:
    settings = Cinic10Settings(folder=str(home), **{"pixels": "raw", **keys})
    return load_stand_in(settings, registry)


def corners(images: object) -> list[list[int]]:
    values: list[list[int]] = np.rint(np.asarray(images)[:, :, 0, 0]).astype(int).tolist()
    return values


def test_the_archive_is_read_class_by_class_in_the_order_of_file_names(cinic):
    data = load_cinic(*cinic)

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
        load_cinic(tmp_path, dict(SETS))


def test_parts_and_numbers_of_samples_are_chosen_and_known_before_the_files_are_read(cinic):
    both = load_cinic(*cinic, train_part="train-and-valid")
    few = load_cinic(*cinic, train_samples=10, test_samples=10)

    assert len(both.train_labels) == 40
    assert corners(both.train_inputs)[:4] == [[10, 0, 0], [10, 0, 1], [20, 0, 0], [20, 0, 1]]
    assert few.train_labels.tolist() == list(range(10))
    assert corners(few.train_inputs) == [[10, label, 0] for label in range(10)]
    assert corners(few.test_inputs) == [[30, label, 0] for label in range(10)]
    with pytest.raises(ScenarioError, match=r"need 3 of each class, .* has 2 of airplane; lower"):
        load_cinic(*cinic, train_samples=30)
    assert Cinic10Settings().num_training() == 90_000
    assert Cinic10Settings(train_part="train-and-valid").num_training() == 180_000
    assert Cinic10Settings(train_samples=500).num_training() == 500
    with pytest.raises(ValidationError, match="90010 are more than the 90000 of train_part: train"):
        Cinic10Settings(train_samples=90_010)
    with pytest.raises(ValidationError, match="multiple of 10"):
        Cinic10Settings(train_samples=15)
