"""Pixels of JPEG and PNG files, read without trust in the file.

The size in a file's header is compared with the expected one before pixels are decoded.
"""

import io
import struct
import zlib
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fleetsim.errors import DataError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png"})
"""Ends of the names of files that are read, in lower case."""

_FORMATS = ("JPEG", "PNG")
_FAULTS = (
    *(OSError, SyntaxError, ValueError, EOFError, OverflowError, struct.error, zlib.error),
    *(MemoryError, Image.DecompressionBombError, Image.DecompressionBombWarning),
)
"""Exceptions of Pillow for a damaged file."""


def pixels_of(
    file: IO[bytes] | bytes,
    place: str,
    *,
    size: tuple[int, int],
    any_mode: bool = False,
    side: int | None = None,
) -> NDArray[np.uint8]:
    """Return the colours of a picture [height, width, 3]: red, green, blue.

    It must have the width and height `size`, and is resized to `side` x `side` pixels by bicubic
    interpolation unless that is None. With `any_mode` grey and other pictures are converted to RGB;
    else they are refused.
    """
    content = io.BytesIO(file) if isinstance(file, bytes) else file
    try:
        with Image.open(content, formats=_FORMATS) as image:
            actual, mode = image.size, image.mode
            if actual == size and (any_mode or mode == "RGB"):
                colours = image if mode == "RGB" else image.convert("RGB")
                if side is not None:
                    colours = colours.resize((side, side), Image.Resampling.BICUBIC)
                return np.asarray(colours)
    except _FAULTS as error:
        message = " ".join(str(error).split())
        raise DataError(f"{place}: no readable picture ({message}); save it anew") from error
    expected = f"{size[0]} x {size[1]}" + ("" if any_mode else " in RGB")
    raise DataError(
        f"{place}: {actual[0]} x {actual[1]} pixels in mode {mode}, expected {expected}; save it so"
    )
