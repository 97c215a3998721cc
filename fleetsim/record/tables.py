"""Tables of a run: rounds, tasks and clients, in memory, as parquet files, and their digests.

The columns are the fields of `TaskRow`, `RoundRow` and `ClientColumns`. One may hold null only
where its field may be None, or is of a battery (null on mains) or of a record (null for a client
that follows none). docs/outputs.md defines each column, and what a digest hashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
from fleetsim.host.unpacking import limit_byte, too_large
from fleetsim.quoting import MAX_NAME, quoted
from fleetsim.record import atomic_files

if TYPE_CHECKING:
    import pandas as pd

TableName = Literal["rounds", "tasks", "clients"]
_CLIENT_BATTERIES = tuple(
    f"battery_{name}_j" for name in ("capacity", "initial", "charged", "owner", "loss", "final")
)
_ENLISTED = "energy_enlisted_idle_j"
_SHIFTS = ("usage_shift_s", "network_shift_s")
_NULL_WHEN_NAN = frozenset({"battery_fraction", *_CLIENT_BATTERIES, *_SHIFTS})
"""Columns of the clients table in which NaN means null."""
_ROUND_BATTERIES = tuple(f"battery_{name}_fraction" for name in ("low", "median", "high"))
_ROUND_REST = ("num_off", "validation_accuracy", "selector_diagnostics", "epsilon")
_TASK_REST = ("opinion", "belief", "train_metrics", "frozen_download_byte")
_CLIENT_REST = ("usage_record", "network_record", *_SHIFTS)
OPTIONAL: Mapping[TableName, frozenset[str]] = MappingProxyType(
    {
        "rounds": frozenset({*_ROUND_BATTERIES, *_ROUND_REST, _ENLISTED}),
        "tasks": frozenset({*_TASK_REST, _ENLISTED}),
        "clients": frozenset({*_CLIENT_BATTERIES, *_CLIENT_REST, _ENLISTED}),
    }
)
"""Columns that a table has only if one of its rows has a value."""

_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"device": (), "purpose": tuple(Purpose), "outcome": tuple(Outcome)}
)
"""Columns of words, with the words that they may hold; empty: any name."""

_ARROW_TYPES: Mapping[Any, pa.DataType] = {
    **dict.fromkeys((int, int | None, IntArray), pa.int64()),
    **dict.fromkeys((float, float | None, FloatArray, FloatArray | None), pa.float64()),
    bool: pa.bool_(),
    **dict.fromkeys((str, str | None, Purpose, Outcome), pa.string()),
    **dict.fromkeys((tuple[str, ...], tuple[str | None, ...] | None), pa.string()),
}


def _schema(row: type) -> pa.Schema:
    return pa.schema(
        pa.field(
            name, _ARROW_TYPES[hint], nullable=NoneType in get_args(hint) or name in _NULL_WHEN_NAN
        )
        for name, hint in get_type_hints(row).items()
    )


SCHEMAS: Mapping[TableName, pa.Schema] = MappingProxyType(
    {"rounds": _schema(RoundRow), "tasks": _schema(TaskRow), "clients": _schema(ClientColumns)}
)
_TYPES: Mapping[pa.DataType, tuple[str, tuple[type, ...]]] = {
    pa.int64(): ("int64", (int, np.integer)),
    pa.float64(): ("float64", (int, float, np.integer, np.floating)),
    pa.bool_(): ("bool", (bool, np.bool_)),
    pa.string(): ("string", (str,)),
}
"""Name of each type in digests, and the Python types that it takes."""
_ROWS_PER_GROUP = 1 << 20
_TEXTS_AT_ONCE = 1 << 16
_FAST: Mapping[str, Any] = {"compression": "lz4", "write_statistics": False}
_VALUE_BYTE = 8
_LEAST_LIMIT_BYTE = 512 << 20
_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)
_EXCEPTION_NAME = re.compile(r"\b[A-Z]\w*(?:Exception|Error): ")
"""Name of a library's exception in its text, of no use to a user."""


def from_rows(name: TableName, rows: Sequence[TaskRow] | Sequence[RoundRow]) -> pa.Table:
    """Return the table of rows, in their order."""
    names = SCHEMAS[name].names
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return _table(name, dict(zip(names, map(list, columns), strict=True)))


def from_columns(clients: ClientColumns) -> pa.Table:
    """Return the clients table without the optional columns that the fleet lacks."""
    columns = {field.name: getattr(clients, field.name) for field in fields(clients)}
    for name in OPTIONAL["clients"]:
        if columns[name] is None:  # as nulls it would take the memory of numbers
            del columns[name]
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of clients differ in length: {lengths}")
    return _table("clients", columns)


