"""Records of a source, and their conversion to a `Trace` of days from local midnight.

A source counts seconds on a clock of its own, and its records begin at any time of the day. Where
a user's local clock is `utc_offset_s` ahead of that of the source, a record that begins at second b
of the source begins (b + utc_offset_s) mod 86400 seconds after the user's midnight. The record is
rotated by this time, so that nights of all users are at night.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.trace import Trace, rotated, shortened, without_repeats

DAY_S = 86_400
HOUR_S = 3_600
MOST_UTC_OFFSET_H = 14.0
"""Largest offset from UTC, that of Kiribati."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """A trace as published, each record from its own beginning on."""

    trace: Trace
    begin_s: IntArray
    """Second at which each record begins, after a midnight of the source's clock [U]."""
    utc_offset_s: IntArray
    """Seconds by which each user's local clock is ahead of the source's [U]."""
    notes: tuple[str, ...] = ()
    """Notes on what was left out, a line each."""


def local_days(
    records: Records, *, utc_offset_h: float | None = None, whole_days: bool = False
) -> Trace:
    """Return the records as days that begin at each user's midnight.

    Args:
        records: the records of the source.
        utc_offset_h: hours by which every user's clock is ahead of that of the source; None: that
            of the records.
        whole_days: cut each record to whole days, so that the hour of the day is the same in every
            lap; users with less than a day are dropped.

    Raises:
        DataError: no user has a whole day.
    """
    trace, begin_s, offset_s = records.trace, records.begin_s, records.utc_offset_s
    if utc_offset_h is not None:
        offset_s = np.full_like(begin_s, round(utc_offset_h * HOUR_S))
    if whole_days:
        users = np.flatnonzero(trace.span_s >= DAY_S)
        if users.size == 0:
            raise DataError(f"{trace.name}: no record of a whole day; import it without whole days")
        trace = shortened(trace, users, trace.span_s[users] // DAY_S * DAY_S)
        begin_s, offset_s = begin_s[users], offset_s[users]
    by_s = (begin_s + offset_s) % DAY_S
    return without_repeats(rotated(trace, by_s)) if by_s.any() else trace


def trace_of_changes(
    name: str,
    user_ids: Sequence[str],
    span_s: IntArray,
    user: IntArray,
    times_s: IntArray,
    flags: tuple[BoolArray, BoolArray, BoolArray],
) -> Trace:
    """Return a trace of unordered changes of state without load; repeats are dropped.

    Args:
        name: name for messages.
        user_ids: name of every user [U].
        span_s: length of every record [U].
        user: user of each change [C].
        times_s: seconds after the beginning of the record [C].
        flags: online, charging, unmetered from then on, each [C].
    """
    order = np.lexsort((times_s, user))
    online, charging, unmetered = (flag[order] for flag in flags)
    trace = Trace(
        name=name,
        user_ids=tuple(user_ids),
        span_s=span_s,
        offsets=np.searchsorted(user[order], np.arange(len(user_ids) + 1)),
        times_s=times_s[order],
        online=online,
        charging=charging,
        unmetered=unmetered,
        load=np.zeros(order.size),
    )
    return without_repeats(trace)


def trace_of_intervals(
    name: str,
    user_ids: Sequence[str],
    span_s: IntArray,
    user: IntArray,
    start_s: IntArray,
    stop_s: IntArray,
) -> Trace:
    """Return a trace of users who are online, charging and unmetered in intervals [start, stop).

    Args:
        name: name for messages.
        user_ids: name of every user [U].
        span_s: length of every record [U].
        user: user of each interval [I].
        start_s: seconds after the beginning of the record [I]; ascending within a user.
        stop_s: end, as `start_s` [I]; intervals of a user may touch, must not overlap or be empty.
    """
    touches = (user[1:] == user[:-1]) & (start_s[1:] == stop_s[:-1])
    opens = np.concatenate([[True], ~touches])[: user.size]
    closes = np.concatenate([~touches, [True]])[: user.size] & (stop_s < span_s[user])
    rests = np.setdiff1d(np.arange(len(user_ids)), user[start_s == 0])
    available = np.repeat([False, True], [rests.size + int(closes.sum()), int(opens.sum())])
    return trace_of_changes(
        name,
        user_ids,
        span_s,
        np.concatenate([rests, user[closes], user[opens]]),
        np.concatenate([np.zeros_like(rests), stop_s[closes], start_s[opens]]),
        (available, available, available),
    )


def held(codes: IntArray, first: IntArray) -> IntArray:
    """Replace -1 by the code of the user's last known row, or 0 before any [R].

    Args:
        codes: code of each row, sorted by user; -1: unknown [R].
        first: first row of the user of each row [R].
    """
    known = np.maximum.accumulate(np.where(codes >= 0, np.arange(codes.size), 0))
    is_known = (known >= first) & (codes[known] >= 0)
    return np.where(is_known, codes[known], 0)
