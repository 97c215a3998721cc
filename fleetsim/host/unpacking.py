"""Limit of the bytes that a compressed file may unpack to, and gzip streams that keep it.

A few megabytes of gzip or zip can unpack to gigabytes. Images and traces compress less than
`MOST_RATIO`: the bundled traces by 4 to 6, MNIST by 5. Files that are not compressed have no limit.
"""

import contextlib
import gzip
import io
import os
import zlib

from fleetsim.errors import DataError

LIMIT_VARIABLE = "FLEETSIM_UNPACK_LIMIT_BYTE"
LEAST_LIMIT_BYTE = 64 << 20
MOST_RATIO = 32
GZIP_MAGIC = b"\x1f\x8b"
GZIP_FAULTS = (gzip.BadGzipFile, EOFError, zlib.error)

RAISE_LIMIT = (
    "if the file is yours, unpack it, or set the environment variable"
    f" {LIMIT_VARIABLE} to the bytes that a file may unpack to; else get it anew"
)

_MOST_DIGITS = 18
_CHUNK_BYTE = 1 << 16


def limit_byte(packed_byte: int) -> int:
    """Return the number of bytes that compressed bytes may unpack to."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    if not text:
        return max(LEAST_LIMIT_BYTE, MOST_RATIO * packed_byte)
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) > 0):
        raise DataError(
            f"{LIMIT_VARIABLE}={text[:80]}: must be a number of bytes of at most {_MOST_DIGITS}"
            " digits, such as 4000000000; correct or unset it"
        )
    return int(text)


def too_large(place: str, packed_byte: int, limit: int) -> DataError:
    """Return the error about a file that unpacks to more than its limit; `place` names it."""
    return DataError(
        f"{place}: {packed_byte} compressed bytes unpack to more than {limit}; {RAISE_LIMIT}"
    )


def unpacked(file: io.BufferedIOBase, packed_byte: int, place: str) -> io.BufferedReader:
    """Return the unpacked gzip stream; reading raises `GZIP_FAULTS` where it is damaged."""
    return io.BufferedReader(_Bounded(file, packed_byte, place))


def require_within_limit(file: io.BufferedIOBase, packed_byte: int, place: str) -> None:
    """Unpack a gzip stream, keep nothing, go back to its start; damage is left to the reader."""
    stream = unpacked(file, packed_byte, place)
    with contextlib.suppress(*GZIP_FAULTS):
        while stream.read1(_CHUNK_BYTE):
            pass
    file.seek(0)


def gunzip(content: bytes, place: str) -> bytes:
    """Return unpacked bytes; bytes that are not gzip unchanged. `place` names them in errors."""
    if not content.startswith(GZIP_MAGIC):
        return content
    try:
        return unpacked(io.BytesIO(content), len(content), place).read()
    except GZIP_FAULTS as fault:
        raise DataError(f"{place}: damaged gzip file ({fault}); get it anew") from fault


class _Bounded(io.RawIOBase):
    def __init__(self, file: io.BufferedIOBase, packed_byte: int, place: str) -> None:
        self._stream = gzip.GzipFile(fileobj=file, mode="rb")
        self._packed_byte = packed_byte
        self._place = place
        self._limit = limit_byte(packed_byte)
        self._num_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # `read` would lose what comes before a fault.
        try:
            part = self._stream.read1(len(buffer))
        except zlib.error as fault:  # whose own words are "Error -3 while decompressing data"
            raise gzip.BadGzipFile("the compressed data are damaged") from fault
        self._num_read += len(part)
        if self._num_read > self._limit:
            raise too_large(self._place, self._packed_byte, self._limit)
        buffer[: len(part)] = part
        return len(part)
