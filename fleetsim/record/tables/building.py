"""Columns of every table of a run, and tables from rows and columns.

The columns are the fields of `TaskRow`, `RoundRow` and `ClientColumns`. One may hold null only
where its field may be None, or is of a battery (null on mains) or of a record (null for a client
that follows none). docs/outputs.md defines each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetsim.contracts import (
    ClientColumns,
    FloatArray,
    IntArray,
    Outcome,
    Purpose,
    RoundRow,
    TaskRow,
)

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

WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
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
        if not issubclass(kind, _PYTHON[expected]) or is_bool != (expected == pa.bool_()):
            raise TypeError(f"found {kind.__name__}")
