"""Arrays in IDX files, the format of MNIST and its relatives.

An IDX file is a big-endian header (two zero bytes, a code for the element type, the number of
dimensions, then each dimension as an unsigned 32-bit integer) followed by the elements in row-major
order, and nothing else (LeCun, Cortes and Burges, "The MNIST database of handwritten digits"). It
is published gzipped; both forms are read, told apart by the first bytes, not by the suffix.
"""

import io
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.host.unpacking import GZIP_FAULTS, GZIP_MAGIC, RAISE_LIMIT, limit_byte, unpacked
from fleetsim.learning.data.dataset import LabelledImages

_PREFIX_BYTE = 4
_DIMENSION_BYTE = 4
_MAX_DIMENSIONS = 32
_CHUNK_BYTE = 1 << 20
_T = TypeVar("_T")
Placed = tuple[NDArray[Any], str]
"""Array of an IDX file, and the name of the file in errors."""
_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> NDArray[Any]:
    """Return the array in an IDX file, gzipped or not, in native byte order and writable."""
    with paths.opened(path) as file:
        return _read(file, os.fstat(file.fileno()).st_size, str(path), _array)


def idx_shape(path: Path) -> tuple[int, ...]:
    """Return the shape in the header of an IDX file, gzipped or not; reads no elements."""
    with paths.opened(path) as file:
        return _read(file, os.fstat(file.fileno()).st_size, str(path), _header).shape


def parse_idx(packed: bytes, path: str) -> NDArray[Any]:
    """Return the array in the bytes of an IDX file, gzipped or not; errors call it `path`."""
    return _read(io.BytesIO(packed), len(packed), path, _array)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    num_byte: int
    """Length of the header."""
    expected_byte: int
    """Length of the whole file, unpacked."""
    announces: str
    """Words on shape and length, for errors."""


def _read(
    file: io.BufferedIOBase,
    num_byte: int,
    path: str,
    take: Callable[[io.BufferedIOBase, int | None, int | None, str], _T],
) -> _T:
    """Return what `take` reads from an open file, unpacked on the way if it is gzipped."""
    is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    file.seek(0)
    if not is_packed:
        return take(file, num_byte, None, path)
    try:
        return take(unpacked(file, num_byte, path), None, limit_byte(num_byte), path)
    except EOFError as fault:
        message = "truncated: the gzip checksum at its end is cut; get it anew"
        raise DataError(f"{path}: {message}") from fault
    except GZIP_FAULTS as fault:
        raise DataError(f"{path}: damaged gzip file ({fault}); get the file anew") from fault


def _header(
    stream: io.BufferedIOBase, actual_byte: int | None, limit: int | None, path: str
) -> _Header:
    """Return the header of a stream of unpacked bytes, checked against its length and limit.

    The length `actual_byte` is None where the stream is unpacked on the way, and its limit is None
    where it is not.
    """
    prefix = bytearray(_PREFIX_BYTE)
    num_prefix = _fill(stream, prefix)
    if num_prefix < _PREFIX_BYTE or prefix[:2] != b"\0\0" or prefix[2] not in _DTYPES:
        raise DataError(
            f"{path}: not an IDX file: it begins with bytes {prefix[:num_prefix].hex(' ')}, "
            "expected 00 00, an element type (08, 09, 0b, 0c, 0d or 0e) and a number of dimensions;"
            " get the file anew"
        )
    dtype, num_dimensions = np.dtype(_DTYPES[prefix[2]]), prefix[3]
    header_byte = _PREFIX_BYTE + _DIMENSION_BYTE * num_dimensions
    dimensions = bytearray(_DIMENSION_BYTE * num_dimensions)
    num_read = _PREFIX_BYTE + _fill(stream, dimensions)
    if num_read < header_byte:
        raise DataError(
            f"{path}: truncated: the header of {num_dimensions} dimensions takes {header_byte} "
            f"bytes, found {num_read}; get the file anew"
        )
    if num_dimensions > _MAX_DIMENSIONS:
        raise DataError(
            f"{path}: has {num_dimensions} dimensions, at most {_MAX_DIMENSIONS} are read; write it"
            " anew"
        )
    shape = tuple(np.frombuffer(dimensions, ">u4").tolist())
    expected_byte = header_byte + math.prod(shape) * dtype.itemsize
    announces = (
        f"its header announces shape {_cut(shape)} of {dtype.itemsize}-byte elements, so"
        f" {_cut(expected_byte)} bytes unpacked"
    )
    if actual_byte is not None and actual_byte != expected_byte:
        fault = "truncated" if actual_byte < expected_byte else "too long"
        raise DataError(f"{path}: {fault}: {announces}, found {actual_byte}; get the file anew")
    if limit is not None and expected_byte > limit:
        raise DataError(f"{path}: {announces}, more than the {limit} allowed; {RAISE_LIMIT}")
    return _Header(shape, dtype, header_byte, expected_byte, announces)


