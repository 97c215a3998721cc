"""Load and memory of app sessions by hour of day, drawn for any trace.

As in LiveLab (Shepard et al., "LiveLab: measuring wireless networks and smartphone users in the
field", 2010), the load of a phone is that of the apps in use. Sessions of user u begin as a Poisson
process of rate r_u w(h) a day, where h is the hour and log r_u is normal between users. A session
has one kind of app, a log-normal length, and the load and memory of its kind. Sessions at the same
time add up; loads, with the user's background load of the day, to at most MOST_LOAD_PERCENT. A
closed app takes no memory.

Loads of video and games are measured slowdowns of training at the same time; the memory of video
was measured too; docs/models/usage.md has the sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.fleet.traces.usage.records import DAY_S, HOUR_S
from fleetsim.fleet.traces.usage.trace import Trace, without_repeats
from fleetsim.units import BYTE_PER_MIB


class App(NamedTuple):
    """A kind of app."""

    name: str
    chance: float
    """Share of the sessions."""
    median_s: float
    """Median length of a session."""
    load_percent: int
    """Share of the processor that a session takes."""
    ram_mib: int
    """Memory that a session takes."""


APPS = (
    App("messages", 0.45, 40.0, 10, 128),
    App("browser", 0.28, 120.0, 15, 256),
    App("video", 0.12, 480.0, 20, 256),
    App("game", 0.08, 480.0, 37, 768),
    App("music", 0.07, 1500.0, 6, 128),
)
LENGTH_SIGMA = 1.0
LENGTH_MOST_S = 7200.0
SESSIONS_PER_DAY_MEDIAN = 40.0
SESSIONS_PER_DAY_SIGMA = 0.6
HOUR_WEIGHTS = (3, 2, 1, 1, 1, 1, 3, 6, 8, 8, 8, 9, 10, 9, 9, 9, 9, 10, 11, 12, 12, 11, 9, 6)
"""Sessions that begin in each hour of the day, relative to each other."""
BACKGROUND_PERCENT = (1, 2, 3, 4, 5, 8, 11, 15, 21, 38)
"""Load of a user's other processes on one day, each with probability 0.1."""
MOST_LOAD_PERCENT = 95


class _AppChanges(NamedTuple):
    """Changes of the load and memory of users' apps, in any order."""

    user: IntArray
    at_s: IntArray
    percent: IntArray
    """Change of the load."""
    ram_byte: IntArray
    """Change of the memory."""


def with_app_sessions(trace: Trace, *, seed: int) -> Trace:
    """Return a trace with load and memory of app sessions in place of its own.

    Records begin at midnight. Sessions of user u depend on the seed and u, not on the number of
    users. A session that passes the end of a record continues at its beginning.
    """
    changes = [_sessions(seed, user, span_s) for user, span_s in enumerate(trace.span_s.tolist())]
    added = _AppChanges(*(np.concatenate(column) for column in zip(*changes, strict=True)))
    num_changes = trace.num_changes
    user = np.repeat(np.arange(trace.num_users), np.diff(trace.offsets))
    # Rows of the trace, which change no app, and changes of apps, which have no row.
    who = np.concatenate([user, added.user])
    at_s = np.concatenate([trace.times_s, added.at_s])
    nothing = np.zeros(num_changes, dtype=np.int64)
    percent = np.concatenate([nothing, added.percent])
    ram_byte = np.concatenate([nothing, added.ram_byte])
    row = np.concatenate([np.arange(num_changes), np.full(added.user.size, -1)])
    order = np.lexsort((at_s, who))
    who, at_s, row = who[order], at_s[order], row[order]
    # Every user has a row at second 0, so the latest row is the user's own.
    row = np.maximum.accumulate(row)
    first = np.searchsorted(who, np.arange(trace.num_users))
    num = np.bincount(who, minlength=trace.num_users)

    def added_up(change: IntArray) -> IntArray:
        total = np.cumsum(change[order])
        of_user: IntArray = total - np.repeat(np.concatenate([[0], total])[first], num)
        return of_user

    total_percent, total_byte = added_up(percent), added_up(ram_byte)
    is_last = np.append((who[1:] != who[:-1]) | (at_s[1:] != at_s[:-1]), True)
    who, at_s, row = who[is_last], at_s[is_last], row[is_last]
    return without_repeats(
        Trace(
            name=trace.name,
            user_ids=trace.user_ids,
            span_s=trace.span_s,
            offsets=np.searchsorted(who, np.arange(trace.num_users + 1)),
            times_s=at_s,
            online=trace.online[row],
            charging=trace.charging[row],
            unmetered=trace.unmetered[row],
            load=np.minimum(total_percent[is_last], MOST_LOAD_PERCENT) / 100.0,
            ram_byte=total_byte[is_last],
        )
    )


def _sessions(seed: int, user: int, span_s: int) -> _AppChanges:
    """Draw the sessions and the background load of one user."""
    stream = rng.stream(seed, "app-sessions", user)
    per_day = SESSIONS_PER_DAY_MEDIAN * np.exp(SESSIONS_PER_DAY_SIGMA * stream.standard_normal())
    num_days = -(-span_s // DAY_S)
    weights = np.array(HOUR_WEIGHTS) / sum(HOUR_WEIGHTS)
    count = stream.poisson(per_day * np.tile(weights, num_days))
    hour = np.repeat(np.arange(24 * num_days), count)
    begin_s = (hour * HOUR_S + np.floor(stream.random(hour.size) * HOUR_S)).astype(np.int64)
    app = stream.choice(len(APPS), p=[kind.chance for kind in APPS], size=hour.size)
    length_s = np.array([kind.median_s for kind in APPS])[app] * np.exp(
        LENGTH_SIGMA * stream.standard_normal(hour.size)
    )
    length_s = np.clip(np.rint(length_s), 1.0, min(LENGTH_MOST_S, span_s)).astype(np.int64)
    begun = begin_s < span_s
    begin_s, end_s, app = begin_s[begun], (begin_s + length_s)[begun], app[begun]
    runs_over = end_s > span_s
    level = stream.choice(BACKGROUND_PERCENT, size=num_days)
    day_s = np.arange(num_days) * DAY_S
    at_s = [begin_s, end_s[~runs_over], end_s[runs_over] - span_s, 0 * end_s[runs_over], day_s]

    def of_sessions(takes: Sequence[int]) -> list[IntArray]:
        taken = np.array(takes, dtype=np.int64)[app]
        return [taken, -taken[~runs_over], -taken[runs_over], taken[runs_over]]

    percent = [*of_sessions([kind.load_percent for kind in APPS]), np.diff(level, prepend=0)]
    ram_byte = [*of_sessions([kind.ram_mib * BYTE_PER_MIB for kind in APPS]), 0 * level]
    times_s = np.concatenate(at_s)
    inside = times_s < span_s
    return _AppChanges(
        np.full(int(inside.sum()), user),
        times_s[inside],
        np.concatenate(percent)[inside],
        np.concatenate(ram_byte)[inside],
    )
