"""Packets of a Perfetto trace: tracks, slices, counters and interned texts.

A slice is an event of type begin and one of type end on its track; slices within it are its
children. Texts that occur often are sent once and then named by number.

Field numbers are those of google/perfetto@v52.0, protos/perfetto/trace: trace_packet.proto and, in
track_event/, track_event.proto, track_descriptor.proto, counter_descriptor.proto and
debug_annotation.proto; interned_data/interned_data.proto. Fields are in the order of their numbers,
as Perfetto's own classes write them. How they are to be used:
https://perfetto.dev/docs/reference/synthetic-track-event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types

from fleetsim.contracts import FloatArray, IntArray, Outcome, Purpose
from fleetsim.report.timeline import wire
from fleetsim.report.timeline.wire import Rows

_PACKET = 1  # of Trace
# Of TracePacket.
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _DESCRIPTOR = 8, 10, 11, 12, 13, 60
_ONE_SEQUENCE, _IS_CLEARED, _IS_NEEDED = 1, 1, 2
# Of TrackEvent.
_CATEGORY_IID, _TYPE, _NAME_IID, _TRACK, _NAME, _VALUE = 3, 9, 10, 11, 23, 44
_BEGIN, _END, _COUNTER = 1, 2, 4
# Of TrackDescriptor, and the unit of CounterDescriptor.
_UUID, _TRACK_NAME, _PARENT, _COUNTER_OF, _ORDERING, _RANK, _DESCRIPTION = 1, 2, 5, 8, 11, 12, 14
_UNIT_NAME = 6
_ORDERINGS = {"by name": 1, "by rank": 3}
# Of InternedData and its entries.
_TABLES = {"category": 1, "name": 2, "annotation": 3, "value": 29}
_IID, _TEXT = 1, 2
_ANNOTATION = 4  # of TrackEvent
# Of DebugAnnotation.
_ANNOTATION_NAME_IID, _BOOL, _INT, _DOUBLE, _TEXT_VALUE, _TEXT_IID = 1, 2, 4, 5, 6, 17


class Interned:
    """Texts with a number each, from 1, in their order."""

    def __init__(self, kind: Literal["category", "name", "annotation", "value"], texts: list[str]):
        self.kind = kind
        self.texts = texts
        self._iids = {text: number for number, text in enumerate(texts, start=1)}

    def iid(self, text: str) -> int:
        """Return the number of a text."""
        return self._iids[text]


VALUES = Interned("value", [*(str(one) for one in Purpose), *(str(one) for one in Outcome)])
"""Texts that occur in many rows."""
_CLOSED = ("purpose", "outcome")


def tracks(
    uuids: IntArray,
    names: Sequence[str],
    *,
    parent: IntArray | None = None,
    ranks: IntArray | None = None,
    children: Literal["by name", "by rank"] | None = None,
    unit: str | None = None,
    description: str | None = None,
) -> bytes:
    """Return descriptions of tracks [N]; those with a `unit` are counters."""
    num = len(uuids)
    parts = [wire.varint_field(_UUID, uuids), wire.text_field(_TRACK_NAME, names)]
    if parent is not None:
        parts.append(wire.varint_field(_PARENT, parent))
    if unit is not None:
        counter = wire.text_field(_UNIT_NAME, [unit] * num) if unit else wire.constant(num, b"")
        parts.append(wire.message_field(_COUNTER_OF, counter))
    if children is not None:
        parts.append(_same(_ORDERING, _ORDERINGS[children], num))
    if ranks is not None:
        parts.append(wire.varint_field(_RANK, ranks))
    if description is not None:
        parts.append(wire.text_field(_DESCRIPTION, [description] * num))
    return _packets(wire.message_field(_DESCRIPTOR, wire.join(*parts))).tobytes()


def interned(tables: Sequence[Interned]) -> bytes:
    """Return the packet with all interned texts; it comes before the events that name them."""
    entries = [
        wire.message_field(
            _TABLES[table.kind],
            wire.join(
                wire.varint_field(_IID, np.array([table.iid(text)])), wire.text_field(_TEXT, [text])
            ),
        )
        for table in tables
        for text in table.texts
    ]
    texts = wire.message_field(_INTERNED, wire.join(*entries))
    return _packets(texts, _same(_FLAGS, _IS_CLEARED | _IS_NEEDED, 1)).tobytes()


def annotations_of(table: pd.DataFrame, columns: Sequence[str], names: Interned) -> Rows:
    """Return columns of a table as annotations of a slice per row, which a click on it shows.

    An annotation has the name of its column. Null has none.
    """
    return wire.join(*(_annotation(name, table[name], names) for name in columns))


def _annotation(column: str, values: pd.Series[Any], names: Interned) -> Rows:
    name = _same(_ANNOTATION_NAME_IID, names.iid(column), len(values))
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
    return wire.text_field(_TEXT_VALUE, ["" if pd.isna(text) else str(text) for text in values])


def begins(
    at_ns: IntArray, track: IntArray, category: int, names: IntArray | Sequence[str], *details: Rows
) -> Rows:
    """Return events that begin a slice [N], with the annotations of each.

    The category is the number of an interned text. So are the names, or, where they differ, texts.
    """
    num = len(at_ns)
    on_track = wire.varint_field(_TRACK, track)
    if isinstance(names, np.ndarray):
        named = [wire.varint_field(_NAME_IID, names), on_track]
    else:
        named = [on_track, wire.text_field(_NAME, names)]
    parts = [_same(_CATEGORY_IID, category, num), *details]
    return _events(at_ns, *parts, _same(_TYPE, _BEGIN, num), *named, needs_interned=True)


def phases(
    begin_ns: IntArray, end_ns: IntArray, track: IntArray, category: int, name: int
) -> list[Rows]:
    """Return begin and end of slices of one name [N]; both are empty where they last no time."""
    is_there = end_ns > begin_ns
    begun = begins(begin_ns, track, category, np.full(len(begin_ns), name))
    return [begun.where(is_there), ends(end_ns, track).where(is_there)]


def ends(at_ns: IntArray, track: IntArray) -> Rows:
    """Return events that end a slice [N]."""
    return _events(at_ns, _same(_TYPE, _END, len(at_ns)), wire.varint_field(_TRACK, track))


def counters(at_ns: IntArray, track: int, values: FloatArray) -> Rows:
    """Return values of a counter [N], each from its moment on."""
    num = len(at_ns)
    uuids = _same(_TRACK, track, num)
    return _events(at_ns, _same(_TYPE, _COUNTER, num), uuids, wire.double_field(_VALUE, values))


def _same(field: int, value: int, num_rows: int) -> Rows:
    """Return a field that has one value in all rows."""
    return wire.varint_field(field, np.full(num_rows, value))


def _events(at_ns: IntArray, *parts: Rows, needs_interned: bool = False) -> Rows:
    event = wire.message_field(_EVENT, wire.join(*parts))
    flags = [_same(_FLAGS, _IS_NEEDED, len(at_ns))] if needs_interned else []
    return _packets(event, *flags, at_ns=at_ns)


def _packets(content: Rows, *flags: Rows, at_ns: IntArray | None = None) -> Rows:
    timestamp = [] if at_ns is None else [wire.varint_field(_TIMESTAMP, at_ns)]
    sequence = _same(_SEQUENCE, _ONE_SEQUENCE, len(content))
    return wire.message_field(_PACKET, wire.join(*timestamp, sequence, content, *flags))