def _array(
    stream: io.BufferedIOBase, actual_byte: int | None, limit: int | None, path: str
) -> NDArray[Any]:
    """Return the array in a stream of unpacked bytes; memory is taken once its header is right."""
    header = _header(stream, actual_byte, limit, path)
    announces = header.announces
    content = np.empty(header.expected_byte - header.num_byte, np.uint8)
    num_read = header.num_byte + _fill(stream, content.data)
    if num_read < header.expected_byte:
        raise DataError(f"{path}: truncated: {announces}, found {num_read}; get the file anew")
    if stream.read(1):
        raise DataError(f"{path}: too long: {announces}, found more; get the file anew")
    try:
        elements = content.view(header.dtype).reshape(header.shape)
    except ValueError as fault:  # an empty array whose other sides are beyond numpy's
        raise DataError(f"{path}: {announces}, which numpy cannot hold; get it anew") from fault
    return elements.astype(header.dtype.newbyteorder("="), copy=False)


def _cut(value: object) -> str:
    """Return a value as text, cut to 60 characters."""
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fill(stream: io.BufferedIOBase, buffer: bytearray | memoryview) -> int:
    """Read until a buffer is full or the stream ends; return the number of bytes read."""
    view, num_read = memoryview(buffer), 0
    while num_read < len(view):
        try:
            part = stream.read1(min(len(view) - num_read, _CHUNK_BYTE))
        except EOFError:
            break
        if not part:
            break
        view[num_read : num_read + len(part)] = part
        num_read += len(part)
    return num_read


def labelled_images(
    of_images: Placed, of_labels: Placed, *, num_classes: int, first_label: int = 0
) -> LabelledImages:
    """Return gray images and their classes, from the arrays of two IDX files.

    Images are bytes [n, H, W], labels bytes [n]; class 0 has the label `first_label` in the file.
    """
    (images, images_path), (labels, labels_path) = of_images, of_labels
    if images.ndim != 3 or images.dtype != np.uint8:
        raise DataError(
            f"{images_path}: expected images of unsigned bytes in 3 dimensions, "
            f"found {images.dtype} in {images.ndim}"
        )
    if labels.ndim != 1 or labels.dtype != np.uint8:
        raise DataError(
            f"{labels_path}: expected labels of unsigned bytes in 1 dimension, "
            f"found {labels.dtype} in {labels.ndim}"
        )
    if len(labels) != len(images):
        raise DataError(
            f"{labels_path}: {len(labels)} labels for the {len(images)} images of {images_path}; "
            "the two files do not belong together"
        )
    classes = labels.astype(np.int64) - first_label
    outside = np.flatnonzero((classes < 0) | (classes >= num_classes))
    if outside.size:
        row = int(outside[0])
        raise DataError(
            f"{labels_path}: label {int(labels[row])} of sample {row} is outside "
            f"{first_label}..{first_label + num_classes - 1}"
        )
    return LabelledImages(images[:, None], classes)
