"""Records of a source, and their conversion to a `Trace` of days from local midnight.

A source counts seconds on a clock of its own, and its records begin at any time of the day. Where
a user's local clock is `utc_offset_s` ahead of that of the source, a record that begins at second b
of the source begins (b + utc_offset_s) mod 86400 seconds after the user's midnight. The record is
rotated by this time, so that nights of all users are at night.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.column_choice import counted
from fleetsim.fleet.traces.ordered_rows import begins, held, last_lasting, num_unordered
from fleetsim.fleet.traces.usage.trace import (
    FLAGS,
    STATES,
    Trace,
    rotated,
    shortened,
    without_repeats,
)

MemberT = TypeVar("MemberT")
PartT = TypeVar("PartT")
Unknown = Literal["hold", "offline"]
"""State at times without any sample: the last known state holds, or the user is offline."""

DAY_S = 86_400
HOUR_S = 3_600
MOST_UTC_OFFSET_H = 14.0
"""Largest offset from UTC, that of Kiribati."""
_UNKNOWN_AFTER_S = 600


@dataclass(frozen=True, slots=True, eq=False)
class UsageRecords:
    """A trace as published, each record from its own beginning on."""

    trace: Trace
    begin_s: IntArray
    """Second at which each record begins, after a midnight of the source's clock [U]."""
    utc_offset_s: IntArray
    """Seconds by which each user's local clock is ahead of the source's [U]."""
    notes: tuple[str, ...] = ()


def local_days(
    records: UsageRecords, *, utc_offset_h: float | None = None, whole_days: bool = False
) -> Trace:
    """Return the records as days that begin at each user's midnight.

    `utc_offset_h` are hours by which every user's clock is ahead of the source's (None: as in the
    records). `whole_days` cuts each record to whole days, so that the hour of the day is the same
    in every lap; users with less than a day are dropped.
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
    states: Mapping[str, NDArray[Any]],
) -> Trace:
    """Return a trace of unordered changes of state; repeats are dropped.

    Users [U] have names and spans; each change [C] has its user, its second of the record, and the
    states from then on, by name (`STATES`); any other is `at_first`.
    """
    order = np.lexsort((times_s, user))
    columns: dict[str, Any] = {
        state: states[state][order] if state in states else np.full(order.size, at_first(state))
        for state in STATES
    }
    trace = Trace(
        name=name,
        user_ids=tuple(user_ids),
        span_s=span_s,
        offsets=np.searchsorted(user[order], np.arange(len(user_ids) + 1)),
        times_s=times_s[order],
        **{state: columns[state].astype(kind) for state, kind in STATES.items()},
    )
    return without_repeats(trace)


def at_first(state: str) -> float:
    """Return a state before anything is known of it: online, and nothing else."""
    return float(state == "online")


def trace_of_samples(
    name: str,
    user_ids: Sequence[str],
    user: IntArray,
    at_s: IntArray,
    states: Mapping[str, FloatArray],
    unknown: Unknown,
    *,
    last_s: int | None = None,
) -> tuple[Trace, IntArray, int, tuple[str, ...]]:
    """Return the trace of samples, each of which holds until the next one of its user.

    With it come the row of each user's first sample [U], the number of samples with no other within
    600 s after them, and notes. Samples are sorted by time, and of several of one second the last
    one counts. A missing state (NaN) is that of the sample before. If the next sample is more than
    600 s later, the time beyond 600 s is unknown. Each user [U] has a sample [R]; the last lasts
    `last_s`, or as long as the median of the others.
    """
    unordered = num_unordered(user, at_s)
    order = np.lexsort((at_s, user))
    user, at_s = user[order], at_s[order]
    is_last = np.append(begins(user, at_s)[1:], True)
    values = {
        state: held(column[order], user, at_first(state))[is_last]
        for state, column in states.items()
    }
    order, user, at_s = order[is_last], user[is_last], at_s[is_last]
    first = np.flatnonzero(begins(user))
    end = np.append(first[1:], user.size)
    step_s, begin_s = np.diff(at_s), at_s[first]
    lasts_s = [
        last_s or last_lasting(at_s[begin:stop], 1)
        for begin, stop in zip(first.tolist(), end.tolist(), strict=True)
    ]
    silent = np.flatnonzero(~begins(user)[1:] & (step_s > _UNKNOWN_AFTER_S))
    offline = silent if unknown == "offline" else silent[:0]
    source = np.concatenate([np.arange(user.size), offline])
    values = {state: column[source] for state, column in values.items()}
    values.setdefault("online", np.ones(source.size))[user.size :] = 0.0
    trace = trace_of_changes(
        name,
        user_ids,
        at_s[end - 1] - begin_s + np.array(lasts_s),
        user[source],
        np.concatenate([at_s, at_s[offline] + _UNKNOWN_AFTER_S]) - begin_s[user[source]],
        values,
    )
    notes = (
        *counted(unordered, "earlier than the row above of their user; sorted by time"),
        *counted((~is_last).sum(), "of the same second as a later one of their user, which counts"),
    )
    return trace, order[first], silent.size, notes


def trace_of_intervals(
    name: str,
    user_ids: Sequence[str],
    span_s: IntArray,
    user: IntArray,
    start_s: IntArray,
    stop_s: IntArray,
) -> Trace:
    """Return a trace of users who are online, charging and unmetered in intervals [start, stop).

    Users [U] have names and spans. Intervals [I] have their user, and seconds after the beginning
    of the record, ascending within a user; they may touch, but must not overlap or be empty.
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
        dict.fromkeys(FLAGS, available),
    )


def united(who: IntArray, start_s: IntArray, stop_s: IntArray) -> tuple[IntArray, IntArray]:
    """Return rows [I], sorted by user and begin, that open united intervals, and their ends [J]."""
    # Ends are made to rise with the user, so that one running maximum serves all users.
    base = int(start_s.min())
    width = int(stop_s.max()) - base + 1
    reach = np.maximum.accumulate(stop_s - base + who * width)
    is_open = np.append(True, (start_s[1:] - base + who[1:] * width) > reach[:-1])
    opens = np.flatnonzero(is_open)
    last = np.append(opens[1:], who.size) - 1
    return opens, reach[last] - who[last] * width + base


class UnusableError(ValueError):
    """Reason why a member of a source is left out, such as `with an unknown event`."""


def usable(
    path: Path, members: Mapping[Any, MemberT], read: Callable[[Any, MemberT], PartT], *, what: str
) -> tuple[dict[str, PartT], tuple[str, ...]]:
    """Return what `read` makes of members by name, and notes on those that are unusable."""
    parts: dict[str, PartT] = {}
    left_out: Counter[str] = Counter()
    for name, member in members.items():
        try:
            parts[str(name)] = read(name, member)
        except UnusableError as fault:
            left_out[str(fault)] += 1
    listed = ", ".join(f"{num} {reason}" for reason, num in sorted(left_out.items()))
    if not parts:
        raise DataError(
            f"{path}: none of {len(members)} {what} can be read ({listed}); check the file"
        )
    notes = (f"{len(parts)} of {len(members)} {what}",)
    return parts, (*notes, f"left out: {listed}") if left_out else notes
