"""Which share of the processor people's apps take: sessions by hour of day, on top of any trace.

After the idea of LiveLab (Shepard et al., "LiveLab: measuring wireless networks and smartphone
users in the field", 2010), a phone's load is that of the apps in use: sessions of user u begin as a
Poisson process of rate r_u w(h) a day, where h is the hour and log r_u is normal between users; a
session is of one kind of app, lasts a log-normal time and takes the load of its kind. Sessions that
run at once add up, with the user's background load of the day, to at most MOST_LOAD_PERCENT.

Loads of video and games are measured slowdowns of training beside them; docs/models/usage.md has
the sources.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.fleet.trace import Trace, without_repeats
from fleetsim.fleet.trace_records import DAY_S, HOUR_S


class App(NamedTuple):
    """A kind of app."""

    name: str
    chance: float
    """Share of the sessions."""
    median_s: float
    """Median length of a session."""
    load_percent: int
    """Share of the processor that a session takes."""


APPS = (
    App("messages", 0.45, 40.0, 10),
    App("browser", 0.28, 120.0, 15),
    App("video", 0.12, 480.0, 20),
    App("game", 0.08, 480.0, 37),
    App("music", 0.07, 1500.0, 6),
)
LENGTH_SIGMA = 1.0
LENGTH_MOST_S = 7200.0
SESSIONS_PER_DAY_MEDIAN = 40.0
SESSIONS_PER_DAY_SIGMA = 0.6
HOUR_WEIGHTS = (3, 2, 1, 1, 1, 1, 3, 6, 8, 8, 8, 9, 10, 9, 9, 9, 9, 10, 11, 12, 12, 11, 9, 6)
"""Sessions that begin in each hour of the day, relative to each other."""
BACKGROUND_PERCENT = (1, 2, 3, 4, 5, 8, 11, 15, 21, 38)
"""Load of a user's other processes on one day: each of these in a tenth of the days."""
MOST_LOAD_PERCENT = 95


class _Steps(NamedTuple):
    """Changes of the load of users, in any order."""

    user: IntArray
    at_s: IntArray
    percent: IntArray
    """By how much the load changes."""


def with_app_sessions(trace: Trace, *, seed: int) -> Trace:
    """The same lives with the load of app sessions in place of the trace's own load.

    User u's sessions depend on the seed and u, not on the number of users. A session that runs over
    the end of a record goes on at its beginning.

    Args:
        trace: the lives; records begin at midnight.
        seed: of all draws.
    """
    steps = [_lived(seed, user, int(span_s)) for user, span_s in enumerate(trace.span_s.tolist())]
    added = _Steps(*(np.concatenate(column) for column in zip(*steps, strict=True)))
    num_changes = trace.num_changes
    user = np.repeat(np.arange(trace.num_users), np.diff(trace.offsets))
    # Rows of the trace, with no change of load, and changes of load, with no row of their own.
    who = np.concatenate([user, added.user])
    at_s = np.concatenate([trace.times_s, added.at_s])
    percent = np.concatenate([np.zeros(num_changes, dtype=np.int64), added.percent])
    row = np.concatenate([np.arange(num_changes), np.full(added.user.size, -1)])
    order = np.lexsort((at_s, who))
    who, at_s, percent, row = who[order], at_s[order], percent[order], row[order]
    # Every user has a row at second 0, so the latest row is the user's own.
    row = np.maximum.accumulate(row)
    total = np.cumsum(percent)
    total -= np.repeat(
        np.concatenate([[0], total])[np.searchsorted(who, np.arange(trace.num_users))],
        np.bincount(who, minlength=trace.num_users),
    )
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
            load=np.minimum(total[is_last], MOST_LOAD_PERCENT) / 100.0,
        )
    )


def _lived(seed: int, user: int, span_s: int) -> _Steps:
    """The sessions and the background load of one user."""
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
    percent = np.array([kind.load_percent for kind in APPS])[app]
    begun = begin_s < span_s
    begin_s, end_s, percent = begin_s[begun], (begin_s + length_s)[begun], percent[begun]
    runs_over = end_s > span_s
    level = stream.choice(BACKGROUND_PERCENT, size=num_days)
    day_s = np.arange(num_days) * DAY_S
    at_s = [begin_s, end_s[~runs_over], end_s[runs_over] - span_s, 0 * end_s[runs_over], day_s]
    change = [
        percent,
        -percent[~runs_over],
        -percent[runs_over],
        percent[runs_over],
        np.diff(level, prepend=0),
    ]
    times_s = np.concatenate(at_s)
    inside = times_s < span_s
    return _Steps(np.full(int(inside.sum()), user), times_s[inside], np.concatenate(change)[inside])
