"""What the tables of a run hold: their columns, their digest, and how they lie on the disk.

The columns are the fields of `TaskRow`, `RoundRow` and `ClientColumns`, in their order: int is
int64, float is float64, bool is bool, text is string, and a column may hold null only where its
field may be None (or is of a battery, null on mains). A table that has nothing to say in the
columns of `OPTIONAL` is without them. docs/outputs.md defines each.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fleetsim.contracts import (
    ClientColumns,
    FloatArray,
    IntArray,
    Outcome,
    Purpose,
    RoundRow,
    TaskRow,
)
from fleetsim.errors import DataError
from fleetsim.quoting import quoted
from fleetsim.record import atomic_files

if TYPE_CHECKING:
    import pandas as pd

TableName = Literal["rounds", "tasks", "clients"]
_CLIENT_BATTERIES = (
    "battery_capacity_j",
    "battery_initial_j",
    "battery_charged_j",
    "battery_owner_j",
    "battery_loss_j",
    "battery_final_j",
)
_ENLISTED = "energy_enlisted_idle_j"
NULL_WHEN_NAN = frozenset({"battery_fraction", *_CLIENT_BATTERIES})
"""Columns of the clients table in which NaN stands for null."""
OPTIONAL: Mapping[TableName, frozenset[str]] = MappingProxyType(
    {
        "rounds": frozenset(
            {
                "num_off",
                "battery_low_fraction",
                "battery_median_fraction",
                "battery_high_fraction",
                _ENLISTED,
            }
        ),
        "tasks": frozenset({"opinion", "belief", _ENLISTED}),
        "clients": frozenset({*_CLIENT_BATTERIES, _ENLISTED}),
    }
)
"""Columns that are there only where the run has something to say in them."""

_ARROW_TYPES: Mapping[Any, pa.DataType] = {
    int: pa.int64(),
    int | None: pa.int64(),
    IntArray: pa.int64(),
    float: pa.float64(),
    float | None: pa.float64(),
    FloatArray: pa.float64(),
    FloatArray | None: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
    str | None: pa.string(),
    Purpose: pa.string(),
    Outcome: pa.string(),
    tuple[str, ...]: pa.string(),
}
_TYPE_NAMES: Mapping[pa.DataType, str] = {
    pa.int64(): "int64",
    pa.float64(): "float64",
    pa.bool_(): "bool",
    pa.string(): "string",
}
_LITTLE_ENDIAN: Mapping[pa.DataType, str] = {
    pa.int64(): "<i8",
    pa.float64(): "<f8",
    pa.bool_(): "?",
}
_PYTHON: Mapping[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int, np.integer),
    pa.float64(): (int, float, np.integer, np.floating),
    pa.bool_(): (bool, np.bool_),
    pa.string(): (str,),
}
_ROWS_PER_GROUP = 1 << 20
_VALUE_BYTE = 8
_LEAST_LIMIT_BYTE = 512 << 20
_MOST_RATIO = 256
_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises about a damaged file."""

_EXCEPTION_NAME = re.compile(r"\b[A-Z]\w*(?:Exception|Error): ")
"""How a library's text names an exception of its own, which tells a user nothing."""


def _schema(row: type) -> pa.Schema:
    return pa.schema(
        pa.field(
            name,
            _ARROW_TYPES[hint],
            nullable=NoneType in get_args(hint) or name in NULL_WHEN_NAN,
        )
        for name, hint in get_type_hints(row).items()
    )


SCHEMAS: Mapping[TableName, pa.Schema] = MappingProxyType(
    {"rounds": _schema(RoundRow), "tasks": _schema(TaskRow), "clients": _schema(ClientColumns)}
)
"""Columns of every table."""


def from_rows(name: TableName, rows: Sequence[TaskRow] | Sequence[RoundRow]) -> pa.Table:
    """Table of rows, in their order.

    Raises:
        ValueError: a value does not fit its column, or is None where null is not allowed.
    """
    names = SCHEMAS[name].names
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return _table(name, dict(zip(names, map(list, columns), strict=True)))


def from_columns(clients: ClientColumns) -> pa.Table:
    """The clients table.

    Raises:
        ValueError: a value does not fit its column, or the columns differ in length.
    """
    columns: dict[str, Any] = {
        field.name: getattr(clients, field.name) for field in fields(clients)
    }
    missing = [None] * len(clients.client)
    columns |= {name: missing for name in OPTIONAL["clients"] if getattr(clients, name) is None}
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of clients differ in length: {lengths}")
    return _table("clients", columns)


