"""Reading, writing and import of network traces in one CSV file.

    trace,t_s,down_bit_per_s[,up_bit_per_s]

docs/models/network-traces.md has every column. The file is `rates.csv` or `rates.csv.gz` of a
folder, or any file that is named by its path.
"""

from pathlib import Path
from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.csv_table import CsvTable, read_csv_table
from fleetsim.fleet.traces.folder import (
    csv_gz,
    find_trace,
    is_unfit,
    new_folder,
    plain_or_packed,
    readme_of,
    write_files,
)
from fleetsim.fleet.traces.network.published_forms import (
    IRISH_APP,
    read_irish_5g,
    read_lumos5g,
    read_norway_3g,
)
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.units import MS_PER_S

NetFormat = Literal["irish-5g", "norway-3g", "lumos5g", "rates"]

RATES_HEADER = ("trace", "t_s", "down_bit_per_s")
UP_COLUMN = "up_bit_per_s"

_RATES = "rates.csv"
_LONE_SAMPLE_MS = 1000
_MAX_T_S = 1e9
# Times are decimal fractions that floats hold to a few nanoseconds.
_MS_TOLERANCE = 1e-3


def load_net_trace(name: str) -> NetTrace:
    """Read the network trace that a scenario names: bundled, or a folder or file of the user."""
    return read_net_trace(find_trace(name, "fleet.channel.trace"))


def is_net_trace(folder: Path) -> bool:
    """Return True for a folder with a network trace, False for one with a usage trace."""
    return bool(plain_or_packed(folder / _RATES))


def read_net_trace(folder_or_file: Path) -> NetTrace:
    """Read a network trace.

    The rate of a sample holds until the next sample of the trace. A row without rates ends its
    trace. Without such a row the last sample holds as long as the one before it, or 1 s if there
    is none.
    """
    table = read_csv_table(_main_file(folder_or_file))
    header = tuple(table.columns)
    if header not in (RATES_HEADER, (*RATES_HEADER, UP_COLUMN)):
        raise DataError(
            f"{table.path}, row 1: unknown header {quoted(','.join(header))}; a network trace has"
            f" {','.join(RATES_HEADER)}[,{UP_COLUMN}]"
        )
    ids = tuple(dict.fromkeys(table.columns["trace"]))
    index = {name: number for number, name in enumerate(ids)}
    record = np.array([index[name] for name in table.columns["trace"]], dtype=np.int64)
    times_ms = _milliseconds(table)
    order = np.argsort(record, kind="stable")
    texts = zip(*(table.columns[name] for name in header[2:]), strict=True)
    is_end = np.array([not any(row) for row in texts], dtype=np.bool_)
    _check_ends(table, order, record[order], is_end[order])
    rows = order[~is_end[order]]
    columns = [_rates(table, name, rows) for name in header[2:]]
    offsets = np.searchsorted(record[rows], np.arange(len(ids) + 1))
    span_ms = _spans(times_ms[rows], offsets)
    ends = np.flatnonzero(is_end)
    span_ms[record[ends]] = times_ms[ends]
    return NetTrace(
        name=str(table.path),
        record_ids=ids,
        span_ms=span_ms,
        offsets=offsets,
        times_ms=times_ms[rows],
        down_bit_per_s=columns[0],
        up_bit_per_s=columns[1] if len(columns) > 1 else None,
        place=lambda sample: table.place(int(rows[sample])),
    )


def _main_file(path: Path) -> Path:
    if not paths.is_folder(path):
        return path
    result = plain_or_packed(path / _RATES)
    if not result:
        raise DataError(
            f"{path}: no rates.csv (or .csv.gz) in it, so it is no network trace; import one with"
            " `fleetsim trace import`, or name a trace of usage under fleet.usage.trace"
        )
    if len(result) > 1:
        raise DataError(f"{path}: holds rates.csv and rates.csv.gz; remove one")
    return result[0]


def _milliseconds(table: CsvTable) -> IntArray:
    t_s = table.numbers("t_s")
    table.refuse(
        ~((t_s >= 0.0) & (t_s <= _MAX_T_S)),
        lambda row: f"t_s = {t_s[row]:g} is not in [0, {_MAX_T_S:g}]; correct it",
    )
    exact_ms, texts = t_s * MS_PER_S, table.columns["t_s"]
    times_ms = np.rint(exact_ms)
    table.refuse(
        np.abs(exact_ms - times_ms) > _MS_TOLERANCE,
        lambda row: f"t_s = {quoted(texts[row])} is no whole number of milliseconds; round it",
    )
    return times_ms.astype(np.int64)


