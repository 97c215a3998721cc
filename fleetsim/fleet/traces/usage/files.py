"""Usage traces in CSV files, whose headers determine the form: states, intervals or samples.

docs/models/usage.md has every form and column. Every file may be gzipped (.csv.gz). Other formats
are converted first (`fleetsim.fleet.traces.formats`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.csv_table import CsvTable, read_csv_header, read_filled_table
from fleetsim.fleet.traces.folder import csv_gz, is_unfit, plain_or_packed, readme_of, write_files
from fleetsim.fleet.traces.ordered_rows import begins
from fleetsim.fleet.traces.usage.records import (
    HOUR_S,
    MOST_UTC_OFFSET_H,
    Unknown,
    UsageRecords,
    local_days,
    trace_of_intervals,
    trace_of_samples,
)
from fleetsim.fleet.traces.usage.trace import FLAGS, Trace
from fleetsim.host import paths
from fleetsim.quoting import quoted

CsvForm = Literal["states", "intervals", "flhetbench", "extrasensory"]

_IMPORTED = {".json": "flash", ".pkl": "fedscale", ".pickle": "fedscale"}

STATES_HEADER = ("user", "t_s", "online", "charging", "unmetered", "load")
RAM_STATES_HEADER = (*STATES_HEADER, "ram_byte")
USERS_HEADER = ("user", "span_s")
ZONED_USERS_HEADER = (*USERS_HEADER, "utc_offset_h")
INTERVALS_HEADER = ("user", "start_s", "end_s")
INTERVALS_USERS_HEADER = ("user", "trace_start_s", "trace_end_s")
SAMPLES_HEADER = ("user", "os", "t", "battery", "battery_state", "plugged", "net")
"""The first columns; others may follow."""

_SAMPLE_S = 60
# The users lived in San Diego; most records are from the months of UTC-7, the others are 1 h off.
_EXTRASENSORY_UTC_OFFSET_S = -7 * HOUR_S
_FLAG = {"0": 0, "1": 1}
_CHARGING = {
    **dict.fromkeys(("charging", "full"), 1.0),
    **dict.fromkeys(("discharging", "unplugged", "not_charging"), 0.0),
    **dict.fromkeys(("unknown", ""), np.nan),
}
_PLUGGED = {"": 0, "ac": 1, "usb": 1, "wireless": 1}
_UNMETERED = {"wifi": 1, "wwan": 0, "not_reachable": 0, "": np.nan}


def read_trace(folder_or_file: Path, *, unknown: Unknown = "hold") -> Trace:
    """Read a trace of any form, by its main file or the folder that holds it.

    `unknown` is the state at times without any sample (extrasensory only).
    """
    main = main_file(folder_or_file)
    return local_days(read_records(main, form_of(main), unknown))


def read_records(main: Path, form: CsvForm, unknown: Unknown) -> UsageRecords:
    """Read a main file of a known form."""
    match form:
        case "states":
            return read_states(main)
        case "intervals" | "flhetbench":
            return read_intervals(main)
        case "extrasensory":
            return read_samples(main, unknown)


def main_file(path: Path) -> Path:
    """Return the main file of a trace that is named by its folder or by that file."""
    if not paths.is_folder(path):
        suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        if suffix in _IMPORTED:
            raise DataError(
                f"{path}: is no CSV file; convert it first: fleetsim trace import"
                f" {_IMPORTED[suffix]} {path} NEW_FOLDER"
            )
        return path
    result = sorted(
        child
        for pattern in ("states*.csv", "states*.csv.gz", "intervals.csv", "intervals.csv.gz")
        for child in paths.matches(path, pattern)
    )
    if not result:
        raise DataError(f"{path}: no states.csv or intervals.csv (or .csv.gz) in it; add one")
    if len(result) > 1:
        names = ", ".join(child.name for child in result)
        raise DataError(f"{path}: holds {names}; name the file that you mean")
    return result[0]


def form_of(main: Path) -> CsvForm:
    """Return the form of a main file by its header and that of the users' file."""
    header = read_csv_header(main)
    if header in (STATES_HEADER, RAM_STATES_HEADER):
        return "states"
    if header == INTERVALS_HEADER:
        is_theirs = read_csv_header(_users_file(main)) == INTERVALS_USERS_HEADER
        return "flhetbench" if is_theirs else "intervals"
    if header[: len(SAMPLES_HEADER)] == SAMPLES_HEADER:
        return "extrasensory"
    known = (
        RAM_STATES_HEADER,
        STATES_HEADER,
        INTERVALS_HEADER,
        (*SAMPLES_HEADER, "..."),
    )
    raise DataError(
        f"{main}, row 1: unknown header {quoted(','.join(header))};"
        f" must be {' or '.join(','.join(names) for names in known)}"
    )


