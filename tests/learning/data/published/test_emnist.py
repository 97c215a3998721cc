import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.published.mnist import (
    EmnistSettings,
    Split,
    file_names,
    read_packed,
    read_unpacked,
)
from tests.learning.data.stand_ins import idx, load_stand_in, placed, stand_in, zipped

FIRST: Mapping[Split, int] = {"balanced": 0, "letters": 1}
LAST: Mapping[Split, int] = {"balanced": 46, "letters": 26}


def seven() -> np.ndarray:
    """An upright picture with its bar above and its stroke on the right."""
    image = np.zeros((28, 28), np.uint8)
    image[0, :] = 255
    image[:, 27] = 51
    return image


def files(split: Split, labels: list[int] | None = None) -> dict[str, bytes]:
    """Two training images and one test image, stored as EMNIST stores them."""
    train = [FIRST[split], LAST[split]] if labels is None else labels
    stored = seven().T
    contents = {}
    for part, part_labels in (("train", train), ("test", [FIRST[split]])):
        images_name, labels_name = file_names(split, "train" if part == "train" else "test")
        contents[images_name] = gzip.compress(idx(np.stack([stored] * len(part_labels))))
        contents[labels_name] = gzip.compress(idx(np.array(part_labels)))
    return contents


def archive(path: Path, contents: Mapping[str, bytes]) -> Path:
    return zipped(path, {f"gzip/{name}": content for name, content in contents.items()})


def load(folder: Path, split: Split = "balanced") -> Dataset:
    """The set in a folder, whose archive counts as the published one."""
    packed = folder / "gzip.zip"
    content = packed.read_bytes() if packed.is_file() else b""
    settings = EmnistSettings(split=split, folder=str(folder))
    registry = stand_in("emnist", {"gzip.zip": content})
    return load_stand_in(settings, registry)


@pytest.mark.parametrize(("split", "num_classes"), [("balanced", 47), ("letters", 26)])
def test_classes_count_from_zero_and_upright_pixels_are_standardised_by_the_training_part(
    tmp_path, split, num_classes
):
    path = archive(tmp_path / "gzip.zip", files(split))
    result = read_packed(path, split, "train")
    pixels = seven() / 255

    data = load(tmp_path, split)

    assert result.images.shape == (2, 1, 28, 28)
    assert np.array_equal(result.images[0, 0], seven())
    assert (data.name, data.num_classes, data.owner) == ("emnist", num_classes, None)
    assert data.train_labels.tolist() == [0, num_classes - 1]
    assert data.test_labels.tolist() == [0]
    expected = (pixels - pixels.mean()) / pixels.std()
    assert np.asarray(data.train_inputs).dtype == np.float32
    assert np.asarray(data.train_inputs)[1, 0] == pytest.approx(expected, abs=1e-5)
    assert data.test_inputs[0, 0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("inner", ["", "gzip"])
@pytest.mark.parametrize("is_packed", [True, False])
def test_unpacked_files_are_read_with_and_without_gzip(tmp_path, inner, is_packed):
    contents = files("letters")
    if not is_packed:
        contents = {
            name.removesuffix(".gz"): gzip.decompress(content) for name, content in contents.items()
        }
    placed(tmp_path / "home" / inner, contents)
    path = archive(tmp_path / "gzip.zip", files("letters"))

    result = read_unpacked(tmp_path / "home", "letters", "train", num_images=2)

    assert np.array_equal(result.images, read_packed(path, "letters", "train").images)
    assert result.labels.tolist() == [0, 25]


def test_a_folder_without_the_set_is_told_with_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gzip\.zip nor emnist-letters-train-images-.*\.gz; put"):
        load(tmp_path, "letters")
    with pytest.raises(DataError, match=r"data set emnist not found: .*nowhere is no folder"):
        load(tmp_path / "nowhere")
    placed(tmp_path, files("balanced"))
    with pytest.raises(DataError, match=r"train-images.*: 2 images, EMNIST has 112800"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("split", "labels", "width", "message"),
    [
        ("balanced", [0, 47], 28, r"train-labels.*: label 47 of sample 1 is outside 0\.\.46"),
        ("letters", [0, 1], 28, r"train-labels.*: label 0 of sample 0 is outside 1\.\.26"),
        ("letters", [26, 27], 28, r"train-labels.*: label 27 of sample 1 is outside 1\.\.26"),
        ("balanced", [0, 46], 27, "images of 28 x 27 pixels, EMNIST's are 28 x 28"),
    ],
)
def test_a_label_or_size_out_of_range_is_told_as_the_file_has_it(
    tmp_path, split, labels, width, message
):
    images = {file_names(split, "train")[0]: idx(np.zeros((2, 28, width)))}
    path = archive(tmp_path / "gzip.zip", files(split, labels) | images)

    with pytest.raises(DataError, match=rf"gzip\.zip, gzip/emnist-{split}-.*{message}"):
        read_packed(path, split, "train")
