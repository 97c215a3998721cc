import io
import itertools
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetsim.errors import DataError
from fleetsim.learning.data.formats.picture_files import (
    FolderPictures,
    PictureFiles,
    TarPictures,
    ZipPictures,
    pixels_of,
)
from tests.learning.data.stand_ins import picture, placed, tarred, zipped

SIZE = (4, 3)
RED, GREEN, BLUE = (picture(colour, (4, 3)) for colour in ((9, 0, 0), (0, 8, 0), (0, 0, 7)))
CONTENTS = {
    "train/cat/b.png": GREEN,
    "train/cat/a.PNG": RED,
    "train/cat/.hidden.png": b"a file of a file manager",
    "train/cat/notes.txt": b"no picture",
    "train/cat/deep/c.png": BLUE,
    "train/dog/a.png": BLUE,
}

Placed = Callable[[Path, dict[str, bytes]], PictureFiles]


def in_folder(home: Path, contents: dict[str, bytes]) -> PictureFiles:
    return FolderPictures(placed(home / "unpacked", contents))


def in_tar(home: Path, contents: dict[str, bytes]) -> PictureFiles:
    return TarPictures(tarred(home / "a.tar.gz", contents), top="top")


def in_tar_of_dots(home: Path, contents: dict[str, bytes]) -> PictureFiles:
    return in_tar(home, {f"./{name}": content for name, content in contents.items()})


def in_zip_with_top(home: Path, contents: dict[str, bytes]) -> PictureFiles:
    named = {f"top/{name}": content for name, content in contents.items()}
    return ZipPictures(zipped(home / "a.zip", named), top="top")


PLACES = pytest.mark.parametrize("place", [in_folder, in_tar, in_tar_of_dots, in_zip_with_top])


@PLACES
def test_pictures_and_labels_come_in_the_order_that_was_asked_for(tmp_path, place):
    files = place(tmp_path, CONTENTS)
    before = list(tmp_path.iterdir())

    assert files.in_folder("train/cat") == ["train/cat/a.PNG", "train/cat/b.png"]
    assert files.in_folder("train/bird") == files.in_folder("train") == []
    images = files.images(["train/dog/a.png", "train/cat/b.png", "train/cat/a.PNG"], SIZE)
    labels = [["train/cat/b.png"], [], ["train/dog/a.png", "train/cat/a.PNG"]]
    pictures = files.labelled(labels, SIZE)

    assert (images.dtype, images.shape) == (np.uint8, (3, 3, 3, 4))
    assert (images == np.reshape([[0, 0, 7], [0, 8, 0], [9, 0, 0]], (3, 3, 1, 1))).all()
    assert pictures.labels.tolist() == [0, 2, 2]
    assert pictures.images[:, :, 0, 0].tolist() == [[0, 8, 0], [0, 0, 7], [9, 0, 0]]
    assert list(tmp_path.iterdir()) == before


@PLACES
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"lacks x/a\.png; get it anew"),
        (RED[:40], r"(a\.tar\.gz|a\.zip|unpacked), x/a\.png: no readable"),
        (RED + bytes(1 << 20), r"a\.png .*larger than 1048576 bytes"),
    ],
)
def test_a_picture_that_cannot_be_read_is_told(tmp_path, place, content, message):
    files = place(tmp_path, {"y/b.png": RED} if content is None else {"x/a.png": content})

    with pytest.raises(DataError, match=message):
        files.images(["x/a.png"], SIZE)


def test_damaged_archives_and_pictures_there_twice_or_packed_unusually_are_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("x/a.png"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("x/a.png", RED)

    with pytest.raises(DataError, match=r"x/a\.png is there twice; get"):
        TarPictures(tmp_path / "a.tar.gz", top="top").in_folder("x")
    with pytest.raises(DataError, match=r"x/a\.png is .* packed by an unusual method"):
        ZipPictures(tmp_path / "a.zip", top="top").images(["x/a.png"], SIZE)
    for keep, place in itertools.product((0, 30, 200), (in_tar, in_zip_with_top)):
        files = place(tmp_path, CONTENTS)
        files.place.write_bytes(files.place.read_bytes()[:keep])
        with pytest.raises(DataError, match=rf"{files.place.name}: damaged archive \(.+\); get"):
            files.in_folder("train/cat")


def test_rows_and_columns_stay_where_they_are() -> None:
    expected = np.zeros((3, 4, 3), np.uint8)
    expected[..., 0], expected[..., 1] = np.arange(4), np.arange(3)[:, None]
    content = io.BytesIO()
    Image.fromarray(expected).save(content, "PNG")

    assert np.array_equal(pixels_of(content.getvalue(), "a", size=(4, 3)), expected)


def test_a_grey_picture_has_three_equal_colours_where_any_mode_will_do() -> None:
    grey = picture(70, (4, 3), mode="L")

    assert (pixels_of(grey, "a", size=(4, 3), any_mode=True) == 70).all()
    with pytest.raises(DataError, match="a: 4 x 3 pixels in mode L, expected 4 x 3 in RGB"):
        pixels_of(grey, "a", size=(4, 3))


def test_a_huge_picture_is_refused_by_its_header() -> None:
    content = picture((0, 0, 0), (4, 3))
    # Width and height lie behind the signature and the head of the first chunk.
    huge = content[:16] + struct.pack(">II", 60_000, 60_000) + content[24:]

    with pytest.raises(DataError, match=r"^a: .*(60000 x 60000|no readable picture)"):
        pixels_of(huge, "a", size=(4, 3))
