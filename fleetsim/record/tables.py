"""Tables of a run: rounds, tasks and clients, in memory and as parquet files.

The columns are the fields of `TaskRow`, `RoundRow` and `ClientColumns`. One may hold null only
where its field may be None, or is of a battery (null on mains) or of a record (null for a client
that follows none). docs/outputs.md defines each column.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
Parts = Iterable[pa.Table]
"""Rows of one table in their order, some in each part; all parts have the same columns."""
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
_PYTHON_TYPES: Mapping[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int, np.integer),
    pa.float64(): (int, float, np.integer, np.floating),
    pa.bool_(): (bool, np.bool_),
    pa.string(): (str,),
}
_ROWS_PER_GROUP = 1 << 20
_FEW_ROWS = 1 << 14
"""Rows up to which a table may be in memory twice, and threads cost more than they save."""
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


def client_parts(clients: Iterable[ClientColumns]) -> Iterator[pa.Table]:
    """Yield the clients table, without the columns that are None.

    Raises:
        ValueError: columns differ in length, or hold other values than the table.
    """
    for some in clients:
        columns = {field.name: getattr(some, field.name) for field in fields(some)}
        for name in OPTIONAL["clients"]:
            if columns[name] is None:
                del columns[name]
        lengths = {column: len(values) for column, values in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of clients differ in length: {lengths}")
        table = _table("clients", columns)
        # Copied from numpy's memory, which would be kept in addition when a row group is joined.
        yield pa.concat_tables([table, table.slice(0, 0)]).combine_chunks()


def concat(name: TableName, parts: Parts) -> pa.Table:
    """Concatenate the parts of a table; empty without any."""
    return pa.concat_tables(list(parts) or [SCHEMAS[name].empty_table()]).combine_chunks()


def unused(name: TableName, parts: Parts) -> list[str]:
    """Return the optional columns, of those in the parts, that hold only null."""
    num_values: dict[str, int] = {}
    for part in parts:
        for column in OPTIONAL[name].intersection(part.column_names):
            num = part.num_rows - part[column].null_count
            num_values[column] = num_values.get(column, 0) + num
    return [column for column, num in num_values.items() if not num]


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return the table for pandas; null becomes NaN."""
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _table(name: TableName, columns: Mapping[str, Any]) -> pa.Table:
    schema = _expected(columns, name)
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
        if not issubclass(kind, _PYTHON_TYPES[expected]) or is_bool != (expected == pa.bool_()):
            raise TypeError(f"found {kind.__name__}")


def write(
    path: Path, parts: Parts, *, is_published: bool = True, syncs_folder: bool = True
) -> None:
    """Write the parts of a table, one at least, as `encode` does; atomically, as `replacing`."""
    with atomic_files.replacing(path, syncs_folder=syncs_folder) as file:
        encode(parts, file, is_published=is_published)


def encode(parts: Parts, sink: pa.NativeFile | BinaryIO, *, is_published: bool = True) -> None:
    """Write the parts of a table, one at least, into a file as parquet.

    Equal rows give equal bytes under one version of pyarrow, in whatever parts they come. Without
    `is_published` the file is larger by a seventh, and made in half the time: for tables that are
    soon read again.
    """
    packing = {"compression": "zstd", "compression_level": 3} if is_published else _FAST
    groups = _row_groups(parts)
    group = next(groups)
    with pq.ParquetWriter(
        sink,
        group.schema,
        version="2.6",
        use_dictionary=[field.name for field in group.schema if field.type == pa.string()],
        data_page_version="1.0",
        **packing,
    ) as writer:
        while group is not None:
            writer.write_table(group, _ROWS_PER_GROUP)
            group = None  # only one row group is in memory at a time
            group = next(groups, None)


def _row_groups(parts: Parts) -> Iterator[pa.Table]:
    """Yield the same rows in full row groups; the last one has fewer."""
    pending: list[pa.Table] = []
    num_rows = 0
    for part in parts:
        pending.append(part)
        num_rows += part.num_rows
        del part
        while num_rows > _ROWS_PER_GROUP:
            rows = pa.concat_tables(pending)
            pending = [rows.slice(0, _ROWS_PER_GROUP)]
            rest = rows.slice(_ROWS_PER_GROUP).combine_chunks()
            del rows
            yield _joined(pending)
            pending = [rest]
            num_rows -= _ROWS_PER_GROUP
            pa.default_memory_pool().release_unused()
    yield _joined(pending)


