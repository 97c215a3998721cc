import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import LabelledImages
from fleetsim.learning.data.formats.idx import labelled_images, read_idx

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