def read_states(main: Path) -> UsageRecords:
    """Read fleetsim's own form: every change of state, with users.csv beside it."""
    users, index = _read_users(main, USERS_HEADER, ZONED_USERS_HEADER)
    span_s, utc_offset_s = _spans(users)
    table = read_filled_table(main)
    user = _user_of_rows(table, index, users.path)
    times_s = table.whole_numbers("t_s")
    table.refuse(
        times_s < 0, lambda row: f"t_s = {times_s[row]} is outside the user's span; drop the row"
    )
    table.refuse(
        times_s >= span_s[user],
        lambda row: (
            f"second {times_s[row]} is outside the user's span of {span_s[user[row]]} s; drop the"
            " row or lengthen the span"
        ),
    )
    load = table.numbers("load")
    table.refuse(
        ~((load >= 0.0) & (load < 1.0)),
        lambda row: (
            f"load = {load[row]} is outside [0, 1); give the fraction of the processor that other"
            " apps take"
        ),
    )
    ram_byte = np.zeros_like(times_s)
    if "ram_byte" in table.columns:
        ram_byte = table.whole_numbers("ram_byte")
    table.refuse(
        ram_byte < 0,
        lambda row: f"ram_byte = {ram_byte[row]} is below 0; give the bytes that other apps hold",
    )
    order = np.argsort(user, kind="stable")
    _check_order(table, user[order], times_s[order], order)
    num_rows = np.bincount(user, minlength=users.num_rows)
    ids = users.columns["user"]
    users.refuse(
        num_rows == 0, lambda idle: f"user {quoted(ids[idle])} has no row in {main.name}; drop it"
    )
    trace = Trace(
        name=str(main),
        user_ids=ids,
        span_s=span_s,
        offsets=np.concatenate([[0], np.cumsum(num_rows)]),
        times_s=times_s[order],
        load=load[order],
        ram_byte=ram_byte[order],
        **{flag: table.codes(flag, _FLAG)[order].astype(np.bool_) for flag in FLAGS},
    )
    return UsageRecords(trace, np.zeros_like(span_s), utc_offset_s)


def _check_order(table: CsvTable, user: IntArray, times_s: IntArray, rows: IntArray) -> None:
    """Check that states [C], which are user by user, begin at second 0 and are in order."""
    is_first = begins(user)
    for at in np.flatnonzero(is_first & (times_s != 0))[:1].tolist():
        name = quoted(table.columns["user"][rows[at]])
        raise table.fault(
            int(rows[at]),
            f"the first state of user {name} is at second {times_s[at]}; it must be at 0",
        )
    for at in np.flatnonzero(~is_first[1:] & (np.diff(times_s) <= 0))[:1].tolist():
        before_s, t_s = times_s[at : at + 2]
        message = f"second {t_s} after {before_s}; sort the user's rows"
        if t_s == before_s:
            message = f"a second state at second {t_s} of the same user; drop one"
        raise table.fault(int(rows[at + 1]), message)


