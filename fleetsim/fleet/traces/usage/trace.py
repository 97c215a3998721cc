"""Usage traces: states of people's devices that hold from one whole second to another.

Each user's record covers [0, span) seconds, whole ones, so that laps of a record add up exactly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.traces.ordered_rows import durations
from fleetsim.read_only import freeze

FLAGS: Final = ("online", "charging", "unmetered")
STATES: Final = {**dict.fromkeys(FLAGS, np.bool_), "load": np.float64, "ram_byte": np.int64}
"""States and their types, in the order of `Trace.columns`."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Records of U users with C changes in all, user by user.

    The changes of user u are those with index offsets[u] up to (not including) offsets[u + 1].

    Invariants: users have distinct names and last a second or more; every user has a change at
    second 0; times strictly increase within a user and stay below its span; load is in [0, 1);
    ram_byte is 0 or more. Readers check what a file says; arrays cannot be written to.
    """

    name: str
    """Folder or file that it was read from, for messages."""
    user_ids: tuple[str, ...]
    """Name of every user [U]."""
    span_s: IntArray
    """Length of every user's record [U]; then it begins anew."""
    offsets: IntArray
    """Index of each user's first change, and the end of the last user [U+1]."""
    times_s: IntArray
    """Seconds after the beginning of the user's record [C]."""
    online: BoolArray
    """Reachable by the server from this change on [C]."""
    charging: BoolArray
    """On the charger [C]."""
    unmetered: BoolArray
    """On a network that costs nothing by the byte, such as Wi-Fi [C]."""
    load: FloatArray
    """Fraction of the processor that other apps take [C]."""
    ram_byte: IntArray
    """Memory that other apps take [C]."""

    def __post_init__(self) -> None:
        freeze(self.span_s, self.offsets, self.times_s, *self.columns)

    @property
    def num_users(self) -> int:
        """Number of users U."""
        return len(self.user_ids)

    @property
    def num_changes(self) -> int:
        """Number of changes C."""
        return int(self.times_s.size)

    @property
    def lasts_s(self) -> IntArray:
        """Duration of each change's state [C]."""
        return durations(self.times_s, self.offsets, self.span_s)

    @property
    def columns(self) -> tuple[BoolArray, BoolArray, BoolArray, FloatArray, IntArray]:
        """State columns: online, charging, unmetered, load, ram_byte, each [C]."""
        return self.online, self.charging, self.unmetered, self.load, self.ram_byte


def is_change(offsets: IntArray, columns: Sequence[NDArray[np.generic]]) -> BoolArray:
    """Return True for rows of columns [C] that differ from the row above or begin a user [C]."""
    differs = np.zeros(columns[0].size, dtype=np.bool_)
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    differs[offsets[:-1]] = True
    return differs


def without_repeats(trace: Trace) -> Trace:
    """Return the same states in as few changes as possible."""
    kept = np.flatnonzero(is_change(trace.offsets, trace.columns))
    return _picked(trace, kept, trace.times_s[kept], np.searchsorted(kept, trace.offsets))


def joined(traces: Sequence[Trace]) -> Trace:
    """Return the users of several traces, in their order, under the name of the first."""
    ends = np.cumsum([trace.times_s.size for trace in traces])
    offsets = [
        trace.offsets[1:] + end - trace.times_s.size
        for trace, end in zip(traces, ends, strict=True)
    ]
    columns: Iterable[Any] = map(
        np.concatenate, zip(*(trace.columns for trace in traces), strict=True)
    )
    return Trace(
        traces[0].name,
        tuple(user for trace in traces for user in trace.user_ids),
        np.concatenate([trace.span_s for trace in traces]),
        np.concatenate([np.zeros(1, dtype=np.int64), *offsets]),
        np.concatenate([trace.times_s for trace in traces]),
        *columns,
    )


def rotated(trace: Trace, by_s: IntArray) -> Trace:
    """Return records that begin at another second: new(t) = old((t - by) mod span), user by user.

    A record that began `by` seconds [U] after midnight then begins at midnight; the time before its
    old beginning is filled from its end.
    """
    by_s = by_s % trace.span_s
    count = np.diff(trace.offsets)
    times_s = (trace.times_s + np.repeat(by_s, count)) % np.repeat(trace.span_s, count)
    # One time axis for all users gives the state in force where each new record begins.
    begins_s = np.concatenate([[0], np.cumsum(trace.span_s)])
    axis_s = np.repeat(begins_s[:-1], count) + trace.times_s
    seam_s = begins_s[:-1] + (trace.span_s - by_s) % trace.span_s
    seam = np.searchsorted(axis_s, seam_s, side="right") - 1
    inner = np.flatnonzero(times_s > 0)
    users = np.arange(trace.num_users, dtype=np.int64)
    source = np.concatenate([seam, inner])
    times_s = np.concatenate([np.zeros_like(users), times_s[inner]])
    user = np.concatenate([users, np.repeat(users, count)[inner]])
    order = np.lexsort((times_s, user))
    offsets = np.searchsorted(user[order], np.arange(trace.num_users + 1))
    return _picked(trace, source[order], times_s[order], offsets)


def shortened(trace: Trace, users: IntArray, span_s: IntArray) -> Trace:
    """Return the first `span_s` seconds [n] of the records of some users [n], ascending."""
    until_s = np.zeros(trace.num_users, dtype=np.int64)
    until_s[users] = span_s
    user = np.repeat(np.arange(trace.num_users), np.diff(trace.offsets))
    kept = np.flatnonzero(trace.times_s < until_s[user])
    user_ids = tuple(trace.user_ids[user] for user in users.tolist())
    offsets = np.searchsorted(user[kept], np.append(users, trace.num_users))
    columns: Iterable[Any] = (column[kept] for column in trace.columns)
    return Trace(trace.name, user_ids, span_s, offsets, trace.times_s[kept], *columns)


def _picked(trace: Trace, source: IntArray, times_s: IntArray, offsets: IntArray) -> Trace:
    """Return the states of the changes `source`, at other times."""
    columns: Iterable[Any] = (column[source] for column in trace.columns)
    return Trace(trace.name, trace.user_ids, trace.span_s, offsets, times_s, *columns)
