"""Columns of every table of a run: the fields of `TaskRow`, `RoundRow` and `ClientColumns`.

A column may hold null only where its field may be None, or is of a battery (null on mains) or of a
record (null for a client that follows none). docs/outputs.md defines each column.
"""

from collections.abc import Mapping
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_type_hints

import pyarrow as pa

from fleetsim.contracts import (
    ClientColumns,
    FloatArray,
    IntArray,
    Outcome,
    Purpose,
    RoundRow,
    TaskRow,
)

TableName = Literal["rounds", "tasks", "clients"]
_CLIENT_BATTERIES = tuple(
    f"battery_{name}_j" for name in ("capacity", "initial", "charged", "owner", "loss", "final")
)
_ENLISTED = "energy_enlisted_idle_j"
_SHIFTS = ("usage_shift_s", "network_shift_s")
NULL_WHEN_NAN = frozenset({"battery_fraction", *_CLIENT_BATTERIES, *_SHIFTS})
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
            name, _ARROW_TYPES[hint], nullable=NoneType in get_args(hint) or name in NULL_WHEN_NAN
        )
        for name, hint in get_type_hints(row).items()
    )


SCHEMAS: Mapping[TableName, pa.Schema] = MappingProxyType(
    {"rounds": _schema(RoundRow), "tasks": _schema(TaskRow), "clients": _schema(ClientColumns)}
)
