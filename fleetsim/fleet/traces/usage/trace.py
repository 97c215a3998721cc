"""Usage traces: states of people's devices that hold from one whole second to another.

Each user's record covers [0, span) seconds, whole ones, so that laps of a record add up exactly.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.ordered_rows import durations
from fleetsim.quoting import quoted
from fleetsim.read_only import freeze

FLAGS: Final = ("online", "charging", "unmetered")
STATES: Final = (*FLAGS, "load", "ram_byte")
"""Names of the states, in the order of `Trace.columns`."""
Place = Callable[[int], str]
"""Source of the change with this index, for messages: 'states.csv, row 7'."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Records of U users with C changes in all, user by user.

    The changes of user u are those with index offsets[u] up to (not including) offsets[u + 1].

    Invariants: every user has a change at second 0; times strictly increase within a user and stay
    below its span; load is in [0, 1); ram_byte is 0 or more. One that is broken is a `DataError`
    that names the change by `place`. Arrays are copied and cannot be written to.
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
    ram_byte: IntArray | int = 0
    """Memory that other apps take: one number, or one per change [C]; kept as [C]."""
    place: InitVar[Place | None] = None

    def __post_init__(self, place: Place | None) -> None:
        arrays: dict[str, NDArray[Any]] = {
            name: _whole(self.name, name, getattr(self, name))
            for name in ("span_s", "offsets", "times_s", "ram_byte")
        }
        arrays |= {name: np.array(getattr(self, name), dtype=np.bool_) for name in FLAGS}
        arrays["load"] = np.array(self.load, dtype=np.float64)
        if arrays["ram_byte"].ndim == 0:
            arrays["ram_byte"] = np.full(arrays["times_s"].shape, arrays["ram_byte"])
        freeze(*arrays.values())
        for name, array in arrays.items():
            object.__setattr__(self, name, array)
        self._check_shapes()
        self._check_changes(self._place if place is None else place)

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
        assert not isinstance(self.ram_byte, int)
        return self.online, self.charging, self.unmetered, self.load, self.ram_byte

    def _place(self, change: int) -> str:
        user = int(np.searchsorted(self.offsets, change, side="right")) - 1
        row = change - int(self.offsets[user])
        user_id = quoted(self.user_ids[user])
        return f"trace {quoted(self.name)}, user {user_id}, row {row + 1} of the user"

    def _check_shapes(self) -> None:
        num_users, num_changes = len(self.user_ids), self.times_s.size
        if num_users == 0:
            raise DataError(f"trace {quoted(self.name)} is empty; it needs at least one user")
        if len(set(self.user_ids)) < num_users:
            raise DataError(
                f"trace {quoted(self.name)}: a user is named twice; make the names distinct"
            )
        if (
            self.span_s.shape != (num_users,)
            or self.offsets.shape != (num_users + 1,)
            or any(c.shape != (num_changes,) for c in (self.times_s, *self.columns))
            or self.offsets[0] != 0
            or self.offsets[-1] != num_changes
        ):
            raise DataError(
                f"trace {quoted(self.name)}: columns of different lengths; give span_s [U], offsets"
                " [U+1] from 0 to C, and every other column [C]"
            )
        for user in np.flatnonzero(self.offsets[1:] <= self.offsets[:-1])[:1]:
            raise DataError(
                f"trace {quoted(self.name)}: user {quoted(self.user_ids[user])} has no state at"
                " all; give it one at second 0 or drop the user"
            )
        for user in np.flatnonzero(self.span_s <= 0)[:1]:
            raise DataError(
                f"trace {quoted(self.name)}: user {quoted(self.user_ids[user])} has span_s ="
                f" {self.span_s[user]}; it must be at least 1"
            )

    def _check_changes(self, place: Place) -> None:
        times_s, first = self.times_s, self.offsets[:-1]
        for user in np.flatnonzero(times_s[first] != 0)[:1]:
            change = int(first[user])
            raise DataError(
                f"{place(change)}: the first state of user {quoted(self.user_ids[user])} is at"
                f" second {times_s[change]}; it must be at 0"
            )
        step_s = np.diff(times_s)
        step_s[first[1:] - 1] = 1
        for before in np.flatnonzero(step_s <= 0)[:1]:
            if step_s[before] == 0:
                message = f"a second state at second {times_s[before]} of the same user; drop one"
            else:
                message = (
                    f"second {times_s[before + 1]} after {times_s[before]}; sort the user's rows"
                )
            raise DataError(f"{place(int(before) + 1)}: {message}")
        span_s = np.repeat(self.span_s, np.diff(self.offsets))
        for change in np.flatnonzero(times_s >= span_s)[:1]:
            raise DataError(
                f"{place(int(change))}: second {times_s[change]} is outside the user's span of"
                f" {span_s[change]} s; drop the row or lengthen the span"
            )
        in_range = (self.load >= 0.0) & (self.load < 1.0)
        for change in np.flatnonzero(~in_range)[:1]:
            raise DataError(
                f"{place(int(change))}: load = {self.load[change]} is outside [0, 1); give the"
                " fraction of the processor that other apps take"
            )
        for change in np.flatnonzero(self.columns[4] < 0)[:1]:
            raise DataError(
                f"{place(int(change))}: ram_byte = {self.columns[4][change]} is below 0; give the"
                " bytes that other apps hold"
            )


def _whole(trace: str, name: str, values: ArrayLike) -> IntArray:
    array = np.array(values)
    if array.dtype.kind not in "iu":
        raise DataError(
            f"trace {quoted(trace)}: {name} must be whole numbers, not {array.dtype}; round"
        )
    return array.astype(np.int64)


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