def _check_ends(table: CsvTable, order: IntArray, record: IntArray, is_end: BoolArray) -> None:
    """Check that a row without rates is the last of its trace, and not the first.

    `order` has the rows, trace by trace, `record` the trace of each, all [R].
    """
    for place in np.flatnonzero(is_end).tolist():
        if place == 0 or record[place - 1] != record[place]:
            raise table.fault(int(order[place]), "ends a trace that has no sample; give it rates")
        if place + 1 < order.size and record[place + 1] == record[place]:
            raise table.fault(
                int(order[place + 1]),
                "comes after the row without rates, which ends a trace; drop one of the two",
            )


def _rates(table: CsvTable, name: str, rows: IntArray) -> FloatArray:
    texts = table.columns[name]
    for row in rows.tolist():
        if texts[row] == "":
            raise table.fault(row, f"{name} is empty; give every rate of the row, or none to end")
    return table.numbers(name, rows)


def _spans(times_ms: IntArray, offsets: IntArray) -> IntArray:
    """Return the ends of traces without a row for it [K]."""
    last = offsets[1:] - 1
    lasts_ms = np.where(
        np.diff(offsets) > 1, times_ms[last] - times_ms[np.maximum(last - 1, 0)], _LONE_SAMPLE_MS
    )
    return np.asarray(times_ms[last] + lasts_ms)


def write_net_trace(trace: NetTrace, folder: Path, *, readme: str) -> None:
    """Write a network trace: rates.csv.gz and README.md; the same trace gives the same bytes."""
    for name in trace.record_ids:
        if is_unfit(name):
            raise DataError(
                f"{trace.name}: trace {quoted(name)} has a comma, quote, line end or invalid"
                " text; rename it"
            )
    down, up = trace.down_bit_per_s.tolist(), trace.up_bit_per_s
    rates = list(zip(down, strict=True) if up is None else zip(down, up.tolist(), strict=True))
    times_ms, rows = trace.times_ms.tolist(), []
    for record, name in enumerate(trace.record_ids):
        for sample in range(int(trace.offsets[record]), int(trace.offsets[record + 1])):
            rows.append((name, _decimal(times_ms[sample]), *map(_shortest, rates[sample])))
        rows.append((name, _decimal(int(trace.span_ms[record])), *("" for _ in rates[0])))
    header = RATES_HEADER if up is None else (*RATES_HEADER, UP_COLUMN)
    write_files(folder, {"rates.csv.gz": csv_gz(header, rows), "README.md": readme.encode()})


def _decimal(time_ms: int) -> str:
    whole, part = divmod(time_ms, MS_PER_S)
    return f"{whole}.{part:03d}".rstrip("0").rstrip(".")


def _shortest(rate_bit_per_s: float) -> str:
    return f"{rate_bit_per_s:.0f}" if rate_bit_per_s.is_integer() else repr(rate_bit_per_s)


def import_net_trace(format_: str, source: Path, dest: Path, *, app: str | None) -> tuple[str, ...]:
    """Convert a trace of one of `NetFormat`; see `fleetsim.fleet.traces.formats.import_any`."""
    notes: tuple[str, ...] = ()
    match format_:
        case "irish-5g":
            trace = read_irish_5g(source, app=IRISH_APP if app is None else app)
        case "norway-3g":
            trace = read_norway_3g(source)
        case "lumos5g":
            trace, notes = read_lumos5g(source)
        case _:
            trace = read_net_trace(source)
    return write_imported(trace, dest, format_, notes)


def write_imported(
    trace: NetTrace, dest: Path, format_: str, notes: tuple[str, ...], rules: str = ""
) -> tuple[str, ...]:
    """Write a trace into a new folder, with a README that has the rules and the notes returned."""
    size = f"{trace.num_records} traces, {trace.times_ms.size} samples"
    columns = () if trace.up_bit_per_s is None else (UP_COLUMN,)
    text = readme_of("Network", trace.name, size, columns, notes, rules, format_)
    with new_folder(dest) as folder:
        write_net_trace(trace, folder, readme=text)
    return notes
