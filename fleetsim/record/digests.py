"""Digests of tables: SHA-256 of their values, a column at a time; docs/outputs.md defines them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetsim.host import paths

_Content = tuple[pa.Schema, int, Callable[[str], pa.ChunkedArray]]
"""Schema of a table, its number of rows, and what returns a column."""
_TYPE_NAMES: Mapping[pa.DataType, str] = {
    pa.int64(): "int64",
    pa.float64(): "float64",
    pa.bool_(): "bool",
    pa.string(): "string",
}
_VALUE_BYTE = 8
_TEXTS_AT_ONCE = 1 << 16


def digest(tables: Mapping[str, pa.Table]) -> str:
    """Return the SHA-256 of the values of tables, whatever their order."""
    return _digests({name: (t.schema, t.num_rows, t.column) for name, t in tables.items()})[0]


def file_digests(files: Mapping[str, Path]) -> tuple[str, dict[str, str]]:
    """Return `digest` of the tables in parquet files of this run, and of each alone, in one pass.

    One column is in memory at a time.
    """
    contents: dict[str, _Content] = {}
    with ExitStack() as stack:
        for name, path in files.items():
            opened = stack.enter_context(paths.opened(path))
            schema = pq.read_schema(opened)
            texts = [field.name for field in schema if field.type == pa.string()]
            # As dictionaries, texts that are equal take memory once.
            file = pq.ParquetFile(opened, read_dictionary=texts)
            contents[name] = (schema, file.metadata.num_rows, partial(_column, file))
        return _digests(contents)


def _column(file: pq.ParquetFile, name: str) -> pa.ChunkedArray:
    groups = range(file.metadata.num_row_groups)
    chunks = [file.read_row_group(number, [name]).column(0).chunks for number in groups]
    return pa.chunked_array(chain.from_iterable(chunks), file.schema_arrow.field(name).type)


def _digests(contents: Mapping[str, _Content]) -> tuple[str, dict[str, str]]:
    whole = hashlib.sha256()
    of_table: dict[str, str] = {}
    for name in sorted(contents):
        alone = hashlib.sha256()
        for data in _hashed(name, *contents[name]):
            whole.update(data)
            alone.update(data)
        of_table[name] = alone.hexdigest()
    return whole.hexdigest(), of_table


def _hashed(
    name: str, schema: pa.Schema, num_rows: int, column_of: Callable[[str], pa.ChunkedArray]
) -> Iterator[bytes]:
    """Yield the hashed bytes of a table."""

    def number(value: int) -> bytes:
        return value.to_bytes(8, "little")

    def block(data: bytes) -> Iterator[bytes]:
        yield number(len(data))
        yield data

    yield from block(name.encode())
    yield number(len(schema))
    yield number(num_rows)
    for field in schema:
        if field.type not in _TYPE_NAMES:
            raise ValueError(f"{name}.{field.name}: cannot digest a column of {field.type}")
        column = column_of(field.name)
        yield from block(field.name.encode())
        yield from block(_TYPE_NAMES[field.type].encode())
        # A chunk at a time, which takes little memory beside the column.
        yield number(num_rows)
        yield from (_array_bytes(chunk.is_null(), "?") for chunk in column.chunks)
        if field.type == pa.string():
            yield number(num_rows * _VALUE_BYTE)
            yield from (_array_bytes(_lengths(chunk), "<i8") for chunk in column.chunks)
            yield number(sum(pc.sum(_lengths(chunk)).as_py() or 0 for chunk in column.chunks))
            yield from _encoded_texts(column)
        else:
            yield number(num_rows * (1 if field.type == pa.bool_() else _VALUE_BYTE))
            yield from map(_number_bytes, column.chunks)


def _lengths(texts: pa.Array) -> pa.Array:
    return pc.binary_length(texts.cast(pa.string())).fill_null(0)


def _encoded_texts(texts: pa.ChunkedArray) -> Iterator[bytes]:
    # Some at a time: texts that are not dictionaries any more take memory for each row.
    for row in range(0, len(texts), _TEXTS_AT_ONCE):
        some = texts.slice(row, _TEXTS_AT_ONCE).cast(pa.string()).drop_null().combine_chunks()
        together = pc.binary_join(pa.ListArray.from_arrays([0, len(some)], some), "")
        yield together[0].as_py().encode()


def _number_bytes(numbers: pa.Array) -> bytes:
    zero = pa.scalar(0).cast(numbers.type)
    values = numbers.fill_null(zero).to_numpy(zero_copy_only=False)
    if numbers.type == pa.float64():
        values = np.where(np.isnan(values), np.nan, values)
    return bytes(values.astype(values.dtype.newbyteorder("<")).tobytes())


def _array_bytes(values: pa.Array, dtype: str) -> bytes:
    return bytes(values.to_numpy(zero_copy_only=False).astype(dtype, copy=False).tobytes())
