"""Rows and bytes that a message of an Arrow file announces, known before it is unpacked.

A record batch lists its buffers. A compressed buffer begins with its unpacked length, for which
Arrow takes memory at once. The metadata are a flatbuffer, of which three fields are read here.
Source: the Arrow columnar format, "Serialization and interprocess communication", and the internals
of FlatBuffers (tables, vtables, vectors).
"""

import struct

import pyarrow as pa

_MESSAGE_HEADER = 2
"""Field of a Message that holds its RecordBatch."""
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
"""Fields of a RecordBatch."""


def announced(message: pa.ipc.Message) -> tuple[int, int]:
    """Return the number of rows of a record batch, and the bytes that its buffers unpack to."""
    metadata, body = memoryview(message.metadata), memoryview(message.body)
    try:
        message_table = _at(metadata, 0)
        batch = _at(metadata, _field(metadata, message_table, _MESSAGE_HEADER))
        (num_rows,) = struct.unpack_from("<q", metadata, _field(metadata, batch, _LENGTH))
        buffers = _at(metadata, _field(metadata, batch, _BUFFERS))
        (num_buffers,) = struct.unpack_from("<I", metadata, buffers)
        is_packed = _field(metadata, batch, _COMPRESSION, default=0) != 0
        num_byte = 0
        for number in range(num_buffers):
            offset, length = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * number)
            if is_packed and length > 0:
                # -1: this buffer is as it was.
                (unpacked,) = struct.unpack_from("<q", body, offset)
                length = max(length, unpacked)
            num_byte += length
    except struct.error as fault:
        raise ValueError(f"a record batch is damaged: {fault}") from fault
    return num_rows, num_byte


def _at(data: memoryview, position: int) -> int:
    """Return the position to which an offset leads."""
    (offset,) = struct.unpack_from("<I", data, position)
    return int(position + offset)


def _field(data: memoryview, table: int, number: int, *, default: int | None = None) -> int:
    """Return the position of a field of a table; `default` if the table lacks it."""
    (back,) = struct.unpack_from("<i", data, table)
    (vtable_byte,) = struct.unpack_from("<H", data, table - back)
    place = 4 + 2 * number
    offset = 0
    if place + 2 <= vtable_byte:
        (offset,) = struct.unpack_from("<H", data, table - back + place)
    if offset:
        return int(table + offset)
    if default is None:
        raise ValueError("a record batch lacks a field")
    return default
