"""Import of any table of people's usage: states per sample, or intervals of availability.

Rules for samples, each counted in the notes of the import:

- A row without a time, or without a value in the columns of `--who`, is left out. Missing are empty
  fields and the words of `--missing`.
- A state that is missing in a row is that of the row before it, or 0 at first (online: 1).
- Rows of a user are sorted by time; those that were earlier than the row above count.
- Times are rounded down to whole seconds. Of several rows of one second of a user the last one
  counts, as it stands in the file.
- The last state of a user lasts as long as the median of the user's samples, at least 1 s.
- A state that no column gives is the same throughout: online 1, charging 0, unmetered 0, load 0,
  ram_byte 0.

Rules for intervals, in which a user is online, charging and unmetered, and none of them outside:

- A row without a begin, an end or a value in the columns of `--who`, or that ends when it begins,
  is left out.
- Intervals of a user that overlap or touch become one, their union.
- A record is the whole days from the midnight before the user's first interval to the midnight
  after the last one.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import ColumnChoice, counted, named_rows, refuse
from fleetsim.fleet.traces.column_numbers import times_of
from fleetsim.fleet.traces.csv_table import CsvTable, read_filled_table
from fleetsim.fleet.traces.ordered_rows import num_unordered
from fleetsim.fleet.traces.table_rows import Layout
from fleetsim.fleet.traces.usage.records import (
    DAY_S,
    Unknown,
    UsageRecords,
    at_first,
    trace_of_intervals,
    trace_of_samples,
    united,
)
from fleetsim.fleet.traces.usage.state_columns import StateColumn, values_of
from fleetsim.fleet.traces.usage.trace import STATES
from fleetsim.quoting import quoted


def read_usage_table(
    path: Path,
    *,
    time: ColumnChoice,
    until: ColumnChoice | None,
    who: tuple[ColumnChoice, ...],
    states: Mapping[str, StateColumn],
    layout: Layout,
    unknown: Unknown,
    utc_offset_h: float | None,
) -> UsageRecords:
    """Read a table of samples, or of intervals from `time` `until`; the module has the rules.

    The values of `who` together name the user of a row; without them all rows are one user's.
    `utc_offset_h` are hours by which the users' clock is ahead of that of the table; None: what its
    dates state, or 0.
    """
    if until is None and not states:
        raise ScenarioError(
            "trace import table: no --state is given, and no --rate; name a column of"
            f" {', '.join(STATES)}, such as --state charging=plugged, or --until for intervals"
        )
    if until is not None and states:
        raise ScenarioError(
            "trace import table: --until means that users are available in the rows' intervals, and"
            " --state that rows are samples; leave one out"
        )
    table = read_filled_table(path, layout)
    user, names = named_rows(table, who)
    if until is None:
        return _samples(table, time, states, user, names, unknown)
    return _intervals(table, time, until, user, names, utc_offset_h)


def _samples(
    table: CsvTable,
    time: ColumnChoice,
    states: Mapping[str, StateColumn],
    user: IntArray,
    names: tuple[str, ...],
    unknown: Unknown,
) -> UsageRecords:
    times = times_of(table, time)
    values = {name: values_of(table, name, column) for name, column in states.items()}
    has_time, has_name = ~np.isnan(times.at_s), user >= 0
    kept = np.flatnonzero(has_time & has_name)
    if kept.size == 0:
        raise DataError(
            f"{table.path}: none of {table.num_rows} rows has a time and a user; check --time and"
            " --who"
        )
    at_s = np.floor(times.at_s[kept]).astype(np.int64)
    who, ids = _renumbered(user[kept], names)
    trace, first, num_silent, sample_notes = trace_of_samples(
        str(table.path),
        ids,
        who,
        at_s,
        {name: column[kept] for name, column in values.items()},
        unknown,
    )
    rest = ", ".join(f"{name} {at_first(name):g}" for name in STATES if name not in values)
    notes = (
        f"{table.num_rows} rows of {len(names)} users read",
        *table.notes,
        *counted((~has_name).sum(), "left out without a value of --who"),
        *counted((~has_time).sum(), "left out without a time"),
        *counted(len(names) - len(ids), "left out, none of whose rows is kept", "users"),
        *(
            note
            for state, column in values.items()
            for note in counted(
                np.isnan(column[kept]).sum(), f"without {state}, which is that before it"
            )
        ),
        *sample_notes,
        *counted(num_silent, f"with no other within 600 s after them; {unknown}"),
        *([f"no column, so the same throughout: {rest}"] if rest else []),
    )
    stated_s = np.nan_to_num(times.utc_offset_s[kept[first]], nan=0.0).astype(np.int64)
    return UsageRecords(trace, at_s[first], stated_s, notes)


def _intervals(
    table: CsvTable,
    time: ColumnChoice,
    until: ColumnChoice,
    user: IntArray,
    names: tuple[str, ...],
    utc_offset_h: float | None,
) -> UsageRecords:
    begin, end = times_of(table, time), times_of(table, until)
    has_name = user >= 0
    is_whole = ~(np.isnan(begin.at_s) | np.isnan(end.at_s)) & has_name
    refuse(
        table,
        until,
        is_whole & (end.at_s < begin.at_s),
        f"is before its begin in column {quoted(time.column)}; correct it or drop the row",
    )
    start_s = np.floor(np.nan_to_num(begin.at_s)).astype(np.int64)
    stop_s = np.floor(np.nan_to_num(end.at_s)).astype(np.int64)
    is_kept = is_whole & (stop_s > start_s)
    kept = np.flatnonzero(is_kept)
    if kept.size == 0:
        raise DataError(
            f"{table.path}: none of {table.num_rows} intervals lasts a second; check the columns"
        )
    who, ids = _renumbered(user[kept], names)
    unordered = num_unordered(who, start_s[kept])
    order = np.lexsort((start_s[kept], who))
    who, rows = who[order], kept[order]
    start_s, stop_s = start_s[rows], stop_s[rows]
    opens, reach_s = united(who, start_s, stop_s)
    first_row = np.searchsorted(who, np.arange(len(ids)))
    stated_s = np.nan_to_num(begin.utc_offset_s[rows], nan=0.0).astype(np.int64)[first_row]
    offset_s = stated_s if utc_offset_h is None else np.full(len(ids), round(utc_offset_h * 3600))
    last_s = np.maximum.reduceat(stop_s, first_row)
    origin_s = (start_s[first_row] + offset_s) // DAY_S * DAY_S - offset_s
    span_s = -(-(last_s - origin_s) // DAY_S) * DAY_S
    of = who[opens]
    trace = trace_of_intervals(
        str(table.path), ids, span_s, of, start_s[opens] - origin_s[of], reach_s - origin_s[of]
    )
    num_joined = rows.size - int(opens.size)
    notes = (
        f"{table.num_rows} intervals of {len(names)} users read, {opens.size} kept",
        *table.notes,
        *counted((~has_name).sum(), "left out without a value of --who"),
        *counted((~is_whole & has_name).sum(), "left out without a begin or an end"),
        *counted((is_whole & ~is_kept).sum(), "left out that last no second"),
        *counted(len(names) - len(ids), "left out, none of whose intervals is kept", "users"),
        *counted(unordered, "earlier than the row above of their user; sorted by time"),
        *counted(num_joined, "overlap or touch one before them; joined to their union"),
    )
    return UsageRecords(trace, origin_s, offset_s, notes)


def _renumbered(user: IntArray, names: tuple[str, ...]) -> tuple[IntArray, tuple[str, ...]]:
    """Return users without those that have no row left, and the names of those that have."""
    result, number = np.unique(user, return_inverse=True)
    return number.astype(np.int64), tuple(names[index] for index in result.tolist())
