"""Event logs of FLASH: lock, charger and network of phones, as `UsageRecords`.

The form is that of `state_traces.json` of FLASH (Yang et al., WWW 2021; PKU-Chengxu/FLASH@70e47eb,
`models/timer.py` reads it): {"<i>": {"guid": .., "model": .., "messages": LINES}}, where every line
is `YYYY-mm-dd HH:MM:SS`, a tab and an event. docs/models/usage.md has the effect of each event.
"""

import math
import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.json_object import read_json_object
from fleetsim.fleet.traces.ordered_rows import begins, held
from fleetsim.fleet.traces.usage.records import (
    DAY_S,
    Unknown,
    UnusableError,
    UsageRecords,
    trace_of_changes,
    usable,
)
from fleetsim.quoting import quoted

OnlineRule = Literal["locked", "always"]
"""Rule by which a phone of an event log is online: while its screen is locked, or always."""

_EPOCH = datetime(1970, 1, 1)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
_LEVEL = re.compile(r"[0-9]{1,3}(\.[0-9]+)?%")
_CELLULAR, _WIFI, _UNKNOWN = 0, 1, 2


class _Event(NamedTuple):
    """State of a phone that an event reports; NaN: not reported."""

    locked: float = math.nan
    charging: float = math.nan
    network: float = math.nan


_NOTHING = _Event()
_EVENTS = {
    **dict.fromkeys(("screen_on", "screen_off"), _NOTHING),
    "screen_lock": _Event(locked=1),
    "screen_unlock": _Event(locked=0),
    "battery_charged_on": _Event(charging=1),
    "battery_charged_off": _Event(charging=0),
    "wifi": _Event(network=_WIFI),
    **dict.fromkeys(("2g", "3g", "4g", "5g"), _Event(network=_CELLULAR)),
    "unknown": _Event(network=_UNKNOWN),
}


class _Log(NamedTuple):
    """Events of one phone, in order of time."""

    times_s: IntArray
    """Seconds after 1970-01-01 00:00 on the source's clock [E]."""
    states: FloatArray
    """State that each event reports, in the order of `_Event` [E, 3]."""
    was_sorted: bool


def read_flash(path: Path, unknown: Unknown, online: OnlineRule) -> UsageRecords:
    """Read event logs; phones whose log cannot be read are left out and counted in the notes.

    A record lasts from a phone's first event to its last. Until an event says otherwise, a phone is
    unlocked, off the charger and on a metered network. At an Unknown network `hold` keeps the
    network before it, `offline` makes the phone unreachable.
    """
    logs, notes = usable(path, _phones(path), _log, what="phones")
    num_sorted = sum(not log.was_sorted for log in logs.values())
    notes += (f"{num_sorted} logs were not in order of time and were sorted",) * bool(num_sorted)
    size = np.array([log.times_s.size for log in logs.values()])
    begin_s = np.array([log.times_s[0] for log in logs.values()])
    span_s = np.array([log.times_s[-1] for log in logs.values()]) - begin_s
    user = np.repeat(np.arange(size.size), size)
    at_s = np.concatenate([log.times_s for log in logs.values()]) - begin_s[user]
    locked, charging, network = np.concatenate([log.states for log in logs.values()]).T
    is_wifi = held(np.where(network == _UNKNOWN, np.nan, network), user) == _WIFI
    is_online: BoolArray = np.ones(user.size, dtype=np.bool_)
    if online == "locked":
        is_online &= held(locked, user) == 1
    if unknown == "offline":
        is_online &= held(network, user) != _UNKNOWN
    states = {"online": is_online, "charging": held(charging, user) == 1, "unmetered": is_wifi}
    # The last event of a second counts; a state that begins at the end has no duration.
    kept = np.append(begins(user, at_s)[1:], True) & (at_s < span_s[user])
    trace = trace_of_changes(
        str(path),
        tuple(logs),
        span_s,
        user[kept],
        at_s[kept],
        {state: column[kept] for state, column in states.items()},
    )
    return UsageRecords(trace, begin_s % DAY_S, np.zeros_like(begin_s), notes)


def _log(_: str, messages: str) -> _Log:
    """Return the log of one phone."""
    times_s: list[int] = []
    states: list[_Event] = []
    for line in messages.split("\n"):
        if not line.strip():
            continue
        time, tab, event = line.strip().partition("\t")
        time, event = time.strip(), event.strip().lower()
        if not tab:
            raise UnusableError("with a line without a tab")
        if _TIME.fullmatch(time) is None:
            raise UnusableError("with a time that is not YYYY-mm-dd HH:MM:SS")
        try:
            since = datetime.fromisoformat(time) - _EPOCH
        except ValueError:
            raise UnusableError("with a time that does not exist") from None
        if event not in _EVENTS and _LEVEL.fullmatch(event) is None:
            raise UnusableError("with an unknown event")
        times_s.append(since.days * DAY_S + since.seconds)
        states.append(_EVENTS.get(event, _NOTHING))
    if not times_s or min(times_s) == max(times_s):
        raise UnusableError("with a log that lasts no second")
    was_sorted = all(before <= after for before, after in pairwise(times_s))
    order = np.argsort(np.array(times_s), kind="stable")
    return _Log(np.array(times_s)[order], np.array(states)[order], was_sorted)


def _phones(path: Path) -> dict[str, str]:
    """Return the messages of every phone."""
    document = read_json_object(path, holds="phones, each with messages")
    for phone, fields in document.items():
        if not isinstance(fields, dict) or not isinstance(fields.get("messages"), str):
            raise DataError(
                f"{path}: phone {quoted(phone)} has no text under messages; add or drop it"
            )
    return {phone: fields["messages"] for phone, fields in document.items()}
