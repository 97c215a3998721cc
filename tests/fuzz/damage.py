"""Damaged bytes: a strategy that takes valid content and changes it in a few places."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

_WORDS: Final = [
    b"\x00", b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x80\x00\x00\x00", b"\x00" * 16, b"nan", b"inf",
    b"-1", b"1e309", b"9" * 25, b",", b'"', b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xc3\x28", b"'",
    b"[" * 3000, b"{" * 3000, b"\\u0000", b"PK\x05\x06", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00",
    b"()", b"(1,)", b"True", b"'<f8'", b"'|O'", b"99999999999999", b"\x93NUMPY\x01\x00",
]  # fmt: skip
_PACKERS: Final[list[Callable[[bytes], bytes]]] = [
    gzip.compress, bz2.compress, lzma.compress, zlib.compress, lambda raw: raw
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with one to four changes; sometimes packed, cut or replaced as a whole."""
    packed = content[:2] == b"\x1f\x8b"
    is_inside = packed and draw(st.booleans())
    raw = bytearray(gzip.decompress(content) if is_inside else content)
    for _ in range(draw(st.integers(1, 4))):
        _change(draw, raw)
    changed = bytes(raw)
    if is_inside:
        return gzip.compress(changed, 1, mtime=0)
    if draw(st.integers(0, 19)) == 0:
        return draw(st.sampled_from(_PACKERS))(changed)
    return changed


def _change(draw: st.DrawFn, raw: bytearray) -> None:
    at = draw(st.integers(0, len(raw)))
    length = draw(st.integers(1, 8))
    match draw(st.sampled_from(["flip", "put", "insert", "cut", "end", "double", "swap"])):
        case "flip" if at < len(raw):
            raw[at] ^= 1 << draw(st.integers(0, 7))
        case "put":
            word = draw(st.sampled_from(_WORDS))
            raw[at : at + len(word)] = word
        case "insert":
            raw[at:at] = draw(st.sampled_from(_WORDS))
        case "cut":
            del raw[at : at + length]
        case "end":
            del raw[at:]
        case "double":
            raw[at:at] = raw[at : at + 40 * length]
        case "swap":
            other = draw(st.integers(0, len(raw)))
            raw[at : at + length], raw[other : other + length] = (
                raw[other : other + length],
                raw[at : at + length],
            )
