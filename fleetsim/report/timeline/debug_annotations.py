"""Columns of a table as annotations of slices, which a click on the slice shows.

The annotation has the name of the column. Null has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from fleetsim.contracts import Outcome, Purpose
from fleetsim.report.timeline import wire
from fleetsim.report.timeline.packets import Interned
from fleetsim.report.timeline.wire import Rows

_ANNOTATION = 4  # of TrackEvent
# Of DebugAnnotation in google/perfetto@v52.0 protos/perfetto/trace/track_event.
_NAME_IID, _BOOL, _INT, _DOUBLE, _TEXT, _TEXT_IID = 1, 2, 4, 5, 6, 17

VALUES = Interned("value", [*(str(one) for one in Purpose), *(str(one) for one in Outcome)])
"""Texts that occur in many rows."""
_CLOSED = ("purpose", "outcome")


def of_rows(table: pd.DataFrame, columns: Sequence[str], names: Interned) -> Rows:
    """Return the annotations of the slice of each row."""
    return wire.join(*(_annotation(name, table[name], names) for name in columns))


def _annotation(column: str, values: pd.Series[Any], names: Interned) -> Rows:
    name = wire.varint_field(_NAME_IID, np.full(len(values), names.iid(column)))
    content = wire.message_field(_ANNOTATION, wire.join(name, _value(column, values)))
    return content.where(values.notna().to_numpy(dtype=np.bool_))


def _value(column: str, values: pd.Series[Any]) -> Rows:
    if column in _CLOSED:
        iids = values.map({text: VALUES.iid(text) for text in VALUES.texts})
        return wire.varint_field(_TEXT_IID, np.asarray(iids, dtype=np.int64))
    if types.is_bool_dtype(values.dtype):
        return wire.varint_field(_BOOL, values.to_numpy(dtype=np.int64))
    if types.is_integer_dtype(values.dtype):
        return wire.varint_field(_INT, values.to_numpy(dtype=np.int64))
    if types.is_float_dtype(values.dtype):
        return wire.double_field(_DOUBLE, values.to_numpy(dtype=np.float64))
    return wire.text_field(_TEXT, ["" if pd.isna(text) else str(text) for text in values])
