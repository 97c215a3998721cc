"""Published traces of FLASH, as `UsageRecords`: event logs of phones, and their ready times.

The source is Yang et al., WWW 2021 (PKU-Chengxu/FLASH@70e47eb; `models/timer.py` reads the logs).
Times count from a midnight. Three forms are read:

- `state_traces.json`: {"<i>": {"guid": .., "model": .., "messages": LINES}}, where every line is
  `YYYY-mm-dd HH:MM:SS`, a tab and an event of lock, charger or network; docs/models/usage.md has
  the effect of each.
- `ready_strict.json`, `ready_loose.json`: {USER: [[start, end], ...]}, intervals in which a phone
  may train. No span is stated: a record is the whole days around a user's intervals.
- the cache of `models/timer.py`, as FLHetBench publishes it in `data/cached_timers.json`:
  {GUID: {"isSuccess", "trace_start", "trace_end", "ready_time"}}.

A phone is online, charging and unmetered while it is ready, and none of them otherwise.
"""

import json
import math
import os
import re
from collections import Counter
from datetime import datetime
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.ordered_rows import begins, held
from fleetsim.fleet.traces.usage.records import (
    DAY_S,
    Unknown,
    UnusableError,
    UsageRecords,
    trace_of_changes,
    trace_of_intervals,
    united,
    usable,
)
from fleetsim.host import paths
from fleetsim.host.unpacking import GZIP_FAULTS, unpacked
from fleetsim.quoting import quoted

OnlineRule = Literal["locked", "always"]
"""Rule by which a phone of an event log is online: while its screen is locked, or always."""

_EPOCH = datetime(1970, 1, 1)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
_LEVEL = re.compile(r"[0-9]{1,3}(\.[0-9]+)?%")
_CELLULAR, _WIFI, _UNKNOWN = 0, 1, 2
_MOST_S = 1e11
_MOST_BYTE = 1 << 30
_MOST_OBJECTS = 4_000_000
_SPAN = ("trace_start", "trace_end")


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


def read_flash(path: Path, unknown: Unknown, online: OnlineRule) -> UsageRecords:
    """Read event logs; phones whose log cannot be read are left out and counted in the notes.

    A record lasts from a phone's first event to its last. Until an event says otherwise, a phone is
    unlocked, off the charger and on a metered network. At an Unknown network `hold` keeps the
    network before it, `offline` makes the phone unreachable.
    """
    logs, notes = usable(path, _phones(path), _log, what="phones")
    times_s, states_of, was_sorted = zip(*logs.values(), strict=True)
    num_sorted = was_sorted.count(False)
    notes += (f"{num_sorted} logs were not in order of time and were sorted",) * bool(num_sorted)
    size = np.array([at_s.size for at_s in times_s])
    begin_s = np.array([at_s[0] for at_s in times_s])
    span_s = np.array([at_s[-1] for at_s in times_s]) - begin_s
    user = np.repeat(np.arange(size.size), size)
    at_s = np.concatenate(times_s) - begin_s[user]
    locked, charging, network = np.concatenate(states_of).T
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


def _log(_: str, messages: str) -> tuple[IntArray, FloatArray, bool]:
    """Return the events of one phone in order of time, and whether they were in that order.

    They have seconds after 1970-01-01 00:00 on the source's clock [E], and the state that each
    reports, in the order of `_Event` [E, 3].
    """
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
    return np.array(times_s)[order], np.array(states)[order], was_sorted


def _phones(path: Path) -> dict[str, str]:
    """Return the messages of every phone."""
    document = _read_json_object(path, holds="phones, each with messages")
    for phone, fields in document.items():
        if not isinstance(fields, dict) or not isinstance(fields.get("messages"), str):
            raise DataError(
                f"{path}: phone {quoted(phone)} has no text under messages; add or drop it"
            )
    return {phone: fields["messages"] for phone, fields in document.items()}


def read_flash_ready(path: Path) -> UsageRecords:
    """Read ready times; phones without a usable interval are left out and counted in the notes.

    Overlapping and touching intervals become their union, unordered ones are sorted, those that
    last no second are dropped, and those that leave the span of the log are cut; all are counted.
    """
    document = _read_json_object(path, holds="phones, each with [start, end] intervals")
    changed: Counter[str] = Counter()
    phones, left_out = usable(path, document, partial(_phone, path, changed), what="phones")
    of_phones, begins_s, ends_s = zip(*phones.values(), strict=True)
    begin_s, end_s = np.array([begins_s, ends_s], dtype=np.int64)
    user = np.repeat(np.arange(len(phones)), list(map(len, of_phones)))
    pairs: IntArray = np.array(list(chain.from_iterable(of_phones)))
    opens, stop_s = united(user, pairs[:, 0], pairs[:, 1])
    changed["overlap or touch the one before; joined to their union"] = len(pairs) - opens.size
    user, start_s = user[opens], pairs[opens, 0]
    trace = trace_of_intervals(
        str(path),
        tuple(phones),
        end_s - begin_s,
        user,
        start_s - begin_s[user],
        stop_s - begin_s[user],
    )
    notes = (f"{left_out[0]}, {opens.size} intervals", *left_out[1:])
    notes += tuple(f"{num} intervals {what}" for what, num in sorted((+changed).items()))
    return UsageRecords(trace, begin_s % DAY_S, np.zeros_like(begin_s), notes)