def concat(name: TableName, parts: Iterable[pa.Table]) -> pa.Table:
    """Tables of the same name one after another; empty without any."""
    # An empty table is made of lists, for which pyarrow imports pandas.
    return pa.concat_tables(parts or [SCHEMAS[name].empty_table()]).combine_chunks()


def without_unused(name: TableName, table: pa.Table) -> pa.Table:
    """The table without the optional columns in which there is nothing."""
    unused = [column for column in OPTIONAL[name] if table[column].null_count == table.num_rows]
    return table.drop_columns(unused)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The table for pandas; null becomes NaN."""
    frame: pd.DataFrame = table.to_pandas()
    return frame


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 of what tables hold."""

    whole: str
    """Of all tables together."""
    of_table: dict[str, str]
    """Of each table alone, by its name."""


def digest(tables: Mapping[str, pa.Table]) -> str:
    """SHA-256 of what tables hold, however they are chunked, encoded or compressed.

    Hashed are, for each table by name: its name, number of columns and of rows; for each column in
    order: its name, its type, which values are null (a byte each), and the values: int64 and
    float64 in little-endian (0 for null, one bit pattern for every NaN), bool as a byte, strings
    as their lengths in bytes (int64) and then their UTF-8. Names, types and value blocks are
    preceded by their length in bytes, all numbers are 8 bytes, little-endian.

    Raises:
        ValueError: a column is none of int64, float64, bool and string.
    """
    return digests(tables).whole


def digests(tables: Mapping[str, pa.Table]) -> Digests:
    """`digest` of all tables and of each alone, in one pass.

    Raises:
        ValueError: a column is none of int64, float64, bool and string.
    """
    whole = hashlib.sha256()
    of_table: dict[str, str] = {}
    for name in sorted(tables):
        alone = hashlib.sha256()
        for data in _hashed(name, tables[name]):
            whole.update(data)
            alone.update(data)
        of_table[name] = alone.hexdigest()
    return Digests(whole.hexdigest(), of_table)


def _hashed(name: str, table: pa.Table) -> Iterator[bytes]:
    """What the digest of a table is of, piece by piece."""

    def number(value: int) -> bytes:
        return value.to_bytes(8, "little")

    def block(data: bytes) -> Iterator[bytes]:
        yield number(len(data))
        yield data

    yield from block(name.encode())
    yield number(table.num_columns)
    yield number(table.num_rows)
    for field, chunks in zip(table.schema, table.columns, strict=True):
        if field.type not in _TYPE_NAMES:
            raise ValueError(f"{name}.{field.name}: cannot digest a column of {field.type}")
        column = chunks.combine_chunks()
        yield from block(field.name.encode())
        yield from block(_TYPE_NAMES[field.type].encode())
        yield from block(to_numpy(column.is_null()).tobytes())
        for data in _blocks(field.type, column):
            yield from block(data)


def write(path: Path, table: pa.Table) -> None:
    """Write a table as parquet, atomically; equal tables give equal bytes.

    Raises:
        DataError: the file cannot be written.
    """
    atomic_files.write(path, encode(table))


