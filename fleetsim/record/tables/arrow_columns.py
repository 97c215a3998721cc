"""Arrow columns from NumPy arrays and Python values."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetsim.record.tables.schemas import NULL_WHEN_NAN, TableName

_PYTHON: Mapping[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int, np.integer),
    pa.float64(): (int, float, np.integer, np.floating),
    pa.bool_(): (bool, np.bool_),
    pa.string(): (str,),
}


def array(name: TableName, field: pa.Field, values: Any) -> pa.Array:
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


def _require_types(wanted: pa.DataType, values: Sequence[Any]) -> None:
    """Check the types of Python values, None for null; pyarrow silently cuts 1.5 down to 1."""
    for kind in set(map(type, values)) - {NoneType}:
        is_bool = issubclass(kind, bool | np.bool_)
        if not issubclass(kind, _PYTHON[wanted]) or is_bool != (wanted == pa.bool_()):
            raise TypeError(f"found {kind.__name__}")
