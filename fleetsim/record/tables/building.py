"""Tables of a run from its rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fleetsim.contracts import ClientColumns, RoundRow, TaskRow
from fleetsim.record.tables.arrow_columns import array
from fleetsim.record.tables.schemas import OPTIONAL, SCHEMAS, TableName

if TYPE_CHECKING:
    import pandas as pd


def from_rows(name: TableName, rows: Sequence[TaskRow] | Sequence[RoundRow]) -> pa.Table:
    """Return the table of rows, in their order."""
    names = SCHEMAS[name].names
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return _table(name, dict(zip(names, map(list, columns), strict=True)))


def from_columns(clients: ClientColumns) -> pa.Table:
    """Return the clients table."""
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
    return pa.table([array(name, field, columns[field.name]) for field in schema], schema=schema)
