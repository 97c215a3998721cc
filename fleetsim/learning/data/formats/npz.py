"""Arrays in .npz files of unknown origin, which are not trusted.

An .npz file is a zip archive with one .npy file per array. The header of a .npy file is a Python
dict as text:

- It is matched against the form that numpy writes, and never evaluated.
- Before memory is taken, the size in it is compared with the length of the member, and that with
  the limit of `fleetsim.host.unpacking`.
- Arrays of Python objects are pickles, so they are refused, as are records and members that are
  neither stored nor deflated.
"""

import math
import os
import re
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.host.unpacking import limit_byte, too_large
from fleetsim.learning.data.formats.archives import PLAIN_METHODS, damage_as_error

_SUFFIX = ".npy"
_MAGIC = b"\x93NUMPY"
_LENGTH_BYTE = {(1, 0): 2, (2, 0): 4}
_MAX_HEADER_BYTE = 10_000
_MAX_DIMENSIONS = 32
_CHUNK_BYTE = 1 << 20
_T = TypeVar("_T")
_HEADER = re.compile(
    r"\{\s*'descr':\s*'(?P<descr>[^'\\]*)',\s*'fortran_order':\s*(?P<order>True|False),"
    r"\s*'shape':\s*\((?P<shape>[0-9, ]*)\),?\s*\}\s*"
)
_PLAIN_DESCR = re.compile(r"[<>|=]?[biufcSUO][0-9]{0,9}")


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool
    num_byte: int
    """Length of the header."""


class _NotAnArrayError(ValueError):
    """Error of a file that is no readable .npy file."""


def read_npz(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return those of the named arrays that a file has, by name; others are not read."""
    arrays = ((name, _read(path, name, _array)) for name in names)
    return {name: array for name, array in arrays if array is not None}


def npz_shape(path: Path, name: str) -> tuple[int, ...] | None:
    """Return the shape of one array, None if the file has no such array; reads no elements."""
    header = _read(path, name, _header_of)
    return None if header is None else header.shape


def _read(
    path: Path, name: str, take: Callable[[IO[bytes], zipfile.ZipInfo, str], _T]
) -> _T | None:
    """Return what `take` reads of one array; None if the file has no such array."""
    with (
        paths.opened(path) as file,
        damage_as_error(f"{path}: damaged .npz file", "write it anew"),
        zipfile.ZipFile(file) as packed,
    ):
        if name + _SUFFIX not in packed.namelist():
            return None
        member, place = packed.getinfo(name + _SUFFIX), f"{path}: {name}"
        if member.compress_type not in PLAIN_METHODS:
            raise DataError(
                f"{place} is packed by an unusual method; save it with np.savez_compressed"
            )
        packed_byte = min(member.compress_size, os.fstat(file.fileno()).st_size)
        if member.file_size > packed_byte and member.file_size > limit_byte(packed_byte):
            raise too_large(place, packed_byte, limit_byte(packed_byte))
        with packed.open(member) as content:
            return take(content, member, place)


def _header_of(file: IO[bytes], member: zipfile.ZipInfo, place: str) -> _Header:
    """Return the header of an opened member, checked against the member's length."""
    try:
        header = _header(file, place)
    except _NotAnArrayError as error:
        message = f"{place} is no array that numpy can read ({error})"
        raise DataError(f"{message}; save it with np.savez") from error
    expected = header.num_byte + math.prod(header.shape) * header.dtype.itemsize
    if expected != member.file_size:
        raise DataError(
            f"{place}: its header announces shape {str(header.shape)[:60]} of {header.dtype},"
            f" so {str(expected)[:60]} bytes, found {member.file_size}; write the file anew"
        )
    return header


def _array(file: IO[bytes], member: zipfile.ZipInfo, place: str) -> NDArray[Any]:
    """Return the array of an opened member; errors call it `place`."""
    header = _header_of(file, member, place)
    try:
        content = np.empty(member.file_size - header.num_byte, np.uint8)
    except MemoryError as error:
        raise DataError(f"{place} does not fit into memory: {error}; split it") from error
    view, num_read = content.data, 0
    while part := file.read(_CHUNK_BYTE):
        view[num_read : num_read + len(part)] = part
        num_read += len(part)
    if num_read < len(view):
        raise DataError(
            f"{place}: {len(view)} bytes of elements announced, found {num_read}; write the file"
            " anew"
        )
    elements = content.view(header.dtype)
    return elements.reshape(header.shape, order="F" if header.is_fortran else "C")


def _header(file: IO[bytes], place: str) -> _Header:
    """Return the header of a .npy file that is at its start."""
    begin = file.read(len(_MAGIC) + 2)
    if len(begin) < len(_MAGIC) + 2 or not begin.startswith(_MAGIC):
        raise _NotAnArrayError(f"it begins with bytes {begin.hex(' ') or 'none'}")
    version = begin[-2], begin[-1]
    if version not in _LENGTH_BYTE:
        raise DataError(
            f"{place}: .npy version {version} is not read; save it with numpy's default"
        )
    length = file.read(_LENGTH_BYTE[version])
    header_byte = int.from_bytes(length, "little")
    if header_byte > _MAX_HEADER_BYTE:
        raise _NotAnArrayError(f"a header of {header_byte} bytes, at most {_MAX_HEADER_BYTE}")
    text = file.read(header_byte)
    if len(length) < _LENGTH_BYTE[version] or len(text) < header_byte:
        raise _NotAnArrayError("it ends within its header")
    return _parsed(text.decode("latin-1"), len(begin) + len(length) + header_byte, place)


def _parsed(text: str, num_byte: int, place: str) -> _Header:
    match = _HEADER.fullmatch(text)
    if match is None:
        raise _NotAnArrayError("its header is not of the form that numpy writes for an array")
    if _PLAIN_DESCR.fullmatch(match["descr"]) is None:
        raise _NotAnArrayError(f"elements of type {match['descr'][:40]!a}")
    try:
        dtype = np.dtype(match["descr"])
        sides = [int(side) for side in match["shape"].split(",") if side.strip()]
    except (TypeError, ValueError, OverflowError) as error:
        raise _NotAnArrayError(f"its header: {' '.join(str(error).split())[:80]}") from error
    if dtype.hasobject:
        raise DataError(
            f"{place} holds Python objects, which are never unpickled; save an array of numbers"
        )
    if (
        dtype.itemsize == 0
        or len(sides) > _MAX_DIMENSIONS
        or math.prod(filter(None, sides)) >= 2**60
    ):
        shown = f"{dtype} in {len(sides)} dimensions"
        raise _NotAnArrayError(f"{shown}, which is empty, too deep or too large")
    return _Header(tuple(sides), dtype, match["order"] == "True", num_byte)
