"""Files of tables: parquet for published tables, Arrow for checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetsim.errors import DataError
from fleetsim.quoting import MAX_NAME, quoted
from fleetsim.record import atomic_files
from fleetsim.record.tables.schemas import OPTIONAL, SCHEMAS, WORDS, TableName

_ROWS_PER_GROUP = 1 << 20
_VALUE_BYTE = 8
_LEAST_LIMIT_BYTE = 512 << 20
_MOST_RATIO = 256
_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Exceptions of pyarrow about a damaged file."""

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


def read(path: Path, name: TableName, *, way_out: str) -> pa.Table:
    """Read a table and check its columns.

    Raises:
        DataError: the file is missing, is not parquet, or holds other columns.
    """
    return decode(atomic_files.read(path, way_out=way_out), name, source=str(path), way_out=way_out)


def decode(data: bytes, name: TableName, *, source: str, way_out: str) -> pa.Table:
    """Return the table in the bytes of a parquet file; `source` names it in messages.

    Raises:
        DataError: they are not parquet, or hold other columns.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        # Equal values take no space in the file, so a few bytes may announce any number of rows.
        num_byte = file.metadata.num_rows * _VALUE_BYTE * len(file.schema_arrow)
        if num_byte > max(_LEAST_LIMIT_BYTE, _MOST_RATIO * len(data)):
            raise DataError(
                f"{source}: announces {file.metadata.num_rows} rows in {len(data)} bytes, more than"
                f" a run writes; {way_out}"
            )
        table = file.read()
        table.validate(full=True)
    except _FAULTS as cause:
        raise _not_whole(source, "parquet", cause, way_out) from None
    return _checked(table, name, source, way_out)


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


def unpack(data: bytes, name: TableName, *, source: str, way_out: str) -> pa.Table:
    """Return the table in the bytes of `pack`; arguments and errors as of `decode`."""
    try:
        options = pa.ipc.IpcReadOptions(use_threads=False)
        table = pa.ipc.open_file(pa.BufferReader(data), options=options).read_all()
    except _FAULTS as cause:
        raise _not_whole(source, "Arrow", cause, way_out) from None
    return _checked(table, name, source, way_out)


def _not_whole(source: str, kind: str, cause: Exception, way_out: str) -> DataError:
    first_line = _EXCEPTION_NAME.sub("", str(cause).partition("\n")[0])
    return DataError(f"{source}: is not a whole {kind} file ({first_line}); {way_out}")


def _checked(table: pa.Table, name: TableName, source: str, way_out: str) -> pa.Table:
    """Return the columns of the table in order, if they are the right ones."""
    schema = SCHEMAS[name]
    missing = OPTIONAL[name] - set(table.schema.names)
    if missing:
        schema = pa.schema(field for field in schema if field.name not in missing)
    fault = _column_fault(table, schema)
    if fault:
        raise DataError(f"{source}: {fault}; {way_out}")
    return table.select(schema.names).replace_schema_metadata(None).cast(schema)


def _column_fault(table: pa.Table, schema: pa.Schema) -> str | None:
    found = table.schema.names
    for column in schema.names:
        if found.count(column) != 1:
            return f"column {quoted(column)} is there {found.count(column)} times instead of once"
    for field in table.schema:
        if field.name not in schema.names:
            return f"column {quoted(field.name)} is not one of this table"
        expected = schema.field(field.name)
        if field.type != expected.type:
            return f"column {quoted(field.name)} is {field.type}, not {expected.type}"
        if not expected.nullable and table[field.name].null_count:
            return f"column {quoted(field.name)} has {table[field.name].null_count} null value(s)"
    return _word_fault(table)


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