def _phone(
    path: Path, changed: Counter[str], name: str, fields: Any
) -> tuple[list[tuple[int, int]], int, int]:
    """Return a phone's sorted intervals, begin and end, and count in `changed` those dropped."""
    span: tuple[int, int] | None = None
    listed = fields
    if isinstance(fields, dict):
        listed = fields.get("ready_time")
        if fields.get("isSuccess") is False:
            raise UnusableError("without a readable log")
        begin, end = (_number(fields.get(key)) for key in _SPAN)
        if not begin < end:
            raise UnusableError("without a span")
        span = math.floor(begin), math.floor(end)
    if not isinstance(listed, list):
        raise DataError(
            f"{path}: phone {name!a} has no list of [start, end] intervals; add or drop it"
        )
    pairs: list[tuple[int, int]] = []
    for number, pair in enumerate(listed, start=1):
        if not (isinstance(pair, list) and len(pair) == 2 and all(map(_is_time, pair))):
            raise DataError(
                f"{path}: phone {name!a}, interval {number}: is not [start, end] in seconds;"
                " correct or drop it"
            )
        pairs.append((math.floor(pair[0]), math.floor(pair[1])))
    is_kept = [start < end for start, end in pairs]
    changed["dropped that last no second"] += is_kept.count(False)
    kept = [pair for pair, is_one in zip(pairs, is_kept, strict=True) if is_one]
    if span is not None:
        cut = [(max(start, span[0]), min(end, span[1])) for start, end in kept]
        changed["cut to the span of their log"] += sum(
            a != b for a, b in zip(cut, kept, strict=True)
        )
        kept = [(start, end) for start, end in cut if start < end]
    if not kept:
        raise UnusableError("never ready")
    changed["not in order of time; sorted"] += sum(
        later < earlier for earlier, later in pairwise(kept)
    )
    if span is None:
        last = max(stop for _, stop in kept)
        span = min(kept)[0] // DAY_S * DAY_S, -(-last // DAY_S) * DAY_S
    return sorted(kept), *span


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < _MOST_S


def _number(value: Any) -> float:
    return float(value) if _is_time(value) else math.nan


def _read_json_object(path: Path, *, holds: str) -> dict[str, Any]:
    """Return the members of the object in a .json or .json.gz file, which `holds` names."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = dict(pairs)
        if len(names) < len(pairs):
            raise DataError(f"{path}: a key stands twice in one object; rename or drop one")
        return names

    def refused(constant: str) -> NoReturn:
        raise DataError(f"{path}: {constant} is no JSON; correct it")

    try:
        document = json.loads(_json_text(path), object_pairs_hook=distinct, parse_constant=refused)
    except json.JSONDecodeError as fault:
        raise DataError(
            f"{path}, line {fault.lineno}: is not JSON ({fault.msg}, column {fault.colno}); fetch"
            " the file again"
        ) from fault
    except (RecursionError, MemoryError, ValueError) as fault:
        raise DataError(f"{path}: is not JSON of this form ({fault}); check the file") from fault
    if not isinstance(document, dict) or not document:
        raise DataError(f"{path}: must be a JSON object of {holds}")
    return document


def _json_text(path: Path) -> str:
    try:
        with paths.opened(path) as file:
            if path.suffix == ".gz":
                content = unpacked(file, os.fstat(file.fileno()).st_size, str(path)).read()
            else:
                content = file.read(_MOST_BYTE + 1)
    except GZIP_FAULTS as fault:
        raise DataError(f"{path}: cannot be read ({fault}); copy or fetch it again") from fault
    if len(content) > _MOST_BYTE:
        raise DataError(f"{path}: holds more than {_MOST_BYTE >> 20} MiB; split it")
    # Each becomes a Python object of sixty bytes and more.
    if content.count(b"{") + content.count(b"[") > _MOST_OBJECTS:
        raise DataError(f"{path}: holds more than {_MOST_OBJECTS} objects and lists; split it")
    return content.decode("utf-8-sig")
