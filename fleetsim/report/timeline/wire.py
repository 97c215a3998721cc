"""Wire format of Protocol Buffers, for many messages at once.

A message is a sequence of fields. A field is a tag (its number, and the type of its value) and the
value: a varint (7 bits in a byte, the lowest first), 8 bytes, or a length and that many bytes.
Every message and every varint is as short as possible.

Source: Protocol Buffers documentation, "Encoding", https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray

_VARINT, _EIGHT_BYTES, _BYTES = 0, 1, 2
_BITS = np.uint64(7)


@dataclass(frozen=True, slots=True)
class Rows:
    """Bytes of N messages, or of a part of each: row i is `data[i][is_used[i]]`."""

    data: NDArray[np.uint8]
    """[N, W]."""
    is_used: BoolArray
    """[N, W]."""

    def __len__(self) -> int:
        return len(self.data)

    def where(self, is_there: BoolArray) -> Rows:
        """Return the same rows, empty where a flag [N] is not set."""
        return Rows(self.data, self.is_used & is_there[:, None])

    def tobytes(self) -> bytes:
        """Return all rows, one after another."""
        return self.data[self.is_used].tobytes()


def join(*parts: Rows) -> Rows:
    """Return rows that are the rows of the parts, one after another."""
    return Rows(
        np.concatenate([part.data for part in parts], axis=1),
        np.concatenate([part.is_used for part in parts], axis=1),
    )


def constant(num_rows: int, data: bytes) -> Rows:
    """Return rows that all hold the same bytes."""
    values = np.broadcast_to(np.frombuffer(data, dtype=np.uint8), (num_rows, len(data)))
    return Rows(values, np.broadcast_to(np.True_, values.shape))


def varint_field(number: int, values: IntArray) -> Rows:
    """Return a field of an integer, bool or enum type [N]."""
    return join(_tag(len(values), number, _VARINT), _varints(values))


def double_field(number: int, values: FloatArray) -> Rows:
    """Return a field of type double [N]."""
    data = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(-1, 8)
    return join(
        _tag(len(data), number, _EIGHT_BYTES), Rows(data, np.broadcast_to(np.True_, data.shape))
    )


def text_field(number: int, texts: Sequence[str]) -> Rows:
    """Return a field of type string [N]."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(data) for data in encoded], dtype=np.int64)
    width = max(1, int(lengths.max(initial=0)))
    data = np.frombuffer(b"".join(text.ljust(width) for text in encoded), dtype=np.uint8)
    is_used = np.arange(width) < lengths[:, None]
    return message_field(number, Rows(data.reshape(-1, width), is_used))


def message_field(number: int, content: Rows) -> Rows:
    """Return a field with a message."""
    lengths = _varints(content.is_used.sum(axis=1))
    return join(_tag(len(content), number, _BYTES), lengths, content)


def _tag(num_rows: int, number: int, wire_type: int) -> Rows:
    return constant(num_rows, _varints(np.array([number << 3 | wire_type])).tobytes())


def _varints(values: IntArray) -> Rows:
    """Return integers as varints; those below 0 as their two's complement of 64 bits.

    >>> _varints(np.array([1, 150])).tobytes().hex()
    '019601'
    """
    positive = values.astype(np.uint64)
    width = max(1, -(-int(positive.max(initial=0)).bit_length() // int(_BITS)))
    groups = positive[:, None] >> (_BITS * np.arange(width, dtype=np.uint64))
    is_used = groups != 0
    is_used[:, 0] = True
    data = (groups & np.uint64(0x7F)).astype(np.uint8)
    data[:, :-1] |= is_used[:, 1:].astype(np.uint8) << 7
    return Rows(data, is_used)
