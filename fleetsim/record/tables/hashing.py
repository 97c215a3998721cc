"""Digests of tables: SHA-256 of their values, however they are stored."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TYPE_NAMES: Mapping[pa.DataType, str] = {
    pa.int64(): "int64",
    pa.float64(): "float64",
    pa.bool_(): "bool",
    pa.string(): "string",
}


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
        if field.type not in _TYPE_NAMES:
            raise ValueError(f"{name}.{field.name}: cannot digest a column of {field.type}")
        yield from block(field.name.encode())
        yield from block(_TYPE_NAMES[field.type].encode())
        yield from block(column.is_null().to_numpy().tobytes())
        for data in _blocks(field.type, column):
            yield from block(data)


def _blocks(type_: pa.DataType, column: pa.ChunkedArray) -> Iterable[bytes]:
    if type_ == pa.string():
        texts = column.fill_null("")
        yield pc.binary_length(texts).to_numpy().astype("<i8").tobytes()
        yield "".join(texts.to_pylist()).encode()
        return
    values = column.fill_null(pa.scalar(0).cast(type_)).to_numpy()
    if type_ == pa.float64():
        values = np.where(np.isnan(values), np.nan, values)
    yield values.astype(values.dtype.newbyteorder("<")).tobytes()
