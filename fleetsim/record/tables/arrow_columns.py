"""Arrow columns from NumPy arrays and Python values, and back, without pandas.

`pa.array` and `Array.to_numpy` import pandas to look at their arguments. A run needs neither its
second of import nor its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fleetsim.record.tables.schemas import NULL_WHEN_NAN, TableName

LITTLE_ENDIAN: Mapping[pa.DataType, str] = {
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


def array(name: TableName, field: pa.Field, values: Any) -> pa.Array:
    """Return a column.

    Raises:
        ValueError: a value does not fit its column, or is None where null is not allowed.
    """
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
    wanted = np.dtype(LITTLE_ENDIAN[field.type])
    if not np.can_cast(values.dtype, wanted):
        raise TypeError(f"found {values.dtype}")
    is_null = np.isnan(values) if field.name in NULL_WHEN_NAN else np.zeros(len(values), np.bool_)
    return _packed(field.type, values.astype(wanted, copy=False), is_null)


def _from_objects(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Return a column of Python values, None for null.

    Raises:
        TypeError: a value has another type; pyarrow would silently cut 1.5 down to 1.
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
    return _packed(field.type, np.array(filled, dtype=LITTLE_ENDIAN[field.type]), is_null)


def _packed(type_: pa.DataType, values: NDArray[Any], is_null: NDArray[np.bool_]) -> pa.Array:
    """Return a column of fixed width from values of its own type."""
    is_valid = np.packbits(~is_null, bitorder="little")
    data = np.packbits(values, bitorder="little") if type_ == pa.bool_() else values
    buffers = [pa.py_buffer(part) for part in (is_valid, np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_, len(values), buffers)


def to_numpy(column: pa.Array) -> NDArray[Any]:
    """Return the values of a column from its buffer; values at nulls are undefined."""
    data = column.buffers()[1]
    if data is None:
        return np.empty(0, dtype=column.type.to_pandas_dtype())
    if column.type == pa.bool_():
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
        return bits[column.offset : column.offset + len(column)].astype(np.bool_)
    values = np.frombuffer(data, dtype=LITTLE_ENDIAN[column.type])
    return values[column.offset : column.offset + len(column)]