def concat(name: TableName, parts: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables of the same name; empty without any."""
    return pa.concat_tables(parts or [SCHEMAS[name].empty_table()]).combine_chunks()


def without_unused(name: TableName, table: pa.Table) -> pa.Table:
    """Return the table without optional columns that hold only null."""
    optional = OPTIONAL[name].intersection(table.column_names)
    unused = [column for column in optional if table[column].null_count == table.num_rows]
    return table.drop_columns(unused)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return the table for pandas; null becomes NaN."""
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _table(name: TableName, columns: Mapping[str, Any]) -> pa.Table:
    missing = OPTIONAL[name].difference(columns)
    schema = pa.schema(field for field in SCHEMAS[name] if field.name not in missing)
    return pa.table([_array(name, field, columns[field.name]) for field in schema], schema=schema)


def _array(name: TableName, field: pa.Field, values: Any) -> pa.Array:
    """Return a column."""
    try:
        is_numbers = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
        if is_numbers:
            values = values.astype(field.type.to_pandas_dtype(), casting="safe", copy=False)
        else:
            _require_types(field.type, values)
        nan_is_null = is_numbers and field.name in _NULL_WHEN_NAN
        array = pa.array(values, field.type, from_pandas=nan_is_null)
    except (pa.ArrowException, TypeError, OverflowError) as cause:
        raise ValueError(f"{name}.{field.name} must hold {field.type}: {cause}") from cause
    if array.null_count and not field.nullable:
        row = pc.index(array.is_null(), True).as_py()
        raise ValueError(f"{name}.{field.name} must not be None, as it is in row {row}")
    return array


def _require_types(expected: pa.DataType, values: Sequence[Any]) -> None:
    """Check the types of Python values, None for null; pyarrow silently cuts 1.5 down to 1."""
    for kind in set(map(type, values)) - {NoneType}:
        is_bool = issubclass(kind, bool | np.bool_)
        if not issubclass(kind, _TYPES[expected][1]) or is_bool != (expected == pa.bool_()):
            raise TypeError(f"found {kind.__name__}")


def write(path: Path, table: pa.Table) -> None:
    """Write a table as parquet, atomically; equal tables give equal bytes."""
    with atomic_files.replacing(path) as file:
        _encode(table, file, is_published=True)


def encode(table: pa.Table, *, is_published: bool = True) -> bytes:
    """Return a table as parquet; equal tables give equal bytes under one version of pyarrow.

    Without `is_published` it is larger by a seventh, and made in half the time: for tables that are
    soon read again.
    """
    sink = pa.BufferOutputStream()
    _encode(table, sink, is_published=is_published)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def _encode(table: pa.Table, sink: pa.NativeFile | BinaryIO, *, is_published: bool) -> None:
    packing = {"compression": "zstd", "compression_level": 3} if is_published else _FAST
    pq.write_table(
        table.combine_chunks(),
        sink,
        row_group_size=_ROWS_PER_GROUP,
        version="2.6",
        use_dictionary=[field.name for field in table.schema if field.type == pa.string()],
        data_page_version="1.0",
        **packing,
    )


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
        first_line = _EXCEPTION_NAME.sub("", str(cause).partition("\n")[0])
        raise DataError(f"{source}: is not a whole parquet file ({first_line}); {hint}") from None
    return _checked(table, name, source, hint)


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
    for column, words in _WORDS.items():
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


def digest(tables: Mapping[str, pa.Table]) -> str:
    """Return the SHA-256 of the values of tables; docs/outputs.md defines what is hashed."""
    return digests(tables)[0]


def digests(tables: Mapping[str, pa.Table]) -> tuple[str, dict[str, str]]:
    """Return `digest` of all tables and of each alone, in one pass."""
    whole = hashlib.sha256()
    of_table: dict[str, str] = {}
    for name in sorted(tables):
        alone = hashlib.sha256()
        for data in _hashed(name, tables[name]):
            whole.update(data)
            alone.update(data)
        of_table[name] = alone.hexdigest()
    return whole.hexdigest(), of_table


def _hashed(name: str, table: pa.Table) -> Iterator[bytes]:
    """Yield the hashed bytes of a table."""

    def number(value: int) -> bytes:
        return value.to_bytes(8, "little")

    def block(data: bytes) -> Iterator[bytes]:
        yield number(len(data))
        yield data

    yield from block(name.encode())
    yield number(table.num_columns)
    yield number(table.num_rows)
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.type not in _TYPES:
            raise ValueError(f"{name}.{field.name}: cannot digest a column of {field.type}")
        yield from block(field.name.encode())
        yield from block(_TYPES[field.type][0].encode())
        yield from block(column.is_null().to_numpy().tobytes())
        for data in _blocks(field.type, column):
            yield from block(data)


def _blocks(type_: pa.DataType, column: pa.ChunkedArray) -> Iterable[bytes]:
    if type_ == pa.string():
        texts = column.fill_null("")
        yield pc.binary_length(texts).to_numpy().astype("<i8").tobytes()
        # Some at a time: as Python's texts all of them would take ten times their bytes.
        some = (texts.slice(row, _TEXTS_AT_ONCE) for row in range(0, len(texts), _TEXTS_AT_ONCE))
        yield b"".join("".join(part.to_pylist()).encode() for part in some)
        return
    values = column.fill_null(pa.scalar(0).cast(type_)).to_numpy()
    if type_ == pa.float64():
        values = np.where(np.isnan(values), np.nan, values)
    yield values.astype(values.dtype.newbyteorder("<")).tobytes()
