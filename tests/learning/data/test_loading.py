import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from fleetsim.errors import DataError
from fleetsim.learning.data import loading
from fleetsim.learning.data.built_in import DigitsSettings, SyntheticSettings, generate_user
from fleetsim.learning.data.dataset import ByteImages, Dataset, moments_in
from fleetsim.learning.data.dataset_kind import RemoteSet
from fleetsim.learning.data.loading import DatasetSettings, Prefetch, load_dataset
from fleetsim.learning.data.published.mnist import FashionMnistSettings, MnistSettings
from tests.learning.data.stand_ins import idx, load_stand_in, placed, stand_in

IMAGES = np.zeros((3, 2, 4), np.uint8)
IMAGES[0] = 255
IMAGES[2, 1, 3] = 51
QMNIST = [[4, 0, 77, 0], [0, 0, 12, 0], [9, 0, 77, 0]]
"""Class, series, writer, .. of three training images."""
_WRITERS = "qmnist-train-labels-idx2-int"


def load(settings: DatasetSettings, *, seed: int = 1, num_clients: int = 4) -> Dataset:
    return load_dataset(settings, seed=seed, num_clients=num_clients)


def tiny_set(folder: Path, name: str, writers: list[list[int]] = QMNIST) -> dict[str, RemoteSet]:
    """Three training images and one test image in the files of MNIST, and their registry."""
    contents = {
        "train-images-idx3-ubyte": idx(IMAGES), "train-labels-idx1-ubyte": idx(np.array([4, 0, 9])),
        "t10k-images-idx3-ubyte": idx(IMAGES[:1]), "t10k-labels-idx1-ubyte": idx(np.array([7])),
        _WRITERS: idx(np.array(writers), 0x0C, ">i4"),
    }  # fmt: skip
    placed(folder, contents)
    packed = {f"{file}.gz": content for file, content in contents.items()}
    return stand_in(name, packed, extras=[f"{_WRITERS}.gz"])


def test_digits_are_all_there_with_their_labels_scaled_to_one() -> None:
    data, source = load(DigitsSettings()), load_digits()
    train = np.asarray(data.train_inputs)

    def samples(images: NDArray[Any], labels: NDArray[Any]) -> list[tuple[bytes, int]]:
        pixels = images.astype(np.float32)
        return [(image.tobytes(), int(label)) for image, label in zip(pixels, labels, strict=True)]

    assert (train.shape, train.dtype) == ((1438, 1, 8, 8), np.dtype(np.float32))
    result = samples(train, data.train_labels) + samples(data.test_inputs, data.test_labels)
    assert sorted(result) == sorted(samples(source.images / 16, source.target))
    assert data.owner is None
    # Known before it is read.
    assert DigitsSettings().num_training() == len(data.train_labels)
    assert DigitsSettings().num_labels() == data.num_classes


def test_every_class_of_digits_is_split_four_to_one_and_alike_for_every_scenario() -> None:
    data, other = load(DigitsSettings(), seed=1), load(DigitsSettings(), seed=2, num_clients=9)
    test = np.bincount(data.test_labels)
    both = test + np.bincount(data.train_labels)

    assert np.all(np.abs(test - both / 5) <= 0.5)
    assert np.array_equal(data.test_inputs, other.test_inputs)


@pytest.mark.parametrize(
    ("settings", "mean", "std"),
    [
        (MnistSettings(), 0.1307, 0.3081),
        (FashionMnistSettings(), 0.2860, 0.3530),
        (MnistSettings(pixels="raw"), 0.0, 1 / 255),
        (FashionMnistSettings(pixels="symmetric"), 0.5, 0.5),
        (FashionMnistSettings(pixels="unit"), 0.0, 1.0),
    ],
)
def test_pixels_are_standardised_with_the_published_figures(tmp_path, settings, mean, std):
    registry = tiny_set(tmp_path, settings.kind)
    chosen = settings.model_copy(update={"folder": str(tmp_path)})

    data = load_stand_in(chosen, registry)

    assert isinstance(data.train_inputs, ByteImages)
    inputs = np.asarray(data.train_inputs)
    assert (data.name, inputs.shape) == (settings.kind, (3, 1, 2, 4))
    assert inputs[0] == pytest.approx((1 - mean) / std)
    assert inputs[1] == pytest.approx(-mean / std)
    assert inputs[2, 0, 1, 3] == pytest.approx((0.2 - mean) / std)
    assert data.test_inputs == pytest.approx(inputs[:1])
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([4, 0, 9], [7])