def _joined(parts: list[pa.Table]) -> pa.Table:
    """Return parts in one piece; of many rows one column at a time is in memory twice."""
    if sum(part.num_rows for part in parts) <= _FEW_ROWS:
        return pa.concat_tables(parts).combine_chunks()
    schema = parts[0].schema
    columns = [[chunk for part in parts for chunk in part[name].chunks] for name in schema.names]
    parts.clear()
    joined: list[pa.Array] = []
    for number, field in enumerate(schema):
        joined.append(pa.chunked_array(columns[number], field.type).combine_chunks())
        columns[number] = []
        pa.default_memory_pool().release_unused()  # at once, not after some milliseconds
    return pa.table(joined, schema=schema)


def read(path: Path, name: TableName, *, hint: str) -> pa.Table:
    """Read a table and check its columns."""
    return decode(atomic_files.read(path, hint=hint), name, source=str(path), hint=hint)


def decode(data: bytes, name: TableName, *, source: str, hint: str) -> pa.Table:
    """Return the table in the bytes of a parquet file; `source` names it in messages."""
    return pa.concat_tables(parts_in(io.BytesIO(data), name, source=source, hint=hint))


def parts_in(
    file: BinaryIO,
    name: TableName,
    *,
    source: str,
    hint: str,
    columns: Collection[str] | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a parquet file, a row group at a time, or only these columns of them."""
    num_byte = file.seek(0, io.SEEK_END)
    limit = max(_LEAST_LIMIT_BYTE, limit_byte(num_byte))
    with _one_line(source, hint):
        opened = pq.ParquetFile(file)
        schema = _expected(opened.schema_arrow.names, name)
        if fault := _schema_fault(opened.schema_arrow, schema):
            raise DataError(f"{source}: {fault}; {hint}")
        # Equal values take no space in the file, so a few bytes may announce any number of rows.
        metadata = opened.metadata
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        announced_byte = metadata.num_rows * _VALUE_BYTE * len(schema)
        if max(announced_byte, sum(group.total_byte_size for group in groups)) > limit:
            raise DataError(
                f"{source}: announces {metadata.num_rows} rows in {num_byte} bytes, more than"
                f" a run writes; {hint}"
            )
        if columns is not None:
            schema = pa.schema(field for field in schema if field.name in columns)
        texts = [field.name for field in schema if field.type == pa.string()]
        # As dictionaries, texts that are equal take memory once.
        opened = pq.ParquetFile(file, metadata=metadata, read_dictionary=texts)
        text_byte = 0
        for number in range(metadata.num_row_groups):
            has_many = metadata.num_rows > _FEW_ROWS
            part = opened.read_row_group(number, schema.names, use_threads=has_many)
            text_byte += sum(_text_byte(column) for column in part.columns)
            if text_byte > limit:
                raise too_large(source, num_byte, limit)
            part = part.cast(_plain(part.schema))
            part.validate(full=True)
            yield _checked(part, schema, source, hint)
        if not metadata.num_row_groups:
            yield schema.empty_table()


@contextmanager
def _one_line(source: str, hint: str) -> Iterator[None]:
    """Turn a fault of pyarrow into a one-line error."""
    try:
        yield
    except _FAULTS as cause:
        first_line = _EXCEPTION_NAME.sub("", str(cause).partition("\n")[0])
        raise DataError(f"{source}: is not a whole parquet file ({first_line}); {hint}") from None


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


def _checked(table: pa.Table, schema: pa.Schema, source: str, hint: str) -> pa.Table:
    """Return the columns of the table in order, if their values are right."""
    if fault := _null_fault(table, schema) or _word_fault(table):
        raise DataError(f"{source}: {fault}; {hint}")
    return table.select(schema.names).replace_schema_metadata(None).cast(schema)


def _expected(columns: Iterable[str], name: TableName) -> pa.Schema:
    """Return the columns that a table must have, given the optional ones that it has."""
    missing = OPTIONAL[name].difference(columns)
    return pa.schema([field for field in SCHEMAS[name] if field.name not in missing])


def _schema_fault(schema: pa.Schema, expected: pa.Schema) -> str | None:
    names, types = schema.names, {field.name: field.type for field in expected}
    for column in types:
        if (times := names.count(column)) != 1:
            return f"column {quoted(column)} is there {times} times instead of once"
    for field in schema:
        if field.name not in types:
            return f"column {quoted(field.name)} is not one of this table"
        if field.type != types[field.name]:
            return f"column {quoted(field.name)} is {field.type}, not {types[field.name]}"
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
        name = f"column {quoted(column)}"
        for word in pc.unique(table[column]).to_pylist() if column in table.schema.names else ():
            if words and word not in words:
                return f"{name} holds {quoted(word)}, not one of {', '.join(words)}"
            if len(word) > MAX_NAME or not word.isprintable():
                return f"{name} holds the name {quoted(word)}, which cannot be shown"
    return None
