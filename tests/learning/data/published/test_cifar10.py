"""CIFAR-10: records, archives and folders of pictures by tiny stand-ins, then the real pictures."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from fleetsim import scenario as scenarios
from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import REGISTRY, load_dataset
from fleetsim.learning.data.published import fetch
from fleetsim.learning.data.published.cifar10 import (
    CLASSES,
    Cifar10Settings,
    read_folder,
    read_records,
)
from fleetsim.learning.data.published.remote_set import RemoteSet
from fleetsim.simulate import run
from tests.learning.data.stand_ins import placed, sha256, stand_in

MEMBERS = [member for member, _ in REGISTRY["cifar10"].files[0].members]
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


def archive(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def load(folder: Path | None, registry: dict[str, RemoteSet], **samples: int) -> Dataset:
    settings = Cifar10Settings(folder=None if folder is None else str(folder), **samples)
    return load_dataset(settings, seed=1, num_clients=2, registry=registry)


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, dict[str, RemoteSet]]:
    """Folder with a stand-in for the archive, and its registry."""
    home = placed(tmp_path / "home", {})
    path = archive(home / "cifar-10-binary.tar.gz", batches())
    return home, stand_in("cifar10", {path.name: path.read_bytes()}, members=batches())


# --- the binary form ----------------------------------------------------------------------------


def test_a_record_is_a_label_and_three_channels_row_by_row() -> None:
    content = bytes([7]) + bytes(range(256)) * 12

    pictures = read_records(content, "a.bin")

    assert pictures.labels.tolist() == [7]
    assert pictures.images.shape == (1, 3, 32, 32)
    # Row r, column c of a channel lies 32 r + c bytes behind the channel's first.
    assert pictures.images[0, 0, 0, :3].tolist() == [0, 1, 2]
    assert pictures.images[0, 1, 3, 5] == (1024 + 3 * 32 + 5) % 256
    assert pictures.images[0, 2, 31, 31] == 255


@pytest.mark.parametrize("content", [b"", b"\0" * 3072, record(1) + b"\0"])
def test_bytes_that_are_no_whole_number_of_records_are_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=rf"a\.bin: {len(content)} bytes are no whole number"):
        read_records(content, "a.bin")


def test_a_label_out_of_range_is_told_with_its_record() -> None:
    with pytest.raises(DataError, match=r"a\.bin: label 10 of record 1 is outside 0\.\.9"):
        read_records(record(9) + record(10), "a.bin")


def test_the_archive_is_read_in_the_order_of_its_batches(
    published: tuple[Path, dict[str, RemoteSet]],
) -> None:
    data = load(*published)

    assert data.name == "cifar10"
    assert data.sample_shape == (3, 32, 32)
    assert data.train_labels.tolist() == [*range(10), *range(10)]
    assert data.test_labels.tolist() == list(range(10))
    red = np.asarray(data.train_inputs)[:, 0, 0, 0] * 0.2470 + 0.4914
    assert red * 255 == pytest.approx(np.arange(20), abs=1e-3)


def test_channels_are_standardised_with_the_published_figures(
    published: tuple[Path, dict[str, RemoteSet]],
) -> None:
    image = load(*published).test_inputs[0]

    assert image.dtype == np.float32
    assert image[0] == pytest.approx((1 - 0.4914) / 0.2470)
    assert image[1] == pytest.approx((0.2 - 0.4822) / 0.2435)
    assert image[2] == pytest.approx((0 - 0.4465) / 0.2616)


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_the_unpacked_files_are_the_same_set(
    tmp_path: Path, published: tuple[Path, dict[str, RemoteSet]], inner: str
) -> None:
    home = tmp_path / "unpacked"
    placed(home / inner, files())

    packed, unpacked = load(*published), load(home, published[1])

    assert np.array_equal(packed.train_inputs, unpacked.train_inputs)
    assert np.array_equal(packed.test_labels, unpacked.test_labels)


def test_an_unpacked_file_with_another_checksum_is_refused(
    tmp_path: Path, published: tuple[Path, dict[str, RemoteSet]]
) -> None:
    placed(tmp_path, files() | {"data_batch_3.bin": record(1)})
    expected = sha256(batches()[TRAIN[2]])

    with pytest.raises(DataError, match=rf"data_batch_3\.bin: not the published .* {expected}"):
        load(tmp_path, published[1])


def test_an_unpacked_set_that_lacks_a_file_is_not_there(
    tmp_path: Path, published: tuple[Path, dict[str, RemoteSet]]
) -> None:
    placed(tmp_path, files())
    (tmp_path / "test_batch.bin").unlink()

    with pytest.raises(DataError, match=rf"{tmp_path} lacks cifar-10-binary\.tar\.gz"):
        load(tmp_path, published[1])


def test_the_set_is_found_below_fleetsim_data_and_then_in_the_cache(
    tmp_path: Path, published: tuple[Path, dict[str, RemoteSet]], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, registry = published
    monkeypatch.setattr(fetch, "cache_folder", lambda name: home)
    monkeypatch.delenv("FLEETSIM_DATA", raising=False)

    assert len(load(None, registry).train_labels) == 20

    own = placed(tmp_path / "own" / "cifar10", {"cifar-10-binary.tar.gz": b"mine"})
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path / "own"))
    with pytest.raises(DataError, match=rf"{own}/cifar-10-binary\.tar\.gz: not the published"):
        load(None, registry)


# --- fewer samples ------------------------------------------------------------------------------


def test_fewer_samples_are_the_first_of_each_class_in_their_own_order(
    published: tuple[Path, dict[str, RemoteSet]],
) -> None:
    data = load(*published, train_samples=10)
    everything = load(*published)

    assert np.array_equal(data.train_inputs, everything.train_inputs[:10])
    assert data.train_labels.tolist() == list(range(10))
    assert np.array_equal(data.test_inputs, everything.test_inputs)


@pytest.mark.parametrize("samples", [0, 15, 50_010])
def test_a_number_of_samples_that_is_not_one_of_all_classes_is_refused(samples: int) -> None:
    with pytest.raises(ValidationError):
        Cifar10Settings(train_samples=samples)
    with pytest.raises(ValidationError):
        Cifar10Settings(test_samples=samples)


# --- folders of pictures ------------------------------------------------------------------------


def pictures(home: Path, num_per_class: int = 2) -> Path:
    """Pictures of a single colour, PNG, so that it comes back as it was."""
    for label, name in enumerate(CLASSES):
        (home / name).mkdir(parents=True)
        for number in range(num_per_class):
            image = Image.new("RGB", (32, 32), (label, number, 255))
            image.save(home / name / f"{number}.png")
    return home


def test_pictures_come_class_by_class_in_the_order_of_their_names(tmp_path: Path) -> None:
    found = read_folder(pictures(tmp_path), num_per_class=2)

    assert found.labels.tolist() == sorted([*range(10), *range(10)])
    assert found.images.shape == (20, 3, 32, 32)
    assert found.images.flags.c_contiguous
    for index, image in enumerate(found.images):
        assert [np.unique(channel).tolist() for channel in image] == [
            [index // 2],
            [index % 2],
            [255],
        ]


def test_of_the_pictures_too_the_first_are_taken(tmp_path: Path) -> None:
    found = read_folder(pictures(tmp_path), num_per_class=2, wanted=1)

    assert found.labels.tolist() == list(range(10))
    assert found.images[:, 1].max() == 0


def test_a_jpeg_keeps_rows_columns_and_channels(tmp_path: Path) -> None:
    pictures(tmp_path, num_per_class=0)
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:16, :, 0] = 200
    pixels[:, :16, 2] = 100
    for name in CLASSES:
        Image.fromarray(pixels).save(tmp_path / name / "a.JPG", quality=95, subsampling=0)

    image = read_folder(tmp_path, num_per_class=1).images[0].astype(np.int64)

    assert np.abs(image - pixels.transpose(2, 0, 1)).max() <= 12


def test_a_missing_class_is_told(tmp_path: Path) -> None:
    pictures(tmp_path)
    (tmp_path / "ship").rename(tmp_path / "boat")

    with pytest.raises(DataError, match=r"ship is no folder; .* one per class"):
        read_folder(tmp_path, num_per_class=2)


def test_a_class_with_another_number_of_pictures_is_told(tmp_path: Path) -> None:
    pictures(tmp_path)
    (tmp_path / "frog" / "1.png").rename(tmp_path / "frog" / "1.txt")

    with pytest.raises(DataError, match=r"frog: 1 pictures \(JPEG or PNG\), CIFAR-10 has 2"):
        read_folder(tmp_path, num_per_class=2)


@pytest.mark.parametrize(
    ("size", "mode", "says"),
    [((32, 31), "RGB", "32 x 31 pixels in mode RGB"), ((32, 32), "L", "32 x 32 pixels in mode L")],
)
def test_a_picture_of_another_kind_is_told(
    tmp_path: Path, size: tuple[int, int], mode: str, says: str
) -> None:
    path = pictures(tmp_path) / "cat" / "0.png"
    Image.new(mode, size).save(path)

    with pytest.raises(DataError, match=rf"cat/0\.png: {says}, expected 32 x 32 in RGB"):
        read_folder(tmp_path, num_per_class=2)


@pytest.mark.parametrize("keep", [0, 8, 60])
def test_a_damaged_picture_is_told(tmp_path: Path, keep: int) -> None:
    path = pictures(tmp_path) / "cat" / "0.png"
    path.write_bytes(path.read_bytes()[:keep])

    with pytest.raises(DataError, match=r"cat/0\.png: no readable picture"):
        read_folder(tmp_path, num_per_class=2)


def test_a_folder_with_a_train_folder_is_read_as_pictures_of_the_whole_set(tmp_path: Path) -> None:
    pictures(tmp_path / "train")

    with pytest.raises(DataError, match=r"train/airplane: 2 pictures .*, CIFAR-10 has 5000"):
        load(tmp_path, dict(REGISTRY))


def test_pictures_are_found_below_the_data_folder_and_the_archive_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path))
    home = tmp_path / "data" / "cifar10"
    pictures(home / "train")

    with pytest.raises(DataError, match=r"train/airplane: 2 pictures .*, CIFAR-10 has 5000"):
        load(None, dict(REGISTRY))

    (home / "cifar-10-binary.tar.gz").write_bytes(b"")

    with pytest.raises(DataError, match="not the published file"):
        load(None, dict(REGISTRY))


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
@pytest.mark.parametrize("pictures_at", ["cifar10", "data/cifar10"])
def test_unpacked_files_come_before_pictures_in_the_same_or_a_later_folder(
    tmp_path: Path,
    published: tuple[Path, dict[str, RemoteSet]],
    monkeypatch: pytest.MonkeyPatch,
    inner: str,
    pictures_at: str,
) -> None:
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path))
    placed(tmp_path / "cifar10" / inner, files())
    pictures(tmp_path / pictures_at / "train")

    assert len(load(None, published[1]).train_labels) == 20  # that of the files


def test_pictures_come_before_unpacked_files_in_a_later_folder(
    tmp_path: Path, published: tuple[Path, dict[str, RemoteSet]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETSIM_DATA", str(tmp_path))
    pictures(tmp_path / "cifar10" / "train")
    placed(tmp_path / "data" / "cifar10", files())

    with pytest.raises(DataError, match=r"train/airplane: 2 pictures .*, CIFAR-10 has 5000"):
        load(None, published[1])


# --- the real pictures --------------------------------------------------------------------------


@pytest.fixture
def real_pictures(real_data: Callable[[str], Path], tmp_path: Path) -> Path:
    """Folder of all 60,000 pictures as JPEG."""
    with tarfile.open(real_data("cifar10-jpeg") / "cifar10-jpeg.tar.xz") as tar:
        tar.extractall(tmp_path / "pictures", filter="data")
    return tmp_path / "pictures"


@pytest.mark.slow
def test_the_real_pictures_are_balanced_and_have_the_published_mean(real_pictures: Path) -> None:
    data = load(real_pictures, dict(REGISTRY))

    assert data.train_inputs.shape == (50_000, 3, 32, 32)
    assert np.bincount(data.train_labels).tolist() == [5_000] * 10
    assert np.bincount(data.test_labels).tolist() == [1_000] * 10
    # JPEG smooths: means stay within half a grey level, deviations lose a hundredth.
    means = np.asarray(data.train_inputs).mean(axis=(0, 2, 3), dtype=np.float64)
    stds = np.asarray(data.train_inputs).std(axis=(0, 2, 3), dtype=np.float64)
    assert np.abs(means).max() < 0.5 / 255 / 0.2435
    assert np.all((stds > 0.98) & (stds < 1.0))


@pytest.mark.slow
def test_the_bundled_scenarios_run_on_the_real_pictures(
    real_pictures: Path, tmp_path: Path
) -> None:
    sizes = {"resnet18": 11_173_962, "vgg16": 14_728_266, "shufflenet-v2": 1_263_854}
    changes = [f"task.dataset.folder={real_pictures}", "stop.rounds=2"]
    for model, num_parameters in sizes.items():
        scenario = scenarios.load(f"cifar10-{model}", changes)

        done = run(scenario, out=tmp_path / model, train=False)

        assert done.manifest.rounds == 2
        delivered = done.tasks[done.tasks.outcome == "delivered"]
        assert set(delivered.download_byte) == set(delivered.upload_byte) == {4 * num_parameters}
