"""A trace read by Perfetto's own classes, with the rules of its trace processor for events.

Events are put in the order of their moments, those of one moment in the order of the file. A begin
opens a slice within the open one of its track, an end closes it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

perfetto_trace_pb2 = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2",
    reason="perfetto is not installed; it comes with the extra dev",
)


class Slice(NamedTuple):
    name: str
    begin_ns: int
    end_ns: int
    depth: int
    details: dict[str, Any]


@dataclass
class Trace:
    """Slices and values of counters, by the path of their track."""

    slices: dict[str, list[Slice]] = field(default_factory=lambda: defaultdict(list))
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    units: dict[str, str] = field(default_factory=dict)

    def spans(self, track: str) -> list[tuple[int, str, int, int]]:
        """Depth, name, begin and end of the slices of a track, in order."""
        return [(one.depth, one.name, one.begin_ns, one.end_ns) for one in self.slices[track]]

    def integral(self, track: str) -> float:
        """Integral of a counter over seconds; its last value must be 0."""
        values = self.counters[track]
        assert not values or values[-1][1] == 0.0
        pairs = pairwise(values)
        return sum(value * (later - at) * 1e-9 for (at, value), (later, _) in pairs)


def read(data: bytes) -> Trace:
    """Read a trace; every packet must be one that Perfetto knows, in its shortest form."""
    whole = perfetto_trace_pb2.Trace.FromString(data)
    assert whole.SerializeToString() == data
    texts = interned(whole)
    paths: dict[int, str] = {}
    trace = Trace()
    for packet in whole.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            parent = f"{paths[track.parent_uuid]}/" if track.parent_uuid else ""
            assert track.uuid not in paths
            paths[track.uuid] = parent + track.name
            if track.HasField("counter"):
                trace.units[paths[track.uuid]] = track.counter.unit_name
    events = [packet for packet in whole.packet if packet.HasField("track_event")]
    open_slices: dict[str, list[Any]] = defaultdict(list)
    for packet in sorted(events, key=lambda packet: packet.timestamp):
        event = packet.track_event
        track, stack = paths[event.track_uuid], open_slices[paths[event.track_uuid]]
        if event.type == event.TYPE_COUNTER:
            trace.counters[track].append((packet.timestamp, event.double_counter_value))
        elif event.type == event.TYPE_SLICE_BEGIN:
            name = event.name or texts["event_names"][event.name_iid]
            stack.append((name, packet.timestamp, details(event, texts)))
        else:
            assert event.type == event.TYPE_SLICE_END
            name, began_ns, shown = stack.pop()
            trace.slices[track].append(Slice(name, began_ns, packet.timestamp, len(stack), shown))
    assert not any(open_slices.values())
    for slices in trace.slices.values():
        slices.sort(key=lambda one: (one.begin_ns, one.depth, one.end_ns))
    return trace


def interned(whole: Any) -> dict[str, dict[int, str]]:
    """The interned texts, which come before the first event."""
    (row,) = [row for row, packet in enumerate(whole.packet) if packet.HasField("interned_data")]
    first = next(row for row, packet in enumerate(whole.packet) if packet.HasField("track_event"))
    assert row < first
    assert whole.packet[row].sequence_flags & 1
    data = whole.packet[row].interned_data
    texts = {
        kind: {entry.iid: entry.name for entry in getattr(data, kind)}
        for kind in ("event_categories", "event_names", "debug_annotation_names")
    }
    values = {entry.iid: entry.str.decode() for entry in data.debug_annotation_string_values}
    return texts | {"values": values}


def details(event: Any, texts: dict[str, dict[int, str]]) -> dict[str, Any]:
    """The annotations of a slice."""
    shown = {}
    for one in event.debug_annotations:
        kind = one.WhichOneof("value")
        value = getattr(one, kind)
        name = texts["debug_annotation_names"][one.name_iid]
        shown[name] = texts["values"][value] if kind == "string_value_iid" else value
    return shown
