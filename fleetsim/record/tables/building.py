"""Tables of a run from its rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetsim.contracts import ClientColumns, RoundRow, TaskRow
from fleetsim.record.tables.schemas import NULL_WHEN_NAN, OPTIONAL, SCHEMAS, TableName

if TYPE_CHECKING:
    import pandas as pd

_PYTHON: Mapping[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int, np.integer),
    pa.float64(): (int, float, np.integer, np.floating),
    pa.bool_(): (bool, np.bool_),
    pa.string(): (str,),
}


def from_rows(name: TableName, rows: Sequence[TaskRow] | Sequence[RoundRow]) -> pa.Table:
    """Return the table of rows, in their order."""
    names = SCHEMAS[name].names
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return _table(name, dict(zip(names, map(list, columns), strict=True)))


def from_columns(clients: ClientColumns) -> pa.Table:
    """Return the clients table."""
    columns = {field.name: getattr(clients, field.name) for field in fields(clients)}
    missing = [None] * len(clients.client)
    columns |= {name: missing for name in OPTIONAL["clients"] if getattr(clients, name) is None}
    lengths = {column: len(values) for column, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of clients differ in length: {lengths}")
    return _table("clients", columns)


def concat(name: TableName, parts: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables of the same name; empty without any."""
    return pa.concat_tables(parts or [SCHEMAS[name].empty_table()]).combine_chunks()


def without_unused(name: TableName, table: pa.Table) -> pa.Table:
    """Return the table without optional columns that hold only null."""
    unused = [column for column in OPTIONAL[name] if table[column].null_count == table.num_rows]
    return table.drop_columns(unused)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return the table for pandas; null becomes NaN."""
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _table(name: TableName, columns: Mapping[str, Any]) -> pa.Table:
    schema = SCHEMAS[name]
    return pa.table([_array(name, field, columns[field.name]) for field in schema], schema=schema)


def _array(name: TableName, field: pa.Field, values: Any) -> pa.Array:
    """Return a column."""
    try:
        is_numbers = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
        if is_numbers:
            values = values.astype(field.type.to_pandas_dtype(), casting="safe", copy=False)
        else:
            _require_types(field.type, values)
        nan_is_null = is_numbers and field.name in NULL_WHEN_NAN
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
        if not issubclass(kind, _PYTHON[expected]) or is_bool != (expected == pa.bool_()):
            raise TypeError(f"found {kind.__name__}")