def test_writers_are_numbered_in_the_order_of_their_ids_and_those_of_other_images_refused(tmp_path):
    settings = MnistSettings(folder=str(tmp_path), writers=True)

    data = load_stand_in(settings, tiny_set(tmp_path, "mnist"))

    assert np.asarray(data.owner).tolist() == [1, 0, 1]
    for writers, message in (
        ([[4, 0, 77], [0, 0, 12], [8, 0, 77]], "row 2 is of class 8, but .* 2 is of class 9"),
        ([[4, 0, 77], [0, 0, 12]], r"for each of 3 training images, found shape \(2, 3\)"),
        ([[4, 0], [0, 0], [9, 0]], r"QMNIST label columns .* found shape \(3, 2\)"),
    ):
        with pytest.raises(DataError, match=message):
            load_stand_in(settings, tiny_set(tmp_path, "mnist", writers))


@pytest.mark.slow
def test_the_published_sets_have_the_published_moments_and_mnist_539_writers(real_data) -> None:
    mnist = load(MnistSettings(folder=str(real_data("mnist")), writers=True))
    fashion = load(FashionMnistSettings(folder=str(real_data("fashion-mnist"))))

    assert mnist.train_inputs.shape == (60_000, 1, 28, 28)
    sizes = np.bincount(np.asarray(mnist.owner))
    assert (len(sizes), sizes.min(), sizes.max()) == (539, 19, 131)
    assert np.bincount(fashion.train_labels).tolist() == [6000] * 10
    assert np.bincount(fashion.test_labels).tolist() == [1000] * 10
    for images in (mnist.train_inputs, fashion.train_inputs):
        assert isinstance(images, ByteImages)
        # The published ones are rounded to four digits.
        moments = np.array(moments_in(images.pixels))
        assert moments == pytest.approx(np.array([images.mean, images.std]), abs=5e-5)


def test_nine_tenths_of_every_user_are_for_training() -> None:
    settings = SyntheticSettings(dimension=3, num_classes=4)
    data = load(settings, num_clients=5)
    users = [generate_user(settings, seed=1, user=user) for user in range(5)]

    assert data.owner is not None
    assert np.bincount(data.owner).tolist() == [9 * len(user.labels) // 10 for user in users]
    assert len(data.train_labels) + len(data.test_labels) == sum(len(u.labels) for u in users)
    for number, user in enumerate(users):
        held = data.train_inputs[data.owner == number]
        assert np.array_equal(held, user.inputs[: len(held)])
        assert np.array_equal(data.train_labels[data.owner == number], user.labels[: len(held)])
    assert np.array_equal(data.test_inputs[-1], users[-1].inputs[-1])
    assert data.test_labels[-1] == users[-1].labels[-1]


SYNTHETIC = SyntheticSettings(alpha=1.0, beta=1.0)


@pytest.mark.parametrize("settings", [SYNTHETIC, DigitsSettings()])
def test_a_prefetched_set_is_the_one_that_the_arguments_name(settings: DatasetSettings) -> None:
    result, plain = Prefetch(settings, seed=3, num_clients=4).take(), load(settings, seed=3)

    assert np.array_equal(result.train_inputs, plain.train_inputs)
    assert np.array_equal(result.test_labels, plain.test_labels)


class _WithLibrary(SyntheticSettings):
    """A data set whose loading imports a library."""

    imports_library: ClassVar[bool] = True


def test_it_is_read_before_anybody_asks_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    is_read = threading.Event()

    def spy(*args: object, **kwargs: object) -> Dataset:
        threads.append(threading.current_thread().name)
        result = load_dataset(*args, **kwargs)  # type: ignore[arg-type]
        is_read.set()
        return result

    monkeypatch.setattr(loading, "load_dataset", spy)
    reading = Prefetch(SYNTHETIC, seed=3, num_clients=4)
    assert is_read.wait(60)

    # It is not kept: who asks again waits for another.
    assert reading.take() is not reading.take()
    assert threads == ["fleetsim data", threading.current_thread().name]
    # A library is not imported beside whatever is imported now.
    Prefetch(_WithLibrary(), seed=3, num_clients=4)
    assert len(threads) == 2


def test_its_faults_are_raised_where_it_is_taken(tmp_path: Path) -> None:
    reading = Prefetch(MnistSettings(folder=str(tmp_path)), seed=1, num_clients=2)

    with pytest.raises(DataError, match="train-images"):
        reading.take()
