"""Published network traces, each read into a `NetTrace`: Irish 5G, Norwegian 3G and Lumos5G.

docs/models/network-traces.md has every column. The first two are read as published, with one file
per log, or as one table of samples with a table of the logs beside it.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.column_choice import ColumnChoice
from fleetsim.fleet.traces.csv_table import CsvTable, read_csv_header, read_filled_table
from fleetsim.fleet.traces.folder import plain_or_packed
from fleetsim.fleet.traces.network.table import ReadRates, read_rate_table
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.fleet.traces.table_rows import Layout
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.units import BIT_PER_KBIT, BIT_PER_MBIT, MS_PER_S

IRISH_APP: Final = "Download"
"""Default application: the rate of a download shows the capacity of the link."""

_MOST_T_S = 1e12
_STAMP = "%Y.%m.%d_%H.%M.%S"
_read_lumos5g_table = partial(
    read_rate_table,
    time=ColumnChoice("lumos5g", "seq_num", "s"),
    down=ColumnChoice("lumos5g", "Throughput", "Mbit/s"),
    who=tuple(
        ColumnChoice("lumos5g", name, None)
        for name in ("mobility_mode", "trajectory_direction", "run_num")
    ),
    layout=Layout(",", ".", frozenset({"nan", "na"}), has_options=False),
)
"""Missing are empty fields, nan and NA, as pandas and R write what was not measured."""


def read_irish_5g(source: Path, *, app: str) -> NetTrace:
    """Read Raca et al. (MMSys 2020), 5G logs of a phone that drives or stays in place in Ireland.

    Stamps are whole seconds; several rows of one second share it evenly. Uplink rates are left out:
    these phones downloaded, so their uplink traffic does not show the capacity of the uplink. The
    source is the folder of the published archive, whose logs are below folders named after the
    application, or of the table samples.csv with traces.csv beside it.
    """
    main = _table_in(source)
    logs: list[tuple[str, IntArray, FloatArray]] = []
    if main is not None:
        for table, rows, log in _logs(main, ("t_s", "dl_kbps"), ("app", "file")):
            if log["app"] == app:
                rates = table.numbers("dl_kbps", rows) * BIT_PER_KBIT
                times_ms = _shared_seconds(table, rows, _seconds(table, rows))
                logs.append((log["file"], times_ms, rates))
    else:
        for path in sorted(source.rglob("*.csv")):
            if app in (source.name, *path.relative_to(source).parts[:-1]):
                table = _table(path, "Timestamp", "DL_bitrate")
                seconds = _stamps(table)
                rates = table.numbers("DL_bitrate") * BIT_PER_KBIT
                name = "-".join(path.relative_to(source).with_suffix("").parts)
                rows = np.arange(table.num_rows)
                logs.append((name, _shared_seconds(table, rows, seconds - seconds[0]), rates))
    if not logs:
        raise DataError(
            f"{source}: no log of the application {quoted(app)} in it; name the folder of the"
            " unpacked archive, or another application (Download, Netflix, Amazon_Prime)"
        )
    return _joined(source, [(name, t_ms, _end_after(t_ms), rate) for name, t_ms, rate in logs])


def read_norway_3g(source: Path) -> NetTrace:
    """Read Riiser et al. (MMSys 2013), 3G on Norwegian commutes, as `time rate` pairs.

    A pair gives the mean rate in Mbit/s since the pair before it, as Pensieve (Mao et al., SIGCOMM
    2017) reads these files. So the first rate, of a time before the log, is not used. The source is
    a folder with one file per log, or with the table samples.csv and traces.csv beside it.
    """
    main = _table_in(source)
    logs = []
    if main is not None:
        for table, rows, log in _logs(main, ("t_s", "mbps"), ("file",)):
            t_s, mbit_per_s = (table.numbers(name, rows) for name in ("t_s", "mbps"))
            logs.append(_pairs(table.place(int(rows[0])), log["file"], t_s, mbit_per_s))
    else:
        for path in filter(paths.is_file, paths.matches(source, "*")):
            logs.append(_pairs(f"{path}", path.stem, *_two_columns(path)))
    if not logs:
        raise DataError(f"{source}: no log in it; name the folder that holds the files")
    return _joined(source, logs)


def read_lumos5g(source: Path) -> ReadRates:
    """Read Lumos5G 1.0, a phone on millimetre-wave 5G that walks and drives around a loop.

    Narayanan et al., "Lumos5G: Mapping and Predicting Commercial mmWave 5G Throughput" (IMC 2020).
    The source is Lumos5G-v1.0.csv (or .csv.gz), or the folder that holds it alone. `Throughput` is
    the TCP downlink of iPerf 3.7 in every second, whose unit the data set does not state (Mbit/s in
    the paper's figures); `seq_num` counts the seconds of a run, and runs are numbered within a mode
    of mobility and a direction, after which records are named. Seconds that repeat in a run become
    one, with the mean of their rates.
    """
    if not paths.is_folder(source):
        return _read_lumos5g_table(source)
    result = [*paths.matches(source, "Lumos5G*.csv"), *paths.matches(source, "Lumos5G*.csv.gz")]
    if len(result) != 1:
        message = "no Lumos5G*.csv in it" if not result else f"holds {result[0].name} and more"
        raise DataError(f"{source}: {message}; name the file Lumos5G-v1.0.csv")
    return _read_lumos5g_table(result[0])


def _pairs(
    where: str, name: str, t_s: FloatArray, mbit_per_s: FloatArray
) -> tuple[str, IntArray, int, FloatArray]:
    """Return a log as (name, times at which rates begin, end, rates)."""
    if t_s.size < 2:
        raise DataError(f"{where}: log {quoted(name)} has fewer than two samples; drop it")
    if not (np.abs(t_s) <= _MOST_T_S).all():
        raise DataError(
            f"{where}: log {quoted(name)} has a time that is no number or beyond {_MOST_T_S:g} s;"
            " correct it"
        )
    times_ms = np.rint((t_s - t_s[0]) * MS_PER_S).astype(np.int64)
    return name, times_ms[:-1], int(times_ms[-1]), mbit_per_s[1:] * BIT_PER_MBIT


def _two_columns(path: Path) -> tuple[FloatArray, FloatArray]:
    pairs = []
    try:
        lines = paths.read(path).decode("ascii").splitlines()
    except UnicodeDecodeError as fault:
        raise DataError(f"{path}: cannot be read ({fault}); remove the file") from fault
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        try:
            t_s, rate = map(float, fields)
        except ValueError:
            raise DataError(
                f"{path}, row {number}: {quoted(line)} is not a time and a rate; correct or drop it"
            ) from None
        pairs.append((t_s, rate))
    columns = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _joined(source: Path, logs: Sequence[tuple[str, IntArray, int, FloatArray]]) -> NetTrace:
    return NetTrace(
        name=str(source),
        record_ids=tuple(name for name, *_ in logs),
        span_ms=np.array([end_ms for _, _, end_ms, _ in logs], dtype=np.int64),
        offsets=np.cumsum([0, *(times_ms.size for _, times_ms, _, _ in logs)]),
        times_ms=np.concatenate([times_ms for _, times_ms, _, _ in logs]),
        down_bit_per_s=np.concatenate([rates for *_, rates in logs]),
        up_bit_per_s=None,
    )


def _end_after(times_ms: IntArray) -> int:
    """Return the end of a log of whole seconds: the second after its last."""
    return (int(times_ms[-1]) // MS_PER_S + 1) * MS_PER_S


def _shared_seconds(table: CsvTable, rows: IntArray, seconds: IntArray) -> IntArray:
    """Return times in ms of samples with whole-second stamps; equal stamps share a second [n]."""
    for place in np.flatnonzero(np.diff(seconds) < 0)[:1].tolist():
        raise table.fault(int(rows[place + 1]), "is earlier than the row before it; sort the log")
    first = np.searchsorted(seconds, seconds, side="left")
    num = np.searchsorted(seconds, seconds, side="right") - first
    return np.asarray(seconds * MS_PER_S + (np.arange(seconds.size) - first) * MS_PER_S // num)


def _seconds(table: CsvTable, rows: IntArray) -> IntArray:
    t_s = table.numbers("t_s", rows)
    is_whole = (t_s >= 0.0) & (t_s < 1e9) & (t_s == np.floor(t_s))
    for place in np.flatnonzero(~is_whole)[:1].tolist():
        raise table.fault(int(rows[place]), f"t_s = {t_s[place]:g} is no whole second; round it")
    return t_s.astype(np.int64)


def _stamps(table: CsvTable) -> IntArray:
    """Return the seconds of the column Timestamp, such as 2019.12.16_13.40.04."""
    begin = datetime(1970, 1, 1)
    seconds = []
    for row, text in enumerate(table.columns["Timestamp"]):
        try:
            stamp = datetime.strptime(text, _STAMP)
        except ValueError:
            raise table.fault(
                row, f"Timestamp = {quoted(text)} is not like 2019.12.16_13.40.04; correct it"
            ) from None
        seconds.append(round((stamp - begin).total_seconds()))
    return np.array(seconds, dtype=np.int64)


def _table_in(source: Path) -> Path | None:
    """Return the table of samples in a folder; None: there is none."""
    for path in plain_or_packed(source / "samples.csv"):
        return path
    if not paths.is_folder(source):
        raise DataError(f"{source}: no such folder; name the one that holds the logs")
    return None


def _table(path: Path, *columns: str) -> CsvTable:
    header = read_csv_header(path)
    for name in columns:
        if name not in header:
            raise DataError(f"{path}, row 1: no column {name}; import it as another form")
    return read_filled_table(path, only=columns)


def _logs(
    main: Path, columns: tuple[str, ...], about: tuple[str, ...]
) -> Iterator[tuple[CsvTable, IntArray, dict[str, str]]]:
    """Yield the rows of each log of a table of samples, and what the table of logs has about it."""
    table = _table(main, "trace", *columns)
    path = main.with_name(main.name.replace("samples", "traces", 1))
    logs = _table(path, "trace", *about)
    number = {trace: row for row, trace in enumerate(logs.columns["trace"])}
    of_rows = np.array([number.get(trace, -1) for trace in table.columns["trace"]], dtype=np.int64)
    table.refuse(
        of_rows < 0,
        lambda row: (
            f"trace {quoted(table.columns['trace'][row])} is not in {path.name}; list or drop it"
        ),
    )
    for log in dict.fromkeys(of_rows.tolist()):
        yield (
            table,
            np.flatnonzero(of_rows == log),
            {name: logs.columns[name][log] for name in about},
        )
