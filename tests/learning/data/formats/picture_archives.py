"""Pictures and archives of them, made for tests."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image


def picture(
    colour: tuple[int, int, int] | int, size: tuple[int, int], form: str = "PNG", mode: str = "RGB"
) -> bytes:
    """Return a picture of one colour; PNG keeps it exactly."""
    content = io.BytesIO()
    Image.new(mode, size, colour).save(content, form)
    return content.getvalue()


def gradient(size: tuple[int, int]) -> bytes:
    """Return a PNG whose red is the column and whose green is the row."""
    width, height = size
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(width), np.arange(height)[:, None]
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def unpacked(home: Path, contents: Mapping[str, bytes]) -> Path:
    for name, content in contents.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return home
