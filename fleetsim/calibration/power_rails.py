"""Energy of power rails as Perfetto records it (`android.power`), as a power log.

Rails count microwatt-seconds from boot. Two forms are read:

- a CSV export of the trace processor, with the columns `ts` (ns), `value` (uWs) and `name`, `rail`
  or `track`:
  select c.ts, t.name, c.value from counter c join counter_track t on c.track_id = t.id
  where t.name like 'power.%'
- the recorded trace (.perfetto-trace, .pftrace, .pb), by the package `perfetto`
  (pip install 'fleetsim[rails]'). A count without a time of its own has that of its packet, as in
  power_rails_well_known.textproto of Perfetto's own tests (test/trace_processor/power).

The power of a rail holds from one count to the next. The power of the device is the sum of the
chosen rails.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from fleetsim.calibration.power_log import PowerLog, power_log
from fleetsim.contracts import FloatArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import ColumnChoice, counted, texts_of
from fleetsim.fleet.traces.column_numbers import numbers_of
from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.table_rows import SEEN, Layout
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.units import J_OF, MS_PER_S, S_OF

TRACE_SUFFIXES: Final = (".perfetto-trace", ".pftrace", ".pb", ".perfetto")
_NAMES: Final = ("name", "rail", "track", "track_name")
_MOST_BYTE: Final = 1 << 30
_BOOTTIME: Final = 6
"""Number of the clock of timestamps in `BuiltinClock` (perfetto/common/builtin_clock.proto)."""

_Counts = dict[str, list[tuple[float, float]]]
"""Moments in s and energies in J, by rail."""


def is_rails(columns: Collection[str]) -> bool:
    """Return True for the columns of a table of counts of rails."""
    return {"ts", "value"} <= set(columns) and any(name in columns for name in _NAMES)


def read_rails(path: Path, rails: Sequence[str], layout: Layout = SEEN) -> PowerLog:
    """Read counts of rails, of a CSV export or a recorded trace, as the power of their sum.

    Without names of `rails` all are added up; `layout` is that of a CSV export.
    """
    notes: list[str] = []
    is_trace = path.suffix in TRACE_SUFFIXES
    counts = _of_trace(path) if is_trace else _of_table(path, layout, notes)
    for rail in rails:
        if rail not in counts:
            known = ", ".join(sorted(counts)[:12])
            raise ScenarioError(
                f"device calibrate: --rail {quoted(rail)} is not in {path}; its rails are {known}"
            )
    chosen = {name: counts[name] for name in (rails or sorted(counts))}
    steps = {name: _steps(path, name, pairs) for name, pairs in chosen.items()}
    begin = max(float(at_s[0]) for at_s, _ in steps.values())
    end = min(float(at_s[-1]) for at_s, _ in steps.values())
    if not begin < end:
        raise DataError(f"{path}: the rails have no time in common; choose some with --rail")
    moments = np.unique(np.concatenate([at_s for at_s, _ in steps.values()]))
    moments = moments[(moments >= begin) & (moments <= end)]
    # Linear in between: the power of a rail is constant from one count to the next.
    total_j = sum(np.interp(moments, at_s, energy_j) for at_s, energy_j in steps.values())
    power_w = np.diff(np.asarray(total_j)) / np.diff(moments)
    notes.insert(0, f"{sum(map(len, chosen.values()))} counts of {len(chosen)} rails read")
    log = power_log(str(path), moments[:-1], power_w, notes, start_s=begin)
    return replace(log, end_s=float(moments[-1] - moments[0]), is_counter=True)


def _steps(
    path: Path, name: str, pairs: list[tuple[float, float]]
) -> tuple[FloatArray, FloatArray]:
    """Return moments and energies of a rail, ascending; of one moment the highest count."""
    by_time = dict(sorted(pairs))
    at_s, energy_j = np.array(list(by_time)), np.array(list(by_time.values()))
    if at_s.size < 2:
        raise DataError(f"{path}: rail {quoted(name)} has fewer than two counts; leave it out")
    if (np.diff(energy_j) < 0.0).any():
        raise DataError(
            f"{path}: the energy of rail {quoted(name)} falls; the device was restarted, so take"
            " the log anew or leave the rail out"
        )
    return at_s, energy_j


def _of_table(path: Path, layout: Layout, notes: list[str]) -> _Counts:
    """Read the rails of a CSV export, and note rows that are left out."""
    table = read_csv_table(path, layout)
    if not is_rails(table.columns):
        raise DataError(
            f"{path}, row 1: no columns ts, value and name, which an export of power rails has"
        )
    label = next(name for name in _NAMES if name in table.columns)
    names = texts_of(table, ColumnChoice("--rail", label, None))
    at_s = numbers_of(table, ColumnChoice("--power", "ts", "ns"), S_OF["ns"])
    energy_j = numbers_of(table, ColumnChoice("--power", "value", "uWs"), J_OF["uWs"])
    counts: _Counts = defaultdict(list)
    for name, time_s, joule in zip(names, at_s.tolist(), energy_j.tolist(), strict=True):
        if np.isfinite(time_s) and np.isfinite(joule):
            counts[name].append((time_s, joule))
    num_left_out = table.num_rows - sum(map(len, counts.values()))
    notes += [*table.notes, *counted(num_left_out, "left out without a time or an energy")]
    if not counts:
        raise DataError(f"{path}: holds no count of a rail; record android.power with rails")
    return dict(counts)


def _of_trace(path: Path) -> _Counts:
    """Read the rails of a recorded trace."""
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2  # noqa: PLC0415
    except ImportError:
        raise ScenarioError(
            f"device calibrate: {path} is a recorded trace, which needs the package perfetto:"
            " pip install 'fleetsim[rails]'; or export its counters as CSV"
        ) from None
    with paths.opened(path) as file:
        content = file.read(_MOST_BYTE + 1)
    if len(content) > _MOST_BYTE:
        raise DataError(f"{path}: holds more than {_MOST_BYTE >> 20} MiB; export it as CSV")
    trace = perfetto_trace_pb2.Trace()
    try:
        trace.ParseFromString(content)
    except DecodeError as fault:
        raise DataError(f"{path}: is no Perfetto trace ({fault}); export it as CSV") from fault
    names: dict[tuple[int, int], str] = {}
    counts: _Counts = defaultdict(list)
    for packet in trace.packet:
        if not packet.HasField("power_rails"):
            continue
        session = packet.power_rails.session_uuid
        for rail in packet.power_rails.rail_descriptor:
            names[session, rail.index] = rail.rail_name
        for data in packet.power_rails.energy_data:
            at_s = _moment_s(path, packet, data)
            energy_j = data.energy * J_OF["uWs"]
            counts[names.get((session, data.index), f"rail {data.index}")].append((at_s, energy_j))
    if not counts:
        raise DataError(
            f"{path}: holds no power rails; record android.power with collect_power_rails"
        )
    return dict(counts)


def _moment_s(path: Path, packet: Any, data: Any) -> float:
    """Return the moment of a count in s: its own, or that of its packet."""
    if data.HasField("timestamp_ms"):
        return float(data.timestamp_ms) / MS_PER_S
    if not packet.HasField("timestamp") or packet.timestamp_clock_id not in (0, _BOOTTIME):
        raise DataError(
            f"{path}: a count of power rails states no time of its own, and its packet none of the"
            " clock BOOTTIME; export the counters as CSV, which converts clocks"
        )
    return float(packet.timestamp) * S_OF["ns"]
