"""Files of tables: parquet for published tables, Arrow for checkpoints."""

import re
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetsim.errors import DataError
from fleetsim.host.unpacking import limit_byte, too_large
from fleetsim.quoting import MAX_NAME, quoted
from fleetsim.record import atomic_files
from fleetsim.record.tables.building import OPTIONAL, SCHEMAS, WORDS, TableName

_ROWS_PER_GROUP = 1 << 20
_VALUE_BYTE = 8
_LEAST_LIMIT_BYTE = 512 << 20
_ARROW_BEGIN_BYTE = 8
"""Bytes of an Arrow file before its first message."""
_ARROW_END = b"ARROW1"
_MESSAGE_HEADER = 2
"""Field of a Message of Arrow that holds its RecordBatch."""
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
"""Fields of a RecordBatch."""
_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)

_EXCEPTION_NAME = re.compile(r"\b[A-Z]\w*(?:Exception|Error): ")
"""Name of a library's exception in its text, of no use to a user."""


def write(path: Path, table: pa.Table) -> None:
    """Write a table as parquet, atomically; equal tables give equal bytes."""
    atomic_files.write(path, encode(table))


def encode(table: pa.Table) -> bytes:
    """Return a table as parquet; equal tables give equal bytes under one version of pyarrow."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.combine_chunks(),
        sink,
        row_group_size=_ROWS_PER_GROUP,
        version="2.6",
        compression="zstd",
        compression_level=3,
        use_dictionary=[field.name for field in table.schema if field.type == pa.string()],
        write_statistics=True,
        data_page_version="1.0",
    )
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def read(path: Path, name: TableName, *, hint: str) -> pa.Table:
    """Read a table and check its columns."""
    return decode(atomic_files.read(path, hint=hint), name, source=str(path), hint=hint)


def decode(data: bytes, name: TableName, *, source: str, hint: str) -> pa.Table:
    """Return the table in the bytes of a parquet file; `source` names it in messages."""
    limit = max(_LEAST_LIMIT_BYTE, limit_byte(len(data)))
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        fault = _schema_fault(file.schema_arrow, _expected(file.schema_arrow, name))
        if fault:
            raise DataError(f"{source}: {fault}; {hint}")
        # Equal values take no space in the file, so a few bytes may announce any number of rows.
        metadata = file.metadata
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        num_byte = metadata.num_rows * _VALUE_BYTE * len(file.schema_arrow)
        if max(num_byte, sum(group.total_byte_size for group in groups)) > limit:
            raise DataError(
                f"{source}: announces {metadata.num_rows} rows in {len(data)} bytes, more than"
                f" a run writes; {hint}"
            )
        texts = [field.name for field in file.schema_arrow if field.type == pa.string()]
        # As dictionaries, texts that are equal take memory once.
        table = pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts).read()
        if sum(_text_byte(column) for column in table.columns) > limit:
            raise too_large(source, len(data), limit)
        table = table.cast(_plain(table.schema))
        table.validate(full=True)
    except _FAULTS as cause:
        raise _not_whole(source, "parquet", cause, hint) from None
    return _checked(table, name, source, hint)


def pack(table: pa.Table) -> bytes:
    """Return a table as an Arrow file, for tables that are soon read again and never published.

    It is larger than parquet by a half, and is made five times as fast.
    """
    sink = pa.BufferOutputStream()
    # One thread: waking others takes longer than a few kilobytes do, above all beside training on
    # every core.
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(data: bytes, name: TableName, *, num_rows: int, source: str, hint: str) -> pa.Table:
    """Return the table of so many rows in the bytes of `pack`; other arguments as of `decode`."""
    try:
        table = _measured(data, name, num_rows, source)
        table.validate(full=True)
    except (*_FAULTS, StopIteration, ValueError) as cause:
        raise _not_whole(source, "Arrow", cause, hint) from None
    if table.num_rows != num_rows:
        raise DataError(f"{source}: holds {table.num_rows} rows and not {num_rows}; {hint}")
    return _checked(table, name, source, hint)


def _measured(data: bytes, name: TableName, num_rows: int, source: str) -> pa.Table:
    """Return a table that is measured before it is unpacked, up to the batch after `num_rows`.

    The footer of the file is not read: what is measured is what is unpacked.
    """
    if not data.endswith(_ARROW_END):
        raise ValueError("its end is missing")
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(data[_ARROW_BEGIN_BYTE:]))
    schema = pa.ipc.read_schema(messages.read_next_message())
    fault = _schema_fault(schema, _expected(schema, name))
    if fault:
        raise ValueError(fault)
    limit, num_read, num_byte, batches = limit_byte(len(data)), 0, 0, []
    for message in messages:
        num_more, byte_more = _announced(message)
        num_read, num_byte = num_read + num_more, num_byte + byte_more
        if num_byte > limit:
            raise too_large(source, len(data), limit)
        batches.append(pa.ipc.read_record_batch(message, schema))
        if num_read > num_rows:
            break
    return pa.Table.from_batches(batches, schema)


def _announced(message: pa.ipc.Message) -> tuple[int, int]:
    """Return the number of rows of a record batch, and the bytes that its buffers unpack to.

    A record batch lists its buffers. A compressed buffer begins with its unpacked length, for which
    Arrow takes memory at once. The metadata are a flatbuffer, of which three fields are read here.
    Source: the Arrow columnar format, "Serialization and interprocess communication", and the
    internals of FlatBuffers (tables, vtables, vectors).
    """
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


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema with texts in place of dictionaries of them."""
    return pa.schema(
        pa.field(field.name, field.type.value_type, field.nullable)
        if pa.types.is_dictionary(field.type)
        else field
        for field in schema
    )