def encode(table: pa.Table) -> bytes:
    """The bytes of a parquet file; the same for equal tables under one version of pyarrow."""
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
    """Table in the bytes of a parquet file; `source` is what messages call it.

    Raises:
        DataError: they are not parquet, or hold other columns.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        # Equal values take no room in the file, so a few bytes may announce any number of rows.
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
    """The bytes of an Arrow file, for tables that are soon read again and never published.

    Larger than parquet by a half and made five times as fast.
    """
    sink = pa.BufferOutputStream()
    # One thread: to wake others for a few kilobytes takes longer than they do, above all beside
    # training on every core.
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(data: bytes, name: TableName, *, source: str, way_out: str) -> pa.Table:
    """Table in the bytes that `pack` gave; `source` is what messages call them.

    Raises:
        DataError: they are not an Arrow file, or hold other columns.
    """
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
    """The columns of the table in their order, if they are the right ones."""
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
    return None


def _table(name: TableName, columns: Mapping[str, Any]) -> pa.Table:
    schema = SCHEMAS[name]
    return pa.table([_array(name, field, columns[field.name]) for field in schema], schema=schema)


def _array(name: TableName, field: pa.Field, values: Any) -> pa.Array:
    """A column; `pa.array` would make it too, but it imports pandas to look at its argument."""
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            array = _from_numbers(field, values)
        else:
            array = _from_objects(field, values)
    except (pa.ArrowException, TypeError, OverflowError) as cause:
        raise ValueError(f"{name}.{field.name} must hold {field.type}: {cause}") from cause
    if array.null_count and not field.nullable:
        row = pc.index(array.is_null(), True).as_py()
        raise ValueError(f"{name}.{field.name} must not be None, as it is in row {row}")
    return array


def _from_numbers(field: pa.Field, values: NDArray[Any]) -> pa.Array:
    wanted = np.dtype(_LITTLE_ENDIAN[field.type])
    if not np.can_cast(values.dtype, wanted):
        raise TypeError(f"found {values.dtype}")
    is_null = np.isnan(values) if field.name in NULL_WHEN_NAN else np.zeros(len(values), np.bool_)
    return _packed(field.type, values.astype(wanted, copy=False), is_null)


def _from_objects(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Python values, None for null.

    Raises:
        TypeError: a value is of another kind; pyarrow would cut 1.5 down to 1 without a word.
        OverflowError: a whole number does not fit.
    """
    kinds = set(map(type, values))
    for kind in kinds - {NoneType}:
        is_bool = issubclass(kind, bool | np.bool_)
        if not issubclass(kind, _PYTHON[field.type]) or is_bool != (field.type == pa.bool_()):
            raise TypeError(f"found {kind.__name__}")
    is_null = np.zeros(len(values), np.bool_)
    if NoneType in kinds:
        is_null[:] = [value is None for value in values]
    if field.type == pa.string():
        # A column of a million clients has few different texts.
        encoded = {value: b"" if value is None else str.encode(value) for value in set(values)}
        texts = [encoded[value] for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        buffers = (ends, b"".join(texts), np.packbits(~is_null, bitorder="little"))
        return pa.StringArray.from_buffers(len(texts), *map(pa.py_buffer, buffers))
    filled = [0 if value is None else value for value in values] if NoneType in kinds else values
    return _packed(field.type, np.array(filled, dtype=_LITTLE_ENDIAN[field.type]), is_null)


def _packed(type_: pa.DataType, values: NDArray[Any], is_null: NDArray[np.bool_]) -> pa.Array:
    """A column of fixed width from its values, of its own type."""
    is_valid = np.packbits(~is_null, bitorder="little")
    data = np.packbits(values, bitorder="little") if type_ == pa.bool_() else values
    buffers = [pa.py_buffer(part) for part in (is_valid, np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_, len(values), buffers)


def _blocks(type_: pa.DataType, column: pa.Array) -> Iterable[bytes]:
    # Nulls are filled here and not by pyarrow, which imports pandas for the value.
    is_null = to_numpy(column.is_null())
    if type_ == pa.string():
        ends, text = _string_buffers(column)
        length = np.diff(ends)
        yield np.where(is_null, 0, length).astype("<i8").tobytes()
        yield text[np.repeat(~is_null, length)].tobytes()
        return
    values = np.where(is_null, 0, to_numpy(column))
    if type_ == pa.float64():
        values = np.where(np.isnan(values), np.nan, values)
    yield values.astype(_LITTLE_ENDIAN[type_]).tobytes()


def _string_buffers(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text of a column ends, after where the first begins [n+1], and all the bytes."""
    if len(column) == 0:
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    _, ends, data = column.buffers()
    ends = np.frombuffer(ends, dtype="<i4")[column.offset : column.offset + len(column) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return ends.astype(np.int64), text[ends[0] : ends[-1]]


def to_numpy(column: pa.Array) -> NDArray[Any]:
    """The values of a column from its buffer, anything at nulls; `to_numpy` would import pandas.

    Whoever only runs a scenario is spared its time and memory.
    """
    data = column.buffers()[1]
    if data is None:
        return np.empty(0, dtype=column.type.to_pandas_dtype())
    if column.type == pa.bool_():
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
        return bits[column.offset : column.offset + len(column)].astype(np.bool_)
    values = np.frombuffer(data, dtype=_LITTLE_ENDIAN[column.type])
    return values[column.offset : column.offset + len(column)]
