"""Small files with large unpacked content, and the memory that a reader needs to refuse them."""

import gzip
import io
import tracemalloc
from collections.abc import Callable

from fleetsim.errors import DataError


def gzip_bomb(begin: bytes, block: bytes, num_blocks: int) -> bytes:
    """Return a gzip stream with a given start and many equal blocks."""
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=content, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(begin)
        for _ in range(num_blocks):
            file.write(block)
    return content.getvalue()


def peak_byte(read: Callable[[], object]) -> int:
    """Return the peak memory, in bytes, of a reader that must raise a DataError."""
    tracemalloc.start()
    try:
        read()
    except DataError:
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    raise AssertionError("the file was not refused")
