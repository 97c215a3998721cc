"""Digests of tables: SHA-256 of their values, however they are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetsim.record.tables.arrow_columns import LITTLE_ENDIAN, to_numpy

_TYPE_NAMES: Mapping[pa.DataType, str] = {
    pa.int64(): "int64",
    pa.float64(): "float64",
    pa.bool_(): "bool",
    pa.string(): "string",
}


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 of the values of tables."""

    whole: str
    """Digest of all tables together."""
    of_table: dict[str, str]
    """Digest of each table alone, by its name."""


def digest(tables: Mapping[str, pa.Table]) -> str:
    """Return the SHA-256 of the values of tables; chunks, encoding and compression do not matter.

    Hashed are, for each table by name:

    - its name, number of columns and of rows;
    - for each column in order its name, its type, a byte per value that is 1 for null, and the
      values: int64 and float64 in little-endian (0 for null, one bit pattern for every NaN), bool
      as a byte, strings as their lengths in bytes (int64) and then their UTF-8.

    Names, types and value blocks are preceded by their length in bytes. All numbers are 8 bytes,
    little-endian.

    Raises:
        ValueError: a column is none of int64, float64, bool and string.
    """
    return digests(tables).whole


def digests(tables: Mapping[str, pa.Table]) -> Digests:
    """Return `digest` of all tables and of each alone, in one pass.

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
    """Yield the hashed bytes of a table."""

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
    yield values.astype(LITTLE_ENDIAN[type_]).tobytes()


def _string_buffers(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of the texts of a column [n+1], and all their bytes."""
    if len(column) == 0:
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    _, ends, data = column.buffers()
    ends = np.frombuffer(ends, dtype="<i4")[column.offset : column.offset + len(column) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return ends.astype(np.int64), text[ends[0] : ends[-1]]