def _text_byte(column: pa.ChunkedArray) -> int:
    """Return the bytes of the texts of a column, each written out; 0 for one of numbers."""
    if not pa.types.is_dictionary(column.type):
        return 0
    return sum(
        int(pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0)
        for chunk in column.chunks
    )


def _not_whole(source: str, kind: str, cause: Exception, hint: str) -> DataError:
    first_line = _EXCEPTION_NAME.sub("", str(cause).partition("\n")[0])
    return DataError(f"{source}: is not a whole {kind} file ({first_line}); {hint}")


def _checked(table: pa.Table, name: TableName, source: str, hint: str) -> pa.Table:
    """Return the columns of the table in order, if they are the right ones."""
    schema = _expected(table.schema, name)
    fault = _schema_fault(table.schema, schema) or _null_fault(table, schema) or _word_fault(table)
    if fault:
        raise DataError(f"{source}: {fault}; {hint}")
    return table.select(schema.names).replace_schema_metadata(None).cast(schema)


def _expected(schema: pa.Schema, name: TableName) -> pa.Schema:
    """Return the columns that a table must have, given the optional ones that it has."""
    missing = OPTIONAL[name] - set(schema.names)
    return pa.schema(field for field in SCHEMAS[name] if field.name not in missing)


def _schema_fault(schema: pa.Schema, expected: pa.Schema) -> str | None:
    for column in expected.names:
        if schema.names.count(column) != 1:
            times = schema.names.count(column)
            return f"column {quoted(column)} is there {times} times instead of once"
    for field in schema:
        if field.name not in expected.names:
            return f"column {quoted(field.name)} is not one of this table"
        type_ = expected.field(field.name).type
        if field.type != type_:
            return f"column {quoted(field.name)} is {field.type}, not {type_}"
    return None


def _null_fault(table: pa.Table, schema: pa.Schema) -> str | None:
    for field in schema:
        num_null = table[field.name].null_count
        if num_null and not field.nullable:
            return f"column {quoted(field.name)} has {num_null} null value(s)"
    return None


def _word_fault(table: pa.Table) -> str | None:
    """Return the first word of a foreign table that no run writes, or that cannot be shown."""
    for column, words in WORDS.items():
        for word in pc.unique(table[column]).to_pylist() if column in table.schema.names else ():
            if words and word not in words:
                return (
                    f"column {quoted(column)} holds {quoted(word)}, not one of {', '.join(words)}"
                )
            if len(word) > MAX_NAME or not word.isprintable():
                return (
                    f"column {quoted(column)} holds the name {quoted(word)}, which cannot be shown"
                )
    return None