def read_intervals(main: Path) -> UsageRecords:
    """Read intervals of availability, of FLHetBench or any other source.

    In FLHetBench a device is locked, on the charger and on Wi-Fi during an interval. Inside an
    interval a device is online, charging and unmetered. Outside, the source only excludes all
    three at once, and the device is taken to be none of them. Empty intervals are dropped, touching
    ones joined.
    """
    users, index = _read_users(main, INTERVALS_USERS_HEADER, USERS_HEADER, ZONED_USERS_HEADER)
    if tuple(users.columns) == INTERVALS_USERS_HEADER:
        begin_s, end_s = users.whole_numbers("trace_start_s"), users.whole_numbers("trace_end_s")
        users.refuse(
            end_s <= begin_s,
            lambda row: f"ends at {end_s[row]}, not after {begin_s[row]}; correct it",
        )
        utc_offset_s = np.zeros_like(begin_s)
    else:
        end_s, utc_offset_s = _spans(users)
        begin_s = np.zeros_like(end_s)
    table = read_filled_table(main)
    user = _user_of_rows(table, index, users.path)
    start_s, stop_s = table.whole_numbers("start_s"), table.whole_numbers("end_s")
    table.refuse(
        stop_s < start_s, lambda row: f"ends at {stop_s[row]} before {start_s[row]}; correct it"
    )
    table.refuse(
        (start_s < begin_s[user]) | (stop_s > end_s[user]),
        lambda row: (
            f"[{start_s[row]}, {stop_s[row]}) is outside the user's span"
            f" [{begin_s[user[row]]}, {end_s[user[row]]}); cut it or correct {users.path.name}"
        ),
    )
    kept = np.flatnonzero(stop_s > start_s)
    kept = kept[np.argsort(user[kept], kind="stable")]
    user, start_s, stop_s = user[kept], start_s[kept], stop_s[kept]
    for i in np.flatnonzero((user[1:] == user[:-1]) & (start_s[1:] < stop_s[:-1]))[:1]:
        message = f"starts at {start_s[i + 1]}, after {start_s[i]}; sort the user's rows"
        if start_s[i + 1] >= start_s[i]:
            message = (
                f"starts at {start_s[i + 1]} but the user's interval before ends at {stop_s[i]}:"
                " they overlap; merge them, or import the file with `fleetsim trace import table`,"
                " which joins them"
            )
        raise table.fault(int(kept[i + 1]), message)
    trace = trace_of_intervals(
        str(main),
        users.columns["user"],
        end_s - begin_s,
        user,
        start_s - begin_s[user],
        stop_s - begin_s[user],
    )
    return UsageRecords(trace, begin_s, utc_offset_s)


def read_samples(main: Path, unknown: Unknown) -> UsageRecords:
    """Read the form of ExtraSensory: the state of a phone about once a minute while the app ran.

    The state of a sample holds until the next sample. If that is more than 600 s later, the time
    beyond 600 s is unknown, and `unknown` determines the state. A value that is missing in a sample
    is that of the sample before; at first a phone is neither charging nor unmetered.
    """
    table = read_filled_table(main)
    ids = tuple(dict.fromkeys(table.columns["user"]))
    index = {user: number for number, user in enumerate(ids)}
    user = np.array([index[name] for name in table.columns["user"]], dtype=np.int64)
    unix_s = table.whole_numbers("t")
    is_plugged = table.codes("plugged", _PLUGGED) == 1
    states = {
        "charging": np.where(is_plugged, 1.0, table.codes("battery_state", _CHARGING)),
        "unmetered": table.codes("net", _UNMETERED),
    }
    rows = np.argsort(user, kind="stable")
    for i in np.flatnonzero((np.diff(user[rows]) == 0) & (np.diff(unix_s[rows]) <= 0))[:1]:
        before_s, t_s = unix_s[rows[i : i + 2]]
        hint = "drop one" if t_s == before_s else "sort the user's rows"
        raise table.fault(
            int(rows[i + 1]),
            f"t = {t_s} after {before_s}; {hint}, or import the file with"
            " `fleetsim trace import table`, which joins such rows",
        )
    return records_of_people(str(main), ids, user, unix_s, states, unknown)


def records_of_people(
    name: str,
    ids: tuple[str, ...],
    user: IntArray,
    unix_s: IntArray,
    states: Mapping[str, FloatArray],
    unknown: Unknown,
) -> UsageRecords:
    """Return the records of samples of ExtraSensory's users; see `trace_of_samples`."""
    trace, first, _, notes = trace_of_samples(
        name, ids, user, unix_s, states, unknown, last_s=_SAMPLE_S
    )
    begin_s = unix_s[first]
    return UsageRecords(trace, begin_s, np.full_like(begin_s, _EXTRASENSORY_UTC_OFFSET_S), notes)


