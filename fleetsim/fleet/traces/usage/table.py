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

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import (
    ColumnChoice,
    column_choice,
    counted,
    factor_of,
    named_rows,
    refuse,
    texts_of,
)
from fleetsim.fleet.traces.column_numbers import numbers_of, times_of
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
from fleetsim.fleet.traces.usage.trace import FLAGS, STATES
from fleetsim.quoting import cut, quoted
from fleetsim.units import BYTE_OF, FRACTION_OF

_TRUE = ("1", "1.0", "true", "t", "yes", "y", "on")
_FALSE = ("0", "0.0", "false", "f", "no", "n", "off", "none")
_WORDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "online": (("online", "connected", "reachable"), ("offline", "disconnected", "unreachable")),
    "charging": (
        ("charging", "full", "plugged", "ac", "usb", "wireless", "dock"),
        ("discharging", "not_charging", "not charging", "unplugged", "battery"),
    ),
    "unmetered": (
        ("unmetered", "wifi", "wi-fi", "wlan", "ethernet"),
        (
            *("metered", "cellular", "mobile", "wwan", "lte", "nr", "2g", "3g", "4g", "5g"),
            *("not_reachable", "offline", "disconnected"),
        ),
    ),
}
"""Words of each state that mean true, and that mean false, in addition to `_TRUE` and `_FALSE`.

Any other word is refused, and all are counted, so that the owner of a table sees what each was
taken for.
"""

_UNMEASURED = frozenset(("nan", "na", "n/a", "null", "nil", "unknown", "-", "--", "?"))
"""Words that many programs write for a value that they do not have."""
_MOST_WORDS = 8
_CORES = re.compile(r"(?:%|percent)/([1-9][0-9]{0,3})")
"""Unit of a load that adds up the cores of a processor, as `top` prints it."""
_MOST_LOAD = 0.999
"""Load of a processor that a table calls fully used: the rest is what a trace's load leaves."""


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column that gives a state, and the words in it that mean true."""

    choice: ColumnChoice
    words: frozenset[str] | None = None
    """Words, in lower case, that mean true, and all others false, which the notes count; None: the
    usual words."""


def state_column(text: str) -> tuple[str, StateColumn]:
    """Return the state and the column of `STATE=COLUMN[unit]` or `STATE=COLUMN=WORD,WORD`.

    >>> state_column("charging=plugged=ac,usb")[1].words == frozenset({"ac", "usb"})
    True
    """
    state, equals, rest = text.partition("=")
    if state not in STATES or not equals or not rest:
        raise ScenarioError(
            f"trace import table: --state {quoted(text)}: must be STATE=COLUMN or"
            f" STATE=COLUMN=WORD,WORD with a STATE of {', '.join(STATES)}"
        )
    column, equals, words = rest.partition("=")
    if equals and state not in FLAGS:
        raise ScenarioError(
            f"trace import table: --state {quoted(text)}: words are for {', '.join(FLAGS)}; drop"
            " them"
        )
    means = frozenset(word.strip().lower() for word in words.split(",")) if equals else None
    return state, StateColumn(column_choice("--state", column), means)


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
    values = {name: _values_of(table, name, column) for name, column in states.items()}
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


def _values_of(table: CsvTable, state: str, column: StateColumn) -> FloatArray:
    """Return a state of every row [num_rows]; NaN where it is missing."""
    if state == "load":
        return _load(table, column.choice)
    if state == "ram_byte":
        byte = numbers_of(table, column.choice, factor_of(table, column.choice, BYTE_OF, "byte"))
        refuse(table, column.choice, byte < 0.0, "is below 0; correct it", is_mark=True)
        return np.rint(byte)
    texts = [text.lower() for text in texts_of(table, column.choice)]
    if column.words is not None:
        known = {text: float(text in column.words) for text in texts}
        if absent := sorted(column.words - known.keys()):
            table.notes.append(f"no row has {state} {', '.join(map(quoted, absent))}")
    else:
        true, false = _WORDS[state]
        known = {**dict.fromkeys(_TRUE + true, 1.0), **dict.fromkeys(_FALSE + false, 0.0)}
    values = np.array(
        [np.nan if table.layout.is_missing(text) else known.get(text, -1.0) for text in texts]
    )
    name = column.choice.column
    message = (
        f"is no word for {state} or its contrary; name the words that mean {state}, such as"
        f" --state '{state}={name}=WORD,WORD'"
    )
    refuse(table, column.choice, values < 0.0, message, is_mark=True)
    for value in (1.0, 0.0):
        words = Counter(
            text for text, number in zip(texts, values.tolist(), strict=True) if number == value
        )
        table.notes.extend(_counted_words(state, value, words))
    return values


def _load(table: CsvTable, choice: ColumnChoice) -> FloatArray:
    """Return the load of every row as a fraction [num_rows]; NaN where it is missing."""
    cores = _CORES.fullmatch(choice.unit or "")
    if cores is not None:
        load = numbers_of(table, choice, 1.0) / (100 * int(cores[1]))
        message = (
            f"is outside 0 to {100 * int(cores[1])} %, the sum of {cores[1]} cores; correct it"
        )
    else:
        factor = factor_of(table, choice, FRACTION_OF, "fraction")
        load = numbers_of(table, choice, factor)
        cores_of = f"name the cores, such as --state 'load={choice.column}[%/8]'"
        message = (
            f"is outside 0 to 100 %; correct it, or, if the column adds up cores, {cores_of}"
            if factor < 1.0
            else f"is outside 0 to 1; name the unit, such as --state 'load={choice.column}[%]'"
        )
    refuse(table, choice, (load < 0.0) | (load > 1.0), message)
    return np.minimum(load, _MOST_LOAD)


def _counted_words(state: str, value: float, num: Counter[str]) -> list[str]:
    """Return a note on the words of a column that mean a state, or its contrary."""
    if not num:
        return []
    listed = [f"{cut(word)} ({rows})" for word, rows in num.most_common(_MOST_WORDS)]
    more = f" and {len(num) - _MOST_WORDS} other words" if len(num) > _MOST_WORDS else ""
    hint = "" if _UNMEASURED.isdisjoint(num) else "; --missing WORD if one was not measured"
    return [f"{state} {value:g}: {', '.join(listed)}{more}{hint}"]


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
