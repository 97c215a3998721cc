import gzip
import io
import itertools
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import LabelledImages
from fleetsim.learning.data.formats.archives import read_tar, read_zip
from fleetsim.learning.data.formats.idx import labelled_images, read_idx
from fleetsim.learning.data.formats.picture_files import (
    FolderPictures,
    PictureFiles,
    TarPictures,
    ZipPictures,
    pixels_of,
)
from tests.learning.data.stand_ins import picture, placed, tarred, zipped

NOISE = np.random.default_rng(1).bytes(4096)

every_form = pytest.mark.parametrize(
    ("packed", "read"), [(zipped, read_zip), (tarred, read_tar)], ids=["zip", "tar"]
)


@every_form
def test_only_the_files_that_are_wanted_are_read(tmp_path, packed, read):
    contents = {"x/b": b"2", "../x/a": b"no", "x/a": b"1", "bomb": bytes(10**6)}
    archive = packed(tmp_path / "a", contents)

    assert read(archive, ["x/b", "x/a"], max_byte=1) == {"x/a": b"1", "x/b": b"2"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@every_form
def test_a_file_that_is_missing_or_larger_than_allowed_is_refused(tmp_path, packed, read):
    archive = packed(tmp_path / "a", {"bomb": bytes(1001)})

    with pytest.raises(DataError, match=r"a: bomb is .* larger than 1000 bytes \(1001\)"):
        read(archive, ["bomb"], max_byte=1000)
    with pytest.raises(DataError, match=r"a: lacks one, two; get"):
        read(archive, ["two", "bomb", "one"], max_byte=1001)


@every_form
@pytest.mark.parametrize("keep", [0, 2, 40, 2000, -30])
def test_a_damaged_archive_is_refused(tmp_path, packed, read, keep):
    archive = packed(tmp_path / "a", {"x": NOISE})
    archive.write_bytes(archive.read_bytes()[:keep])

    with pytest.raises(DataError, match=r"a: damaged archive \(.+\); get it anew"):
        read(archive, ["x"], max_byte=9000)


def test_a_flipped_bit_in_a_zip_is_noticed(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", {"x": NOISE})
    archive.write_bytes(archive.read_bytes().replace(NOISE, NOISE[::-1]))

    with pytest.raises(DataError, match=r"a: damaged archive \(Bad CRC"):
        read_zip(archive, ["x"], max_byte=9000)


def test_a_file_that_is_twice_in_a_zip_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a", {"one": b"1"})
    with zipfile.ZipFile(archive, "a") as again, pytest.warns(UserWarning, match="Duplicate name"):
        again.writestr("one", b"other")

    with pytest.raises(DataError, match="one is there twice"):
        read_zip(archive, ["one"], max_byte=9)


@pytest.mark.parametrize("kinds", [b"2", b"1", b"5", b"00"])  # link, hard link, folder, twice
def test_a_member_of_a_tar_that_is_no_single_plain_file_is_refused(tmp_path, kinds):
    with tarfile.open(tmp_path / "a", "w:gz") as tar:
        for kind in kinds:
            member = tarfile.TarInfo("x/a")
            member.type, member.linkname = bytes([kind]), "/etc/hostname"
            tar.addfile(member)

    with pytest.raises(DataError, match="a: x/a is there twice, no plain file, or"):
        read_tar(tmp_path / "a", ["x/a"], max_byte=9)


Array = NDArray[Any]
TYPES = {
    "uint8": (0x08, "B"),
    "int8": (0x09, "b"),
    "int16": (0x0B, "h"),
    "int32": (0x0C, "i"),
    "float32": (0x0D, "f"),
    "float64": (0x0E, "d"),
}
"""Code of the file and letter of `struct` of each type."""


def idx_bytes(array: Array) -> bytes:
    """The format as its definition says it, element by element."""
    code, letter = TYPES[array.dtype.name]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + struct.pack(f">{array.size}{letter}", *array.ravel().tolist())


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
@pytest.mark.parametrize("name", TYPES)
def test_what_is_written_is_read_gzipped_or_not_whatever_its_suffix(tmp_path, name, shape):
    array = np.arange(-5, np.prod(shape) - 5).astype(name).reshape(shape)
    content = idx_bytes(array)

    plain = read_idx(write(tmp_path / "raw.gz", content))
    packed = read_idx(write(tmp_path / "no-suffix", gzip.compress(content)))

    for result in (plain, packed):
        assert (result.dtype, result.shape) == (array.dtype, array.shape)
        assert result.tolist() == array.tolist()


GOOD = idx_bytes(np.arange(200, dtype=np.uint8).reshape(2, 10, 10))
PACKED = gzip.compress(GOOD)


BROKEN = [
    (GOOD[:-30], "truncated: .*216 bytes unpacked, found 186"),
    (GOOD + b"\0", "too long: .*216 bytes unpacked, found 217"),
    (PACKED[:-60], r"truncated: .*216 bytes unpacked, found \d+"),
    (PACKED[:-4], "truncated: the gzip checksum at its end is cut"),
    (GOOD[:10], "header of 3 dimensions takes 16 bytes, found 10"),
    (b"", "not an IDX file"),
    (b"\x89PNG1234", "not an IDX file: it begins with bytes 89 50 4e 47"),
    (b"\0\0\x0a\x01\0\0\0\0", "not an IDX file.* 00 00 0a 01"),
    (PACKED[:-8] + b"\0" * 8, "damaged gzip file"),
    (PACKED[:60] + b"\xff" * 20 + PACKED[80:], "damaged gzip file"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_a_broken_file_is_named_with_what_was_expected_and_found(tmp_path, content, message):
    path = write(tmp_path / "broken", content)

    with pytest.raises(DataError, match=rf"^{path}: .*{message}") as caught:
        read_idx(path)
    assert "\n" not in str(caught.value)


def labelled(images: Array, labels: Array, num_classes: int = 10) -> LabelledImages:
    return labelled_images((images, "images"), (labels, "labels"), num_classes=num_classes)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 3, 3), np.uint8), np.zeros(3, np.uint8), "labels: 3 labels for the 2 images"),
        (np.zeros((2, 3, 3), np.uint8), np.array([1, 7], np.uint8), "label 7 of sample 1 .* 0..6"),
        (np.zeros((2, 3, 3), np.int32), np.zeros(2, np.uint8), "images: .* found int32 in 3"),
        (np.zeros((2, 3, 3), np.uint8), np.zeros((2, 1), np.uint8), "labels: expected .* in 2"),
    ],
)
def test_images_and_labels_that_do_not_fit_are_refused(images, labels, message):
    with pytest.raises(DataError, match=message):
        labelled(images, labels, num_classes=7)


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
    labels = {"a": ["train/cat/b.png"], "b": [], "c": ["train/dog/a.png", "train/cat/a.PNG"]}
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
    with pytest.raises(DataError, match=r"x/a\.png is packed by an unusual method"):
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