def _users_file(main: Path) -> Path:
    """Return the table of users beside a main file, gzipped or not."""
    path = main.with_name("users.csv")
    result = plain_or_packed(path) or [path]
    if len(result) > 1:
        raise DataError(f"{main.parent}: holds users.csv and users.csv.gz; remove one")
    return result[0]


def _read_users(main: Path, *headers: tuple[str, ...]) -> tuple[CsvTable, dict[str, int]]:
    """Read the table of users beside the main file; return it and each user's number."""
    path = _users_file(main)
    header = read_csv_header(path)
    if len(set(header)) == len(header) and header not in headers:
        raise DataError(
            f"{path}, row 1: unknown header {quoted(','.join(header))};"
            f" must be {' or '.join(','.join(names) for names in headers)}"
        )
    table = read_filled_table(path)
    index: dict[str, int] = {}
    for row, user in enumerate(table.columns["user"]):
        if index.setdefault(user, row) != row:
            raise table.fault(row, f"user {quoted(user)} is listed twice; drop one")
    return table, index


def _spans(users: CsvTable) -> tuple[IntArray, IntArray]:
    """Return the length of every user's record and the offset of the user's clock, in seconds."""
    span_s = users.whole_numbers("span_s")
    users.refuse(
        span_s <= 0, lambda user: f"span_s = {span_s[user]}: must be at least 1; correct it"
    )
    if "utc_offset_h" not in users.columns:
        return span_s, np.zeros_like(span_s)
    offset_h = users.numbers("utc_offset_h")
    users.refuse(
        ~(np.abs(offset_h) <= MOST_UTC_OFFSET_H),
        lambda user: (
            f"utc_offset_h = {offset_h[user]:g} is beyond {MOST_UTC_OFFSET_H:g} h from UTC;"
            " give hours"
        ),
    )
    return span_s, np.round(offset_h * HOUR_S).astype(np.int64)


def _user_of_rows(table: CsvTable, index: dict[str, int], users: Path) -> IntArray:
    names = table.columns["user"]
    user = np.array([index.get(name, -1) for name in names], dtype=np.int64)
    table.refuse(
        user < 0,
        lambda row: (
            f"user {quoted(names[row])} has no span; list it in {users.name} or drop its rows"
        ),
    )
    return user


def write_trace(
    trace: Trace,
    folder: Path,
    *,
    readme: str | None = None,
    notes: Sequence[str] = (),
    rules: str = "",
) -> None:
    """Write a trace in fleetsim's own form: states.csv.gz, users.csv.gz and README.md.

    The same trace gives the same bytes. Without a text for README.md, it explains the columns, with
    the notes and the rules of the import.
    """
    for user in trace.user_ids:
        if is_unfit(user):
            raise DataError(
                f"trace {quoted(trace.name)}: user {quoted(user)} has a comma, quote, line end or"
                " invalid text; rename it"
            )
    users = zip(trace.user_ids, trace.span_s.tolist(), strict=True)
    online, charging, unmetered, load, ram_byte = trace.columns
    header = RAM_STATES_HEADER if ram_byte.any() else STATES_HEADER
    columns = [
        np.repeat(np.array(trace.user_ids, dtype=object), np.diff(trace.offsets)).tolist(),
        trace.times_s.tolist(),
        *(flag.astype(np.int64).tolist() for flag in (online, charging, unmetered)),
        [share or 0 for share in load.tolist()],
        ram_byte.tolist(),
    ]
    states = zip(*columns[: len(header)], strict=True)
    size = f"{trace.num_users} users, {trace.num_changes} changes of state"
    text = readme or readme_of("Usage", trace.name, size, header, notes, rules)
    files = {
        "users.csv.gz": csv_gz(USERS_HEADER, users),
        "states.csv.gz": csv_gz(header, states),
        "README.md": text.encode(),
    }
    write_files(folder, files)
